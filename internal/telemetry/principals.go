package telemetry

import (
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// The names of principals in figures; see Options.Principals.
const (
	ByName = "name"
	ByKey  = "key"
	Off    = "off"
)

const (
	// mostPrincipals is the number of principals with figures of their own, the first that come.
	mostPrincipals = 100
	// otherPrincipals is the label of all that come then.
	otherPrincipals = "other"
)

// principals are the labels that were given out.
type principals struct {
	by string

	mu    sync.Mutex
	known map[string]bool
}

// label returns the label of a principal's figures; empty: none.
func (s *principals) label(p principal.Principal) string {
	label := p.Key()
	if s.by == ByName {
		label = p.Name
	}
	if p.IsUser() || s.by == Off {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known[label]:
	case len(s.known) >= mostPrincipals:
		return otherPrincipals
	case s.known == nil:
		s.known = map[string]bool{label: true}
	default:
		s.known[label] = true
	}
	return label
}
