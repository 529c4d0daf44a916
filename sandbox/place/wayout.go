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
func (p *Place) trust() {
	if p.Config.WayOut == nil {
		return
	}
	var kept []byte
	if p.record != nil {
		kept = p.record.Authority
	}
	certificates, keep, err := p.Config.WayOut.Trust(p.ID, kept)
	if err != nil {
		p.Config.Logger.Warn("certificate authority", "session", p.ID, "error", err)
		return
	}
	p.certificates = certificates
	if p.record != nil {
		p.record.Authority = keep
	}
}

// environment returns the variables of the session's containers.
func (p *Place) environment() map[string]string {
	if p.Config.WayOut == nil {
		return nil
	}
	env := maps.Clone(p.Config.WayOut.Environment(WayOutPort))
	env[protocol.WayOutVariable] = strconv.Itoa(WayOutPort)
	return env
}

// outPort returns the port on which the supervisors listen; 0: none.
func (p *Place) outPort() int {
	if p.Config.WayOut == nil {
		return 0
	}
	return WayOutPort
}

// outlet serves what the session's code sends out.
func (p *Place) outlet() kernel.Out {
	if p.Config.WayOut == nil {
		return kernel.Out{}
	}
	return kernel.Out{Conns: p.Out, Serve: func(run string, conn net.Conn) { p.Config.WayOut.Serve(p.Ctx, p.ID, run, conn) }}
}

// Conversation returns how the server speaks with the container of that name.
func (p *Place) Conversation(container runs.Language) kernel.Options {
	return kernel.Options{
		Limits: p.Config.wireLimits(), Logger: p.Config.Logger.With("session", p.ID, "container", container), Out: p.outlet(),
	}
}
