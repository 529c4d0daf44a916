package setting

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
)

// Network configures egress: the hosts that code reaches, with which credentials.
type Network struct {
	Network      string // empty: by the four below
	AllowDomain  []string
	AllowPrivate []string
	Secret       []string
	Ask          bool
	PrivateCA    string
	Limits       proxy.Limits
}

// reachesSome reports whether the settings allow any host, or name somebody to ask.
func (n *Network) reachesSome() bool {
	return n.Ask || len(n.AllowDomain)+len(n.AllowPrivate)+len(n.Secret) > 0
}

func (n *Network) check(passed []string) error {
	var found Problems
	options, err := n.Parse()
	found = append(found, err)
	listed := n.reachesSome()
	known := slices.Contains(proxy.Modes, options.Mode)
	found.Wrong(!known, "--network %q is not none, allowlist or open", n.Network)
	found.Wrong(options.Mode == proxy.None && listed, "--network none beside --allow-domain, --allow-private, --secret or --ask would allow nothing; leave it out, or write --network allowlist")
	found.Wrong(options.Mode == proxy.Allowlist && !listed, "--network allowlist allows no host without --allow-domain, --allow-private, --secret or --ask")
	for _, s := range options.Secrets {
		found.Wrong(slices.Contains(passed, s.Name), "--secret: %s is in --pass-through-env as well, which would give code its value", s.Name)
	}
	found.Wrong(n.PrivateCA != "" && options.Mode == proxy.None, "--allow-private-ca has no effect without --allow-private, --allow-domain, --secret or --ask")
	_, err = n.roots()
	found = append(found, err)
	return errors.Join(found...)
}

// Parse reads the settings, without the values of secrets.
func (n *Network) Parse() (proxy.Options, error) {
	hosts, wrongHosts := proxy.ParseHosts(n.AllowDomain)
	insides, wrongInsides := proxy.ParseInsides(n.AllowPrivate)
	secrets, wrongSecrets := proxy.ParseSecrets(n.Secret)
	mode := proxy.Mode(n.Network)
	switch {
	case mode == "" && n.reachesSome():
		mode = proxy.Allowlist
	case mode == "":
		mode = proxy.None
	}
	var problems []error
	if wrongHosts != nil {
		problems = append(problems, fmt.Errorf("--allow-domain: %w", wrongHosts))
	}
	if wrongInsides != nil {
		problems = append(problems, fmt.Errorf("--allow-private: %w", wrongInsides))
	}
	if wrongSecrets != nil {
		problems = append(problems, fmt.Errorf("--secret: %w", wrongSecrets))
	}
	return proxy.Options{Mode: mode, Hosts: append(hosts, insides...), Secrets: secrets, Limits: n.Limits}, errors.Join(problems...)
}

// roots returns the authorities that verify hosts, those of this machine and of the file; nil: this machine's.
func (n *Network) roots() (*x509.CertPool, error) {
	if n.PrivateCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(n.PrivateCA)
	if err != nil {
		return nil, fmt.Errorf("--allow-private-ca: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("--allow-private-ca: this machine's certificates: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--allow-private-ca: %s has no certificate in PEM", n.PrivateCA)
	}
	return roots, nil
}

// Options returns the proxy's options, with the values of secrets from the server's environment. The error names secrets that are
// unset or unusable, and no value.
func (n *Network) Options(lookup func(string) (string, bool)) (proxy.Options, error) {
	options, err := n.Parse()
	problems := []error{err}
	options.Roots, err = n.roots()
	problems = append(problems, err)
	for i := range options.Secrets {
		if err := options.Secrets[i].Fill(lookup); err != nil {
			problems = append(problems, fmt.Errorf("--secret: %w", err))
		}
	}
	return options, errors.Join(problems...)
}

// WithSecrets adds the values of secrets to the masked values. Code does not see them, but a host may return them.
func (n *Network) WithSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	options, _ := n.Options(lookup) // the server's start reports a wrong one
	all := options.Values()
	maps.Copy(all, masked)
	return all
}
