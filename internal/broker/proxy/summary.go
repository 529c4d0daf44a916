package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// mostNamed limits the hosts that a summary names.
const mostNamed = 20

// Summary lists the hosts that code reaches and explains its placeholders, in words for a model that go on after "Network: " and end without
// a period. It is empty if code reaches no host.
func (p *Proxy) Summary() string {
	var b strings.Builder
	switch p.options.Mode {
	case Allowlist:
		fmt.Fprintf(&b, "only %s by HTTP(S)", p.hostList())
	case Open:
		fmt.Fprintf(&b, "public hosts by HTTP(S), on the ports %s", portList())
	default:
		return ""
	}
	if p.options.Ask != nil {
		b.WriteString("; for others a person is asked, so a request may take a minute")
	}
	for _, s := range p.options.Secrets {
		where := []string{"headers"}
		if s.Query {
			where = append(where, "queries")
		}
		if s.Body {
			where = append(where, "bodies")
		}
		var to []string
		for _, h := range s.Hosts {
			to = append(to, "https://"+h.String())
		}
		fmt.Fprintf(&b, "; %s has a placeholder, which is replaced by the value in %s of requests to %s", s.Name, strings.Join(where, ", "), strings.Join(to, ", "))
	}
	return b.String()
}

// hostList names the hosts that are allowed, those of secrets as well.
func (p *Proxy) hostList() string {
	var all []string
	for _, h := range p.options.Hosts {
		all = append(all, h.String())
	}
	for _, s := range p.options.Secrets {
		for _, h := range s.Hosts {
			if !slices.Contains(all, h.String()) {
				all = append(all, h.String())
			}
		}
	}
	switch {
	case len(all) == 0 && p.options.Ask != nil:
		return "hosts that a person allows"
	case len(all) == 0:
		return "hosts of an empty list"
	case len(all) > mostNamed:
		all = append(all[:mostNamed], fmt.Sprintf("and %d more", len(all)-mostNamed))
	}
	return strings.Join(all, ", ")
}
