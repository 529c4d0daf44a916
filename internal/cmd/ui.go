// The command ui, which serves the page for a person.

package cmd

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/pkg/browser"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/webui"
)

func uiCommand(settings *server.Program) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "ui", Short: "Show the sessions, and what ran in them, on a page in the browser", Args: NoArgs,
		Long: `ui serves a page on this machine until it is interrupted, and opens it: the
sessions of this user's servers, their runs with output as it comes, their
files, and what was sent out. It cancels and undoes runs, and closes sessions. A
server that has a session open is asked for all of that. One that sleeps wakes
when its files are looked at, until a server wants it.

The page's link is good once, for ten minutes. Settings that say where sessions
are (--state-dir, --engine-url) must be the server's.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSessions(cmd.Context(), settings, &owner{}, func(ctx context.Context, v *visit) error {
				return showPage(ctx, settings, v, noBrowser)
			})
		},
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the page's link, and open nothing")
	return cmd
}

// showPage serves the page until ctx ends.
func showPage(ctx context.Context, s *server.Program, v *visit, noBrowser bool) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := v.manager.Config().Logger
	page := webui.New(webui.Options{API: func(principal.Principal) (webui.API, error) { return v.api, nil }, Logger: log})
	pages := httpserver.New(httpserver.Options{Open: page.Routes(), Logger: log})
	link := "http://" + l.Addr().String() + page.Link()
	fmt.Printf("The page is at this link, which is good once; Ctrl-C ends it.\n%s\n", link)
	if !noBrowser {
		remove, err := openBrowser(setting.StateFolder(s.StateDir), link)
		defer remove()
		if err != nil {
			log.Info("no browser was opened", "error", err)
		}
	}
	return pages.Serve(ctx, l)
}

// forward leads a browser on to a link.
const forward = `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=%[1]s"><a href="%[1]s">Open the page</a>
`

func writeForward(w io.Writer, link string) error {
	_, err := fmt.Fprintf(w, forward, html.EscapeString(link))
	return err
}

// openBrowser opens a link by a file that only this user can read, since every user of the machine can read a program's arguments. remove
// removes the file.
func openBrowser(dir, link string) (remove func(), err error) {
	remove = func() {}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return remove, err
	}
	file, err := os.CreateTemp(dir, "page-*.html") // for this user alone
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.Remove(file.Name()) }
	if err := errors.Join(writeForward(file, link), file.Close()); err != nil {
		return remove, err
	}
	path, err := filepath.Abs(file.Name())
	if err != nil {
		return remove, err
	}
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	return remove, browser.OpenFile(path)
}
