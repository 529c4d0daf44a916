package server

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// placed is an engine that reports where its containers are. All other methods panic.
type placed struct{ engine.Engine }

func (placed) Where(string) engine.Place { return engine.Place{Node: "node", Pod: "pod"} }

func TestAKeeperTellsWhereAContainerIs(t *testing.T) {
	if at := keepEngine(placed{}, nil, nil).Where("a"); at.Node != "node" || at.Pod != "pod" {
		t.Errorf("it is in %q on %q", at.Pod, at.Node)
	}
}
