package kernel

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

func TestAMessageThatIsTooLargeIsNotSent(t *testing.T) {
	should.Be(t, should.ErrOf(Encode(strings.Repeat("x", protocol.MaxToSupervisor))), errFrameTooLarge)
	if text, err := Encode(map[string]string{"code": "line\nbreak \x00 \"quoted\" é"}); err != nil || string(text) != `{"code":"line\nbreak \u0000 \"quoted\" é"}` {
		t.Errorf("got %s, %v", text, err)
	}
}

// played is a run that nobody waits for.
type played struct {
	id    string
	fresh bool
}

func (p played) Request() protocol.Request { return protocol.Request{ID: p.id, Fresh: p.fresh} }
func (played) Timeout() time.Duration      { return time.Minute }
func (played) Stop() <-chan struct{}       { return nil }
func (played) Over() <-chan struct{}       { return nil }
func (played) Follow(*Kernel)              {}
func (played) Advance(protocol.Progress)   {}
func (played) Show(protocol.Display, int)  {}
func (played) Clear()                      {}

func newPlayed() *Container {
	return NewContainer(enginetest.Play(func(io.ReadWriteCloser) {}), []Language{Python, Bash}, Options{Logger: slog.New(slog.DiscardHandler)})
}

// What code sends out is reported with the run that sends it.
func TestTheCurrentRunIsTheLastThatKeepsVariables(t *testing.T) {
	c := newPlayed()
	defer c.Close()
	for _, step := range []struct {
		language Language
		run      played
		want     string
	}{
		{Python, played{"fresh", true}, "fresh"}, {Python, played{"python", false}, "python"}, {Python, played{"later", true}, "python"},
		{Bash, played{"bash", false}, "bash"},
	} {
		c.Kernel(step.language).Follow(step.run)
		for range 20 {
			must.Equal(t, c.Current(), step.want, "after %s", step.run.id)
		}
	}
}

// FuzzTake feeds a kernel whatever a taken-over supervisor could send.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"type":"ready","language":"python","version":"3"}`, `{"type":"attached","languages":[{"language":"python","started":true}],"runs":["r"]}`, `{"type":"done","id":"r","status":"completed","artifacts":[{"path":"x"}]}`,
		`{"type":"display","id":"r","data":{"image/png":"AAAA","text/html":"<b>"}}`, `{"type":"progress","id":"r","last_line":"\ud800"}`,
		`{"type":"peek","id":"r","stdout":{"head":"x","bytes":-1}}`, `{"type":"kernel","language":"python","cause":"memory"}`, `{"type":"kernel","language":"python","state":"missing"}`,
		`{"type":"twins","language":"python","runs":["../x","r"]}`, `{"type":"versions","runs":[""],"not_kept":[{}]}`, `[`, `{"type":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := newPlayed()
		defer c.Close()
		k := c.Kernel(Python)
		k.Follow(played{id: "r"})
		for range 2 {
			_ = c.take(body)
		}
		if twins := k.Twins(); twins != nil && len(twins.Runs) > maxWaysBack {
			t.Errorf("not bounded: %d runs", len(twins.Runs))
		}
		if v := c.Versions(); v != nil && len(v.NotKept) > MaxNotKept {
			t.Errorf("not bounded: %d files", len(v.NotKept))
		}
		if len(c.GoesOn()) > MaxRuns {
			t.Errorf("not bounded: %d runs go on", len(c.GoesOn()))
		}
	})
}

// Runs of two languages may be under one connection, and only one of them hears of the next connection's end.
func TestAConnectionFollowsAllBeforeIt(t *testing.T) {
	first, second, third, other := newPlayed(), newPlayed(), newPlayed(), newPlayed()
	second.Succeed(first)
	third.Succeed(second)
	for name, want := range map[string]struct{ got, want bool }{
		"the next": {second.Follows(first), true}, "the one after": {third.Follows(first), true}, "itself": {third.Follows(third), false},
		"another container's": {other.Follows(first), false},
	} {
		should.Equal(t, want.got, want.want, "%s", name)
	}
	for _, c := range []*Container{first, second, third, other} {
		c.Close()
	}
}
