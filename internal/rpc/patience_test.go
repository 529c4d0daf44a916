package rpc

import (
	"errors"
	"testing"
	"time"
)

func TestWhyACallEnds(t *testing.T) {
	const gone = 5100 * time.Millisecond
	for name, test := range map[string]struct {
		reason string
		ago    time.Duration
		want   time.Duration // zero: its client cancels it
	}{
		"the SDK for Python":       {`"timed out after 5s"`, gone, 5 * time.Second},
		"with a part of a second":  {`"Timed out after 2.5 s"`, gone, 2500 * time.Millisecond},
		"without a time":           {`"McpError: MCP error -32001: Request timed out"`, gone, gone},
		"with more than there was": {`"timed out after 3600s"`, gone, gone},
		"no number":                {`"timed out after ..s"`, gone, gone},
		"a user":                   {`"caller cancelled"`, gone, 0},
		"no reason":                {``, gone, 0},
		"no text":                  {`{"timed out":1}`, gone, 0},
	} {
		c := &Call{came: time.Now().Add(-test.ago)}
		var gaveUp *GaveUpError
		err := c.CancelCause([]byte(test.reason))
		if !errors.Is(err, ErrCancelledByClient) || errors.As(err, &gaveUp) != (test.want > 0) || gaveUp != nil && gaveUp.After.Round(100*time.Millisecond) < test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConnectionThatEndsAtALimit(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		time.Second: 0, 4500 * time.Millisecond: 0, 4900 * time.Millisecond: 5 * time.Second, 5100 * time.Millisecond: 5 * time.Second,
		5300 * time.Millisecond: 0, 22 * time.Second: 0, 60 * time.Second: 60 * time.Second, time.Hour: 0,
	} {
		var gaveUp *GaveUpError
		if errors.As(hangUpCause(after), &gaveUp) != (want > 0) || gaveUp != nil && gaveUp.After != want {
			t.Errorf("after %v: %v, want %v", after, gaveUp, want)
		}
	}
	for most, want := range map[time.Duration]time.Duration{
		4 * time.Second: 0, 4900 * time.Millisecond: 5 * time.Second, 9 * time.Second: 5 * time.Second, 31 * time.Second: 30 * time.Second, time.Hour: 300 * time.Second,
	} {
		if got := UsualLimit(most); got != want {
			t.Errorf("UsualLimit(%v) = %v, want %v", most, got, want)
		}
	}
}
