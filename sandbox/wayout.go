package sandbox

import (
	"maps"
	"net"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// WayOutPort is the loopback port, in every container, that leads to Config.WayOut.
const WayOutPort = 9797

// trust asks for the certificates of an opening session.
func (e *engineSide) trust() {
	if e.config.WayOut == nil {
		return
	}
	var kept []byte
	if e.record != nil {
		kept = e.record.Authority
	}
	certificates, keep, err := e.config.WayOut.Trust(e.id, kept)
	if err != nil {
		e.config.Logger.Warn("certificate authority", "session", e.id, "error", err)
		return
	}
	e.certificates = certificates
	if e.record != nil {
		e.record.Authority = keep
	}
}

// environment returns the variables of the session's containers.
func (e *engineSide) environment() map[string]string {
	if e.config.WayOut == nil {
		return nil
	}
	env := maps.Clone(e.config.WayOut.Environment(WayOutPort))
	env[protocol.WayOutVariable] = strconv.Itoa(WayOutPort)
	if e.certificates != "" {
		for _, name := range trustVariables {
			env[name] = protocol.TrustFile
		}
	}
	return env
}

// outPort returns the port on which the supervisors listen; 0: none.
func (e *engineSide) outPort() int {
	if e.config.WayOut == nil {
		return 0
	}
	return WayOutPort
}

// outlet serves what the session's code sends out.
func (e *engineSide) outlet() kernel.Out {
	if e.config.WayOut == nil {
		return kernel.Out{}
	}
	return kernel.Out{Conns: e.out, Serve: func(run string, conn net.Conn) { e.config.WayOut.Serve(e.ctx, e.id, run, conn) }}
}

// conversation returns how the server speaks with the container of that name.
func (e *engineSide) conversation(container Language) kernel.Options {
	return kernel.Options{
		Limits: e.config.wireLimits(), Logger: e.config.Logger.With("session", e.id, "container", container), Out: e.outlet(),
	}
}

// trustVariables name the file of trusted certificates: for OpenSSL and Python's httpx, for requests, curl, git, pip and Node.
var trustVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS"}
