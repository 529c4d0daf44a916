package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

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
