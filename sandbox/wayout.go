package sandbox

import (
	"context"
	"maps"
	"net"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// WayOutPort is the loopback port, in every container, that leads to Config.WayOut. If containers share one loopback, it is the
// first language's port, and the ports after it are the other languages'.
const WayOutPort = 9797

// WayOut serves the egress of code: its connections to a port of its container, which is without any other network. Several
// goroutines may call its methods at once. Package broker implements it.
type WayOut interface {
	// Environment returns the variables that lead programs to that port. They are in the containers' configuration, so they must
	// not contain secrets.
	Environment(port int) map[string]string
	// Trust returns the PEM certificates that a session's code trusts beside those of the image, and a state to keep for the
	// session and pass to the next call, which a later server may make. Empty: none.
	Trust(session string, kept []byte) (certificates string, keep []byte, err error)
	// Serve serves one connection, and closes it. run is the run going on in the container, or empty. ctx ends with the session.
	Serve(ctx context.Context, session, run string, conn net.Conn)
	// Forget drops the state of a session that ended, or that this server leaves.
	Forget(session string)
}

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

// environment returns the variables of a language's container.
func (e *engineSide) environment(language Language) map[string]string {
	var env map[string]string
	if port := e.outPort(language); port > 0 {
		env = maps.Clone(e.config.WayOut.Environment(port))
		env[protocol.WayOutVariable] = strconv.Itoa(port)
		if e.certificates != "" {
			for _, name := range trustVariables {
				env[name] = protocol.TrustFile
			}
		}
	}
	if e.config.Engine.Traits().Together {
		if env == nil {
			env = make(map[string]string)
		}
		env[socketVariable] = "@code-sandbox-mcp-" + string(language)
	}
	return env
}

// socketVariable names the abstract socket on which a supervisor listens for later servers, if it is not alone on its loopback.
const socketVariable = "CODE_SANDBOX_SOCKET"

// outPort returns the port on which a language's supervisor listens; 0: none.
func (e *engineSide) outPort(language Language) int {
	switch {
	case e.config.WayOut == nil:
		return 0
	case e.config.Engine.Traits().Together:
		return WayOutPort + language.place()
	}
	return WayOutPort
}

// outlet returns the function that serves the connections of one of the session's containers; nil: none.
func (e *engineSide) outlet() func(*kernel, net.Conn) {
	if e.config.WayOut == nil {
		return nil
	}
	return func(k *kernel, conn net.Conn) { e.config.WayOut.Serve(e.ctx, e.id, k.current(), conn) }
}

// trustVariables name the file of trusted certificates: for OpenSSL and Python's httpx, for requests, curl, git, pip and Node.
var trustVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS"}

// acceptOut serves the container's streams, until the connection ends. Waiting streams here and in the multiplexer are bounded, so
// the supervisor opens no more until there is room.
func (k *kernel) acceptOut() {
	for {
		conn, err := k.conn.Accept()
		if err != nil {
			return
		}
		if k.serveOut == nil {
			_ = conn.Close()
			continue
		}
		c := k.out.enter(conn)
		go func() {
			defer k.out.leave(c)
			k.serveOut(k, c)
		}()
	}
}

// current returns the id of the running run, of one that keeps its variables if there are several; empty: none.
func (k *kernel) current() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	current := ""
	for id, f := range k.runs {
		if current == "" || !f.run.options.apart() {
			current = id
		}
	}
	return current
}
