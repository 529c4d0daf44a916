package setup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCallsWaitForTheSameWork(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 2), make(chan error)
	b := &Background{Make: func(r Reporter) error {
		task := r.Begin("Python image")
		task.Step(2, 9, "install packages")
		task.Line("Unpacking numpy")
		begun <- struct{}{}
		return <-goOn
	}}
	failed := make(chan error)
	go func() {
		_, err := b.Await(t.Context(), time.Hour)
		failed <- err
	}()
	<-begun
	status, err := b.Await(t.Context(), 0)
	if err != nil || !strings.HasPrefix(status, "Python image: step 3 of 9 (install packages): Unpacking numpy, ") {
		t.Errorf("got %q, %v", status, err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client has left"))
	if _, err := b.Await(gone, time.Minute); err == nil || err.Error() != "the client has left" {
		t.Errorf("got %v", err)
	}
	goOn <- errors.New("no space left")
	if err := <-failed; err == nil || err.Error() != "no space left" {
		t.Errorf("got %v", err)
	}

	// The next call begins again.
	go func() { goOn <- nil }()
	if status, err := b.Await(t.Context(), time.Hour); status != "" || err != nil {
		t.Errorf("got %q, %v", status, err)
	}
	<-begun
	select {
	case <-begun:
		t.Error("it was made more often than asked for")
	default:
	}
}
