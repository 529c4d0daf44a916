package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// linksGrace is how long transfers by links may go on when the server ends; sessions end after that.
const linksGrace = 200 * time.Millisecond

// LinkSettings say whether and where there are links to the files of sessions.
type LinkSettings struct {
	Address  string
	URL      string
	Lifetime time.Duration
}

// check refuses what cannot be used. overHTTP says that there is an HTTP server for MCP, which serves links too.
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

// listen opens the address of links; nil where there are none.
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

// serveLinks gives out links and answers them until stop is called: on an address of their own, or else where MCP is
// served over HTTP; nil where there is neither.
func (s *Settings) serveLinks(on *filelinks.Listener, over *web, manager *sandbox.Manager, log *slog.Logger) (links *filelinks.Links, stop func()) {
	var base *url.URL
	switch {
	case on != nil:
		base = on.BaseURL
	case over != nil:
		base = over.base(s.Links.URL)
	}
	if base == nil {
		return nil, func() {}
	}
	links = filelinks.New(filelinks.Options{
		Manager: manager, BaseURL: base, Lifetime: s.Links.Lifetime, UploadBytes: s.Tools.DownloadBytes, Scripts: s.Tools.PageScripts, Logger: log,
	})
	if on == nil {
		over.options.AllowHosts = append(over.options.AllowHosts, base.Hostname())
		over.options.Open[filelinks.Prefix] = links
		return links, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := filelinks.Serve(ctx, on, links, linksGrace, log); err != nil {
			log.Error("links to files", "error", err)
		}
	}()
	return links, func() {
		cancel()
		<-ended
	}
}
