package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Secret is a credential that code uses and never sees: it gets a placeholder, which is replaced in requests to the secret's hosts.
type Secret struct {
	Name     string // of the variable that code sees
	Variable string // of the server's environment that holds the value
	Hosts    []Host // without wildcards
	Query    bool   // replace it in address queries as well
	Body     bool   // and in bodies
	Value    string
}

// The words that stand among a secret's hosts.
const (
	wordQuery = "query"
	wordBody  = "body"
)

// shortestValue is a secret's shortest value, in bytes: a shorter one is no credential, and cannot be masked.
const shortestValue = 8

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseSecrets reads NAME@host, the parts of a list split by commas: an item with an @ begins a secret, and those
// behind it are further hosts or the words query and body. NAME=OTHER@host takes the variable OTHER's value.
// The values are not filled in. The error tells of everything that is wrong.
func ParseSecrets(items []string) ([]Secret, error) {
	var all []Secret
	var problems []error
	for _, item := range items {
		item = strings.TrimSpace(item)
		left, host, begins := strings.Cut(item, "@")
		if begins {
			s := Secret{Name: left, Variable: left}
			if name, variable, ok := strings.Cut(left, "="); ok {
				s.Name, s.Variable = name, variable
			}
			if !variableName.MatchString(s.Name) || !variableName.MatchString(s.Variable) {
				problems = append(problems, fmt.Errorf("%q does not begin with the name of a variable, as in API_KEY@api.example.com", text.Shorten(item, 100)))
			}
			if slices.ContainsFunc(all, func(other Secret) bool { return other.Name == s.Name }) {
				problems = append(problems, fmt.Errorf("%s is given twice; write all its hosts behind one @, with commas", s.Name))
			}
			all = append(all, s)
		} else {
			host = item
		}
		if len(all) == 0 {
			problems = append(problems, fmt.Errorf("%q has no @; write NAME@host, as in API_KEY@api.example.com", text.Shorten(item, 100)))
			continue
		}
		problems = append(problems, all[len(all)-1].add(host))
	}
	for _, s := range all {
		if len(s.Hosts) == 0 && errors.Join(problems...) == nil {
			problems = append(problems, fmt.Errorf("%s has no host; write %s@api.example.com", s.Name, s.Name))
		}
	}
	return all, errors.Join(problems...)
}

// add takes a host or a word.
func (s *Secret) add(item string) error {
	switch item {
	case wordQuery:
		s.Query = true
		return nil
	case wordBody:
		s.Body = true
		return nil
	}
	h, err := parseHost(item, false)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if _, err := netip.ParseAddr(h.name); err == nil || h.below {
		return fmt.Errorf("%s: %q: a secret goes to hosts that are named one by one, without wildcards and addresses", s.Name, item)
	}
	if h.only != nil {
		return fmt.Errorf("%s: %q: methods and paths of a host stand in --allow-domain or --allow-private", s.Name, text.Shorten(item, 100))
	}
	s.Hosts = append(s.Hosts, h)
	return nil
}

// Fill takes the secret's value from the server's environment. The error does not quote it.
func (s *Secret) Fill(lookup func(string) (string, bool)) error {
	value, ok := lookup(s.Variable)
	value = strings.TrimRight(value, "\r\n") // of a file that it was read from
	switch {
	case !ok:
		return fmt.Errorf("%s: the variable %s is not set in the server's environment", s.Name, s.Variable)
	case len(value) < shortestValue:
		return fmt.Errorf("%s: the value of %s has %d bytes; a secret has %d at the least", s.Name, s.Variable, len(value), shortestValue)
	case !httpguts.ValidHeaderFieldValue(value) || strings.TrimSpace(value) != value:
		return fmt.Errorf("%s: the value of %s has control characters, line ends or blanks around it, and fits into no header", s.Name, s.Variable)
	case !secrets.Maskable(value):
		return fmt.Errorf("%s: the value of %s is a word or a number that occurs everywhere, and cannot be masked in answers", s.Name, s.Variable)
	}
	s.Value = value
	return nil
}

// placeholder is the text that code sees instead of the value. It is the same each time, fits into headers and addresses as it is, and does
// not occur by accident. It is no secret.
func (s Secret) placeholder() string {
	sum := sha256.Sum256([]byte("code-sandbox-mcp placeholder of " + s.Name))
	return "sandbox-secret-" + s.Name + "-placeholder-" + hex.EncodeToString(sum[:8])
}

// isFor reports whether the secret goes to the target.
func (s Secret) isFor(t target) bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.allows(t) })
}
