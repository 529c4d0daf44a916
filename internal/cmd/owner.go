// The owner of a command's sessions, and the manager that looks after them.

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// owner names the owner of a command's sessions. The zero value is the user who calls it.
type owner struct{ name string }

func (o owner) key() string { return principal.Principal{Name: o.name}.Key() }

// dir returns the state directory of the sessions.
func (o owner) dir(s *server.Program) (string, error) {
	if o.name != "" && !slices.Contains(state.Tenants(s.SessionDir()), o.key()) {
		return "", fault.New(fault.InvalidArgument, "`code-sandbox-mcp sessions list` tells whose there are.", "There are no sessions of %q.", o.name)
	}
	return state.TenantDir(s.SessionDir(), o.key()), nil
}

// withManager runs a shell command's work with a manager of a tenant's sessions, which releases all of them at the end.
func withManager(ctx context.Context, s *server.Program, tenant string, work func(context.Context, *sandbox.Manager) error) error {
	return WithEngine(ctx, s, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
		pool := sandbox.NewPool(s.VisitConfig(on, log))
		defer pool.Close(context.WithoutCancel(ctx))
		own := pool.Config()
		manager := pool.NewManager(own.Of(tenant))
		err := work(ctx, manager)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveManagerTime)
		defer cancel()
		if !manager.Close(ending) {
			log.Warn("not all was let go of in time")
		}
		return Report(err)
	})
}

// visit is a command's way to sessions: through the server that has one open, or by a manager of its own.
type visit struct {
	manager *sandbox.Manager
	api     *rest.Server
	own     door.Server     // this process, for requests to the api
	asleep  map[string]bool // sessions that had no kernels before
}

// withSessions runs a shell command's work on sessions. Another server gets one that it wants when no request is on its way.
func withSessions(ctx context.Context, s *server.Program, whose *owner, work func(context.Context, *visit) error) error {
	if _, err := whose.dir(s); err != nil {
		return Report(err)
	}
	return withManager(ctx, s, whose.key(), func(ctx context.Context, manager *sandbox.Manager) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		manager.Drain(true)
		deps := s.Tools
		deps.Manager, deps.Secrets, deps.Logger = manager, manager.Config().Mask, slog.New(slog.DiscardHandler)
		v := &visit{manager: manager, asleep: make(map[string]bool), api: s.ForPersons(ctx, &deps, whose.key())}
		v.own = door.At(setting.StateFolder(s.StateDir), state.NewID(""))
		l, err := door.Listen(setting.StateFolder(s.StateDir), v.own.ID)
		if err != nil {
			return err
		}
		serving := &http.Server{Handler: v.api} //nolint:gosec // its only client is this user
		go func() { _ = serving.Serve(l) }()
		defer func() { _ = serving.Close() }()
		err = work(ctx, v)
		for _, info := range manager.OpenSessions(context.WithoutCancel(ctx)) {
			if v.asleep[info.ID] {
				// Nobody wants the variables of the container that read the files.
				_, closed := manager.CloseSession(ctx, info.ID, true)
				err = errors.Join(err, closed)
			}
		}
		return err
	})
}

// onSessions returns what a command does that works on sessions.
func onSessions(s *server.Program, whose *owner, work func(context.Context, *visit, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return withSessions(cmd.Context(), s, whose, func(ctx context.Context, v *visit) error { return work(ctx, v, args) })
	}
}

// find describes a session.
func (v *visit) find(ctx context.Context, id string) (sandbox.SessionInfo, error) {
	if err := runs.CheckSessionID(id); err != nil {
		return sandbox.SessionInfo{}, err
	}
	if found := v.api.Find(ctx, id); found != nil {
		return found.SessionInfo, nil
	}
	return sandbox.SessionInfo{}, noSession(id)
}

// ask sends a request about a session. The body of the answer is the caller's to close; the error is a fault.
func (v *visit) ask(ctx context.Context, method, id, path string, query url.Values, body *os.File) (*http.Response, error) {
	info, err := v.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if info.Owner == sandbox.OwnerNone {
		v.asleep[id] = len(info.Kernels) == 0
	}
	address := url.URL{Scheme: "http", Host: "door", Path: "/v1/sessions/" + id + path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err == nil && body != nil {
		var info os.FileInfo
		if info, err = body.Stat(); err == nil {
			r.Body, r.ContentLength = body, info.Size()
		}
	}
	if err != nil {
		return nil, err
	}
	answer, err := v.own.RoundTrip(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, readFault(json.NewDecoder(answer.Body).Decode)
}

// read reads the JSON of an answer; nil: nothing of it.
func (v *visit) read(ctx context.Context, method, id, path string, query url.Values, into any) error {
	answer, err := v.ask(ctx, method, id, path, query, nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return json.NewDecoder(answer.Body).Decode(into)
}

// readFault returns the fault that a text describes; nil: none.
func readFault(decode func(any) error) error {
	var f struct {
		Code          fault.Code
		Message, Hint string
	}
	if err := decode(&f); err != nil {
		return fault.New(fault.ExecutionFailed, "Try again.", "The answer cannot be read.").Because(err)
	}
	if f.Code == "" {
		return nil
	}
	return fault.New(f.Code, f.Hint, "%s", f.Message)
}

// nameOf returns the owner of a tenant's sessions; empty: the user.
func nameOf(dir, tenant string) string {
	if tenant == "" {
		return ""
	}
	if name, err := state.TenantName(dir, tenant); err == nil {
		return name
	}
	return tenant
}

func noSession(id string) error {
	return fault.New(fault.SessionNotFound, "`code-sandbox-mcp sessions list` tells which there are; --principal says whose.", "There is no session %q.", id)
}
