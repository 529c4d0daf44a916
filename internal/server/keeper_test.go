package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// placed is an engine that reports where its containers are. All other methods panic.
type placed struct{ engine.Engine }

func (placed) Claim(context.Context, string, map[string]string) error { panic("it is claimed") }
func (placed) Where(string) engine.Place                              { return engine.Place{Node: "node", Pod: "pod"} }

func TestNothingIsChangedWhileAnotherReplicaCouldHaveIt(t *testing.T) {
	k := keepEngine(placed{}, nil, slog.New(slog.DiscardHandler))
	lost := errors.New("lost")
	k.ready = func(context.Context) error { return lost }
	ctx := t.Context()
	_, start := k.Start(ctx, engine.Spec{})
	_, exec := k.Exec(ctx, "a", nil)
	for what, err := range map[string]error{"start": start, "exec": exec, "remove": k.Remove(ctx, []string{"a"}, nil), "claim": k.Claim(ctx, "a", nil)} {
		if !errors.Is(err, lost) || !errors.Is(err, engine.ErrEngineUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if at := k.Where("a"); at.Node != "node" || at.Pod != "pod" {
		t.Errorf("it is in %q on %q", at.Pod, at.Node)
	}
}
