package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
)

// NetworkSettings say which hosts code reaches, and with which credentials.
type NetworkSettings struct {
	Network     string // empty: by the two below
	AllowDomain []string
	Secret      []string

	Connections  int
	RequestLimit ByteSize
	ByteLimit    ByteSize
	Timeout      seconds
	IdleTimeout  seconds
}

func (n *NetworkSettings) bind(fs *pflag.FlagSet) {
	fs.StringVar(&n.Network, "network", "", "hosts that code reaches by HTTP and HTTPS: `none`, allowlist or open, which is all public ones (default: none, and allowlist with --allow-domain or --secret)")
	fs.StringSliceVar(&n.AllowDomain, "allow-domain", nil, "`hosts` that code reaches, such as api.github.com, *.example.com or example.com:8443")
	fs.StringSliceVar(&n.Secret, "secret", nil, "credential that code uses and never sees: `NAME@host`[,host][,query][,body]; the value is in the server's variable NAME")
	d := proxy.DefaultLimits()
	n.RequestLimit, n.ByteLimit, n.Timeout, n.IdleTimeout = ByteSize(d.RequestBytes), ByteSize(d.SessionBytes), seconds(d.Total), seconds(d.Idle)
	fs.IntVar(&n.Connections, "network-connections", d.Connections, "connections of a session in use at a time")
	fs.Var(&n.RequestLimit, "network-request-limit", "what a request or a connection may send, and receive")
	fs.Var(&n.ByteLimit, "network-byte-limit", "what a session may send, and receive")
	fs.Var(&n.Timeout, "network-timeout", "how long a request or a connection may take")
	fs.Var(&n.IdleTimeout, "network-idle-timeout", "how long one may be without a byte")
}

// check refuses what cannot be meant.
func (n *NetworkSettings) check(passed []string) error {
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	options, err := n.parse()
	problems = append(problems, err)
	listed := len(n.AllowDomain)+len(n.Secret) > 0
	known := slices.Contains(proxy.Modes, options.Mode)
	wrong(!known, "--network %q is not none, allowlist or open", n.Network)
	wrong(options.Mode == proxy.None && listed, "--network none beside --allow-domain or --secret would allow nothing; leave it out, or write --network allowlist")
	wrong(options.Mode == proxy.Allowlist && !listed, "--network allowlist allows no host without --allow-domain or --secret")
	for _, s := range options.Secrets {
		wrong(slices.Contains(passed, s.Name), "--secret: %s is in --pass-through-env as well, which would give code its value", s.Name)
	}
	wrong(n.Connections < 1, "--network-connections %d must be at least 1", n.Connections)
	wrong(n.RequestLimit < 1<<10, "--network-request-limit %s is too small; 1024 bytes are the least", n.RequestLimit)
	wrong(n.ByteLimit < n.RequestLimit, "--network-byte-limit %s is less than --network-request-limit %s", n.ByteLimit, n.RequestLimit)
	wrong(n.Timeout <= 0, "--network-timeout %s must be above 0", n.Timeout)
	wrong(n.IdleTimeout <= 0, "--network-idle-timeout %s must be above 0", n.IdleTimeout)
	return errors.Join(problems...)
}

// parse reads the settings; the values of secrets are not in them.
func (n *NetworkSettings) parse() (proxy.Options, error) {
	hosts, wrongHosts := proxy.ParseHosts(n.AllowDomain)
	secrets, wrongSecrets := proxy.ParseSecrets(n.Secret)
	mode := proxy.Mode(n.Network)
	switch {
	case mode == "" && len(n.AllowDomain)+len(n.Secret) > 0:
		mode = proxy.Allowlist
	case mode == "":
		mode = proxy.None
	}
	var problems []error
	if wrongHosts != nil {
		problems = append(problems, fmt.Errorf("--allow-domain: %w", wrongHosts))
	}
	if wrongSecrets != nil {
		problems = append(problems, fmt.Errorf("--secret: %w", wrongSecrets))
	}
	return proxy.Options{
		Mode: mode, Hosts: hosts, Secrets: secrets,
		Limits: proxy.Limits{
			Connections: n.Connections, RequestBytes: int64(n.RequestLimit), SessionBytes: int64(n.ByteLimit),
			Total: time.Duration(n.Timeout), Idle: time.Duration(n.IdleTimeout),
		},
	}, errors.Join(problems...)
}

// networkOptions are the options of the proxy, with the values of secrets from the server's environment. The error
// tells of those that are not set or are none, and nothing of their values.
func (s *Settings) networkOptions(lookup func(string) (string, bool)) (proxy.Options, error) {
	options, err := s.Network.parse()
	problems := []error{err}
	for i := range options.Secrets {
		if err := options.Secrets[i].Fill(lookup); err != nil {
			problems = append(problems, fmt.Errorf("--secret: %w", err))
		}
	}
	return options, errors.Join(problems...)
}

// secretChecks tell of secrets whose values are not there, or are none.
func (n *NetworkSettings) secretChecks(lookup func(string) (string, bool)) []doctor.Check {
	options, _ := n.parse() // the settings were checked
	var checks []doctor.Check
	for _, s := range options.Secrets {
		check := doctor.Check{Name: "secret " + s.Name, Status: doctor.OK, Found: fmt.Sprintf("set, for requests to %v", s.Hosts)}
		if err := s.Fill(lookup); err != nil {
			check.Status, check.Found = doctor.Fail, err.Error()
			check.Why, check.Fix = "the server does not start", "set "+s.Variable+" in the client's env for this server"
		}
		checks = append(checks, check)
	}
	return checks
}

// withSecrets adds the values of secrets to what is masked. Code does not have them, but a host may tell of them.
func (s *Settings) withSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	options, _ := s.networkOptions(lookup) // what is wrong with one is said where the server starts
	all := options.Values()
	maps.Copy(all, masked)
	return all
}
