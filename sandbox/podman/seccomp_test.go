//go:build unix

package podman

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// Nodes of Kubernetes read profiles as the OCI has them, which name no architectures that others include.
func TestSeccompProfile(t *testing.T) {
	var profile seccompProfile
	must.OK(t, json.Unmarshal(SeccompProfile(), &profile))
	var architectures []string
	for _, a := range profile.ArchMap {
		architectures = append(architectures, a.Architecture)
		if len(a.SubArchitectures) > 0 {
			t.Errorf("%s includes %v", a.Architecture, a.SubArchitectures)
		}
	}
	text, err := json.MarshalIndent(struct {
		seccompProfile
		ArchMap       any      `json:"archMap,omitempty"`
		Architectures []string `json:"architectures"`
	}{profile, nil, architectures}, "", "  ")
	must.OK(t, err)
	golden(t, "../../docs/deploy/kubernetes/seccomp.json", append(text, '\n'))
}

// A call in two lists would do what the library that reads the profile makes of it.
func TestEveryCallIsDecidedOnce(t *testing.T) {
	var profile seccompProfile
	must.OK(t, json.Unmarshal(SeccompProfile(), &profile))
	decided, compared := make(map[string]bool), make(map[string]bool)
	for _, rule := range profile.Syscalls {
		for _, name := range rule.Names {
			if len(rule.Args) > 0 {
				compared[name] = true
				continue
			}
			if decided[name] {
				t.Errorf("%s is decided twice", name)
			}
			decided[name] = true
		}
		if rule.Comment == "" {
			t.Errorf("%v has no reason", rule.Names)
		}
	}
	for name := range compared {
		if decided[name] {
			t.Errorf("%s is decided both with and without its arguments", name)
		}
	}
}

func TestGroupsAreSorted(t *testing.T) {
	for _, list := range [][]seccompGroup{allowedCalls, deniedCalls, absentCalls} {
		for _, g := range list {
			if !slices.IsSorted(g.calls) {
				t.Errorf("%s: not sorted", g.why)
			}
		}
	}
}
