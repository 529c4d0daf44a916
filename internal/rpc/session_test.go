package rpc

import (
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

func TestASessionKeepsLittleOfWhatItsClientSays(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := NewSession("s", nil)
	s.SetClientInfo(mcp.Implementation{Name: long, Version: long, Title: long, Description: long, Icons: []mcp.Icon{{Src: long}}})
	if info := s.GetClientInfo(); len(info.Name) != maxName || len(info.Version) != maxName || info.Title+info.Description != "" || info.Icons != nil {
		t.Errorf("it keeps %d and %d bytes, and more", len(info.Name), len(info.Version))
	}
	short, asks := map[string]any{"an extension": map[string]any{}}, &mcp.ElicitationCapability{}
	s.SetClientCapabilities(mcp.ClientCapabilities{Experimental: short, Extensions: short, Elicitation: asks})
	if can := s.GetClientCapabilities(); can.Experimental != nil || len(can.Extensions) != 1 || can.Elicitation != asks {
		t.Errorf("it keeps %v", can)
	}
	s.SetClientCapabilities(mcp.ClientCapabilities{Extensions: map[string]any{long: 1}, Elicitation: asks})
	if can := s.GetClientCapabilities(); can.Extensions != nil || can.Elicitation != asks {
		t.Error("it keeps long extensions")
	}
}
