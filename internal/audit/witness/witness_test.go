package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// watched is a witness, and what its log says in the end: who, kind, action, what, session, run and outcome of each line.
func watched(t *testing.T, o audit.Options) (w *Witness, said func() []string) {
	t.Helper()
	o.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	log := must.Get(audit.Open(o))(t)
	w = New(log)
	return w, func() (list []string) {
		w.Close()
		must.OK(t, log.Close(context.Background()))
		text := must.Get(os.ReadFile(o.Path))(t)
		must.OK(t, audit.Read(bytes.NewReader(text), func(_ []byte, l *audit.Line) error {
			words := []string{l.Principal, l.Kind}
			for _, word := range []string{l.Action, l.Tool, l.Session, l.Run, l.Outcome} {
				if word != "" {
					words = append(words, word)
				}
			}
			list = append(list, strings.Join(words, "|"))
			return nil
		}))
		return list
	}
}

func callOf(tool string, arguments map[string]any) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}}
}

func sessionOf(context.Context, mcp.CallToolRequest) string { return "s-default" }

func TestWhatAPrincipalDoesIsUnderItsName(t *testing.T) {
	w, said := watched(t, audit.Options{})
	for _, name := range []string{"ann", "bob"} {
		o := w.For(principal.Principal{Name: name}, nil)
		ctx, ended := o.Calls(sessionOf)(t.Context(), callOf("run_python_code", nil))
		run := &sandbox.Run{ID: "run-" + name, SessionID: "s-" + name, Language: sandbox.Python}
		must.OK(t, o.Admit(ctx, run))
		over := o.RunBegan(ctx, run)
		o.Network(netlog.Entry{Kind: "proxy", Session: "s-" + name, Run: run.ID, Host: "example.com", Allowed: name == "ann"})
		o.Network(netlog.Entry{Kind: "sql", Session: "s-" + name, Run: run.ID, Host: "sales", Allowed: true})
		o.FileMoved(ctx, sandbox.Transfer{Direction: sandbox.Out, Session: "s-" + name, Path: "output/a", Size: 3, Bytes: 3})
		o.FileMoved(ctx, sandbox.Transfer{Direction: sandbox.Out, Session: "s-" + name, Path: "output/a", Size: 3, Bytes: 3})
		o.FileMoved(ctx, sandbox.Transfer{Direction: sandbox.Out, Session: "s-" + name, Path: "output/b", Size: 3})
		over(&sandbox.Result{Status: sandbox.Failed}, nil)
		ended(tools.CodeOK)
		_, ended = o.Calls(sessionOf)(t.Context(), callOf("exec_sql", map[string]any{"query": "select 1", "connection": "sales"}))
		ended(string(fault.SQLRejected))
	}
	want := []string{}
	for _, name := range []string{"ann", "bob"} {
		allowed := "success"
		if name == "bob" {
			allowed = "refused"
		}
		want = append(want,
			name+"|run|Launch|run_python_code|s-"+name+"|run-"+name,
			name+"|network|s-"+name+"|run-"+name+"|"+allowed,
			name+"|query|s-"+name+"|run-"+name+"|success",
			name+"|file|Download|run_python_code|s-"+name+"|success",
			name+"|run|Terminate|run_python_code|s-"+name+"|run-"+name+"|failed",
			name+"|call|run_python_code|s-"+name+"|run-"+name+"|success",
			name+"|call|exec_sql|s-default|sql_rejected",
			name+"|query|exec_sql|s-default|sql_rejected",
		)
	}
	got := said()
	should.Hold(t, slices.Equal(got, want), "it says\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func TestARunIsRefusedWithoutItsLine(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	must.OK(t, os.Mkdir(folder, 0o700))
	log, err := audit.Open(audit.Options{Path: filepath.Join(folder, "audit.jsonl"), Required: true})
	must.OK(t, err)
	defer log.Close(context.Background())
	o := New(log).For(principal.Principal{}, nil)
	run := &sandbox.Run{ID: "run-1", SessionID: "s"}
	should.OK(t, o.Admit(t.Context(), run), "at first")
	must.OK(t, os.Rename(folder, folder+"-away"))
	var f *fault.Error
	err = o.Admit(t.Context(), run)
	should.Hold(t, errors.As(err, &f) && f.Code == fault.AuditUnavailable && f.Hint != "", "then: %v", err)
	must.OK(t, os.Rename(folder+"-away", folder))
	should.OK(t, o.Admit(t.Context(), run), "in the end")
}

func TestRequestsAndSignIns(t *testing.T) {
	w, said := watched(t, audit.Options{})
	handler := w.Requests(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Who"); who != "" {
			r = r.WithContext(principal.With(r.Context(), principal.Principal{Name: who, Source: "token"}))
			if who == "bob" {
				http.Error(to, "not for you", http.StatusForbidden)
			}
			o := w.For(principal.Of(r.Context()), nil)
			_, ended := o.Calls(sessionOf)(r.Context(), callOf("list_sessions", nil))
			ended(tools.CodeOK)
			return
		}
		http.Error(to, "who?", http.StatusUnauthorized)
	}))
	ask := func(who, address string) {
		r := httptest.NewRequest(http.MethodGet, "/mcp?secret=x", nil)
		r.RemoteAddr = address
		r.Header.Set("Who", who)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("ann", "192.0.2.1:1")
	ask("ann", "192.0.2.1:2")
	ask("ann", "192.0.2.2:1")
	ask("bob", "192.0.2.1:1")
	for range maxRefusals + 5 {
		ask("", "192.0.2.9:1")
	}
	want := []string{
		"ann|sign-in|success", "ann|call|list_sessions|s-default|success", "ann|call|list_sessions|s-default|success",
		"ann|sign-in|success", "ann|call|list_sessions|s-default|success",
		"bob|sign-in|success", "bob|call|list_sessions|s-default|success", "bob|refusal|GET /mcp|Forbidden",
	}
	for range maxRefusals {
		want = append(want, "|refusal|GET /mcp|Unauthorized")
	}
	want = append(want, "|refusal|counted")
	got := said()
	should.Hold(t, slices.Equal(got, want), "it says\n%s", strings.Join(got, "\n"))
}

func TestAThrottleCountsWhatItKeepsBack(t *testing.T) {
	th := newThrottle(2, 1<<62)
	told := int64(0)
	for i := range 3 * maxThrottled {
		for range 3 {
			if more, ok := th.take(fmt.Sprint(i)); ok {
				told += more + 1
			}
		}
	}
	th.hold(7)
	told -= 7
	if all := told + th.rest(); all != 9*maxThrottled || len(th.windows) > maxThrottled {
		t.Errorf("%d of %d are told of, and %d windows are kept", all, 9*maxThrottled, len(th.windows))
	}
}
