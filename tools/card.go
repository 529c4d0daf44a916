// What a session has, told once to who comes to it anew.

package tools

import (
	"context"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// tells is when an answer of a tool ends with the card of its session.
type tells int

const (
	tellsFirst   tells = iota // as the first of a conversation about a session with a past, and when its variables came from elsewhere or were lost
	tellsAlways               // also otherwise
	tellsItself               // never, as the answer has all of it
	tellsNothing              // never, as the answer is about no session or its end
)

var toolTells = map[string]tells{
	"restore_session": tellsAlways, "session_info": tellsItself,
	"close_session": tellsNothing, "list_sessions": tellsNothing, "exec_sql": tellsNothing, "describe_sql": tellsNothing,
}

// mostMet bounds the sessions that are known of a conversation; of others it hears nothing.
const mostMet = 1000

// met are the sessions that a conversation has asked about.
type met struct {
	mu         sync.Mutex
	handshakes int64 // of the client: another one begins another conversation
	visits     map[string]*visit
}

// visit is what is known of a session.
type visit struct {
	hadPast bool // when the conversation came
	told    bool
}

// visit returns what is known of a session; nil: nothing is to be known.
func (m *met) visit(ctx context.Context, id string, hasPast func(string) bool) *visit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := rpc.Handshakes(ctx); m.visits == nil || now != m.handshakes {
		m.handshakes, m.visits = now, make(map[string]*visit)
	}
	v := m.visits[id]
	if v == nil && len(m.visits) < mostMet {
		v = &visit{hadPast: hasPast(id)}
		m.visits[id] = v
	}
	return v
}

// isFirst reports whether an answer is the first about a session with a past, and notes that it comes.
func (m *met) isFirst(v *visit) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	isFirst := v != nil && v.hadPast && !v.told
	if v != nil {
		v.told = true
	}
	return isFirst
}

// meet notes that a call comes to a session, and returns the card for the call's answer.
func (d *Deps) meet(ctx context.Context, t tool, p *params) (card func(*render.Answer) string) {
	client, when := rpc.Kept[known](ctx), toolTells[t.definition.Name]
	if when == tellsNothing || client == nil {
		return func(*render.Answer) string { return "" }
	}
	id := p.own.id
	if named, _ := p.given["session_id"].(string); named != "" {
		id = named
	} else if run, _ := p.given["run_id"].(string); run != "" {
		id = d.Manager.SessionOfRun(run)
	}
	var v *visit
	if !p.own.unknown {
		v = client.met.visit(ctx, id, d.Manager.HasPast)
	}
	return func(a *render.Answer) string {
		if fields, is := a.Fields.(render.RunFields); is && fields.Status == sandbox.Running {
			return "" // the answer with its result has it
		}
		first, turned := client.met.isFirst(v), d.Manager.TakeTurned(id)
		if when == tellsItself || when == tellsFirst && !first && !turned {
			return ""
		}
		end := "."
		if d.exists("session_info") {
			end = "; session_info lists them."
		}
		return d.Manager.Holding(ctx, id).Card(end)
	}
}
