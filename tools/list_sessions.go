// The tool list_sessions, and the JSON form of a session.

package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

type sessionMeta struct {
	SessionID   string `json:"session_id"`
	Default     bool   `json:"default,omitempty"`
	Owner       string `json:"owner"`
	State       string `json:"state"`
	AgeSeconds  int    `json:"age_seconds"`
	IdleSeconds int    `json:"idle_seconds"`
	SizeBytes   *int64 `json:"size_bytes,omitempty"`
	// KeptUntil is when the session is removed if nobody uses it.
	KeptUntil time.Time `json:"kept_until,omitzero"`
	Pinned    bool      `json:"pinned,omitempty"`
	// Place is where the session's containers are, on an engine of several machines.
	Place string `json:"place,omitempty"`
}

// SessionFields is a session in JSON.
type SessionFields struct {
	sessionMeta
	Kernels []sandbox.KernelInfo `json:"kernels,omitempty"`
	// OwnLimits are the limits in force, where they are the session's own.
	OwnLimits *ownLimitFields `json:"own_limits,omitempty"`
}

type ownLimitFields struct {
	MemoryMB       int64   `json:"memory_mb"`
	CPUs           float64 `json:"cpus"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
}

type sessionList struct {
	Sessions []SessionFields `json:"sessions"`
}

func (l sessionList) Meta() any {
	ids := make([]string, len(l.Sessions))
	for i, s := range l.Sessions {
		ids[i] = s.SessionID
	}
	return map[string]any{"session_ids": ids}
}

func (d *Deps) listSessions() tool {
	return tool{
		output: mcp.WithOutputSchema[sessionList](),
		definition: mcp.NewTool("list_sessions",
			mcp.WithToolTitle("List sessions"),
			mcp.WithDescription("List the code sandbox's sessions: state, age, idle time, size, if open here."),
			hints(true),
		),
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			if err := p.check(); err != nil {
				return nil, err
			}
			list := sessionsOf(ctx, d.Manager)
			return d.renderer().Fit(ctx, len(list.Sessions), list.render), nil
		},
	}
}

// render describes the first sessions, a line for each.
func (l sessionList) render(most int) *render.Answer {
	var b strings.Builder
	b.WriteString(render.Count(int64(len(l.Sessions)), "session"))
	for _, s := range l.Sessions[:most] {
		b.WriteString("\n" + s.String())
	}
	if more := len(l.Sessions) - most; more > 0 {
		fmt.Fprintf(&b, "\n… and %d more", more)
	}
	return render.Text(b.String(), sessionList{l.Sessions[:most]})
}

func (s SessionFields) String() string {
	text := s.SessionID
	if s.Default {
		text += " (default)"
	}
	owner := s.Owner
	if owner == sandbox.OwnerNone {
		owner = "no server"
	}
	if text += ": "; s.State == sandbox.StateAsleep {
		text += s.State
	} else {
		text += "open in " + owner
	}
	for _, k := range s.Kernels {
		text += fmt.Sprintf("; %s %s", k.Language, k.State)
		if k.Run != nil {
			text += " " + render.OneLine(k.Run.String())
		}
		for _, run := range k.Beside {
			text += ", beside it " + render.OneLine(run.String())
		}
	}
	text += fmt.Sprintf("; %v old, idle %v", time.Duration(s.AgeSeconds)*time.Second, time.Duration(s.IdleSeconds)*time.Second)
	if s.SizeBytes != nil {
		text += ", " + humanize.Bytes(uint64(max(*s.SizeBytes, 0)))
	}
	if s.Pinned {
		text += ", pinned"
	} else if s.State == sandbox.StateAsleep && !s.KeptUntil.IsZero() {
		text += ", kept until " + s.KeptUntil.Format(time.DateOnly)
	}
	if s.Place != "" {
		text += "; place: " + s.Place
	}
	if l := s.OwnLimits; l != nil {
		text += fmt.Sprintf("; limits %d MiB, %v CPUs, runs of %v s", l.MemoryMB, l.CPUs, l.TimeoutSeconds)
	}
	return text
}

func sessionsOf(ctx context.Context, m *sandbox.Manager) sessionList {
	list := sessionList{Sessions: []SessionFields{}}
	for _, info := range m.Sessions(ctx) {
		list.Sessions = append(list.Sessions, FieldsOf(ctx, info))
	}
	return list
}

// FieldsOf returns a session in JSON, for who calls.
func FieldsOf(ctx context.Context, info sandbox.SessionInfo) SessionFields {
	f := SessionFields{Kernels: info.Kernels, sessionMeta: sessionMeta{
		SessionID: info.ID, Default: ownOf(ctx).has(info), Owner: info.Owner, State: info.State, SizeBytes: info.SizeBytes,
		KeptUntil: info.KeptUntil.UTC().Truncate(time.Second), Pinned: info.Pinned, Place: info.Place.String(),
		AgeSeconds: int(max(0, time.Since(info.Created)).Seconds()), IdleSeconds: int(max(0, time.Since(info.LastUsed)).Seconds()),
	}}
	if info.Limited {
		f.OwnLimits = &ownLimitFields{info.Limits.MemoryBytes >> 20, info.Limits.CPUs, info.Limits.RunTimeout.Seconds()}
	}
	return f
}
