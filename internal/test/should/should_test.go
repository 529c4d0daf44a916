package should

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// heard is a test that keeps what it is told.
type heard struct {
	testing.TB
	text string
}

func (*heard) Helper()                             {}
func (h *heard) Error(args ...any)                 { h.text += fmt.Sprint(args...) }
func (h *heard) Errorf(format string, args ...any) { h.text += fmt.Sprintf(format, args...) }

func TestAFailedCheckIsTold(t *testing.T) {
	h := new(heard)
	if !OK(h, nil) || !Equal(h, 1, 1) || !EqualSlice(h, []string{"a"}, []string{"a"}) || !Len(h, []int{1}, 1) || !Contain(h, "ab", "b") || !Fail(h, io.EOF, "EO") || !Be(h, errors.Join(io.EOF), io.EOF) || !Hold(h, true, "x") || !Give(1, nil)(h, 1) || h.text != "" {
		t.Errorf("what holds is told: %s", h.text)
	}
	for want, check := range map[string]func() bool{
		`EOF: of "x"`:                            func() bool { return OK(h, io.EOF, "of %q", "x") },
		"1 is odd":                               func() bool { return Hold(h, false, "%d is odd", 1) },
		"got 1, want 3":                          func() bool { return Give(1, nil)(h, 3) },
		"EOF":                                    func() bool { return Give(1, io.EOF)(h, 1) },
		"got 1, want 2":                          func() bool { return Equal(h, 1, 2) },
		`got "a", want "b"`:                      func() bool { return Equal[any](h, "a", "b") },
		`got ["a"], want []: list`:               func() bool { return EqualSlice(h, []string{"a"}, nil, "list") },
		"got 1, want 2: [1]":                     func() bool { return Len(h, []int{1}, 2) },
		`there is no "c" in ab`:                  func() bool { return Contain(h, "ab", "c") },
		`got the error <nil>, want ""`:           func() bool { return Fail(h, nil, "") },
		`got the error EOF, want "x"`:            func() bool { return Fail(h, ErrOf(0, io.EOF), "x") },
		"got the error unexpected EOF, want EOF": func() bool { return Be(h, io.ErrUnexpectedEOF, io.EOF) },
	} {
		h.text = ""
		if check() || h.text != want {
			t.Errorf("it told %q, want %q", h.text, want)
		}
	}
}
