package tools

import (
	"context"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

type closedSession struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
}

// closeSession returns the tool close_session.
func closeSession(m *sandbox.Manager) tool {
	definition := mcp.NewTool("close_session",
		mcp.WithToolTitle("Close a session"),
		mcp.WithDescription("End a code sandbox session: stop its code, delete variables and files."),
		sessionParam(),
		mcp.WithBoolean("keep_files", mcp.Description("Keep the files for this id's next session.")),
		hints(false),
	)
	definition.Annotations.DestructiveHint = mcp.ToBoolPtr(true)
	return tool{output: mcp.WithOutputSchema[closedSession](), definition: definition, handle: func(ctx context.Context, p *params) (*render.Answer, error) {
		id, keep := p.session(), p.flag("keep_files")
		if err := p.check(); err != nil {
			return nil, err
		}
		var problems []string
		if keep { // the code below reports a session that cannot be found
			problems, _ = m.Freeze(ctx, id, true)
		}
		id, err := m.CloseSession(ctx, id, keep)
		if err != nil {
			return nil, err
		}
		status := "closed"
		if keep {
			status = strings.Join(append([]string{"closed, files kept"}, problems...), "; ")
		}
		return render.Text(id+": "+status, closedSession{SessionID: id, Status: status}), nil
	}}
}
