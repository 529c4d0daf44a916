package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// linksGrace is the time that transfers by links get when the server ends; sessions end after it.
const linksGrace = 200 * time.Millisecond

// LinkSettings configure links to the files of sessions.
type LinkSettings struct {
	Address  string
	URL      string
	Lifetime time.Duration
}

// check refuses unusable settings. overHTTP: MCP's HTTP server serves links too.
func (s *LinkSettings) check(overHTTP bool) error {
	var problems []error
	if s.URL != "" {
		if _, err := filelinks.ParseBaseURL(s.URL); err != nil {
			problems = append(problems, fmt.Errorf("--files-http-url: %w", err))
		}
		if s.Address == "" && !overHTTP {
			problems = append(problems, fmt.Errorf("--files-http-url %s has no effect without --files-http or --http", s.URL))
		}
	}
	if s.Address != "" {
		if err := filelinks.CheckAddress(s.Address, s.URL != ""); err != nil {
			problems = append(problems, fmt.Errorf("--files-http: %w; name one of 127.0.0.1, or say with --files-http-url how it is reached", err))
		}
	}
	return errors.Join(problems...)
}

// listen opens the address of links; nil: there is none.
func (s *LinkSettings) listen(log *slog.Logger) (*filelinks.Listener, error) {
	if s.Address == "" {
		return nil, nil
	}
	var base *url.URL
	if s.URL != "" {
		base, _ = filelinks.ParseBaseURL(s.URL) // the settings were checked
	}
	l, err := filelinks.Listen(s.Address, base)
	if err != nil {
		return nil, fmt.Errorf("--files-http: %w", err)
	}
	if l.Moved != nil {
		log.Warn("links are on another port", "address", l.Addr().String(), "error", l.Moved)
	}
	log.Info("links to files", "address", l.Addr().String(), "url", l.BaseURL.String())
	return l, nil
}

// linksBase returns the base of links' addresses: an address of their own, else MCP's over HTTP; nil: neither.
func (r *Running) linksBase() *url.URL {
	switch {
	case r.linked != nil:
		return r.linked.BaseURL
	case r.Web != nil:
		return r.Web.Base(cmp.Or(r.Settings.Links.URL, r.Web.PublicURL))
	}
	return nil
}

// serveLinks answers links until stopLinks is called.
func (r *Running) serveLinks() {
	base := r.linksBase()
	if base == nil {
		return
	}
	if r.linked == nil {
		r.Web.Options.AllowHosts = append(r.Web.Options.AllowHosts, base.Hostname())
		r.Web.Options.Open[filelinks.Prefix], r.Web.Options.Open[linksPrefix] = http.HandlerFunc(r.serveLink), http.HandlerFunc(r.serveLink)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := filelinks.Serve(ctx, r.linked, http.HandlerFunc(r.serveLink), linksGrace, r.Log); err != nil {
			r.Log.Error("links to files", "error", err)
		}
	}()
	r.stopLinks = func() {
		cancel()
		<-ended
	}
}
