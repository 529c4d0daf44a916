package place

import (
	"maps"
	"net"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// WayOutPort is the loopback port, in every container, that leads to Config.WayOut.
const WayOutPort = 9797

// trust asks for the certificates of an opening session.
func (e *Place) trust() {
	if e.Config.WayOut == nil {
		return
	}
	var kept []byte
	if e.Record != nil {
		kept = e.Record.Authority
	}
	certificates, keep, err := e.Config.WayOut.Trust(e.ID, kept)
	if err != nil {
		e.Config.Logger.Warn("certificate authority", "session", e.ID, "error", err)
		return
	}
	e.certificates = certificates
	if e.Record != nil {
		e.Record.Authority = keep
	}
}

// environment returns the variables of the session's containers.
func (e *Place) environment() map[string]string {
	if e.Config.WayOut == nil {
		return nil
	}
	env := maps.Clone(e.Config.WayOut.Environment(WayOutPort))
	env[protocol.WayOutVariable] = strconv.Itoa(WayOutPort)
	if e.certificates != "" {
		for _, name := range trustVariables {
			env[name] = protocol.TrustFile
		}
	}
	return env
}

// outPort returns the port on which the supervisors listen; 0: none.
func (e *Place) outPort() int {
	if e.Config.WayOut == nil {
		return 0
	}
	return WayOutPort
}

// Outlet serves what the session's code sends out.
func (e *Place) Outlet() kernel.Out {
	if e.Config.WayOut == nil {
		return kernel.Out{}
	}
	return kernel.Out{Conns: e.Out, Serve: func(run string, conn net.Conn) { e.Config.WayOut.Serve(e.Ctx, e.ID, run, conn) }}
}

// Conversation returns how the server speaks with the container of that name.
func (e *Place) Conversation(container runs.Language) kernel.Options {
	return kernel.Options{
		Limits: e.Config.WireLimits(), Logger: e.Config.Logger.With("session", e.ID, "container", container), Out: e.Outlet(),
	}
}

// trustVariables name the file of trusted certificates: for OpenSSL and Python's httpx, for requests, curl, git, pip and Node.
var trustVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS"}
