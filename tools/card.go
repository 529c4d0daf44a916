// What a session has, told once to who comes to it anew.

package tools

import (
	"context"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// mostMet bounds the sessions that are known of a conversation; of others it hears nothing.
const mostMet = 1000

// met are the sessions that a conversation has asked about.
type met struct {
	mu         sync.Mutex
	handshakes int64 // of the client: another one begins another conversation
	untold     map[string]bool
}

// come notes that a call comes to a session, which the conversation is to be told about if it had a past when the first one came.
func (m *met) come(id string, handshakes int64, hasPast func(string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.untold == nil || m.handshakes != handshakes {
		m.handshakes, m.untold = handshakes, make(map[string]bool)
	}
	if _, known := m.untold[id]; !known && len(m.untold) < mostMet {
		m.untold[id] = hasPast(id)
	}
}

// tell reports, if an answer is to come now, once whether the conversation is to be told about a session, which may have another name too.
func (m *met) tell(id, name string, now bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	untold, known := m.untold[id]
	if known {
		m.untold[id] = untold && !now
	}
	if known && len(m.untold) < mostMet {
		m.untold[name] = untold && !now
	}
	return untold && now
}

// meet notes that a call of a tool comes to a session, and returns the end of its answer: what the session has, if the client does not know.
func (d *Deps) meet(ctx context.Context, tool string, p *params) (card func(*render.Answer) string) {
	client := rpc.Kept[known](ctx)
	switch tool {
	case "close_session", "list_sessions", "exec_sql", "describe_sql": // they are about no session, or its end
		client = nil
	}
	if client == nil {
		return func(*render.Answer) string { return "" }
	}
	id := p.own.id
	if named, _ := p.given["session_id"].(string); named != "" {
		id = named
	} else if run, _ := p.given["run_id"].(string); run != "" {
		id = d.Manager.SessionOfRun(run)
	}
	if !p.own.unknown { // else each of its calls would be a first one
		client.met.come(id, rpc.Handshakes(ctx), d.Manager.HasPast)
	}
	return func(a *render.Answer) string {
		fields, isRun := a.Fields.(render.RunFields)
		goesOn := isRun && fields.Status == sandbox.Running // the answer with its result has it
		first := client.met.tell(id, d.Manager.Named(id), !goesOn)
		turned := !goesOn && d.Manager.TakeTurned(id)
		wentBack := tool == "restore_session" && p.given["checkpoint"] == nil
		if tool == "session_info" || !first && !turned && !wentBack { // the first has all of it
			return ""
		}
		return d.Manager.Holding(ctx, id).Card(map[bool]string{true: "; session_info lists them.", false: "."}[d.exists("session_info")])
	}
}
