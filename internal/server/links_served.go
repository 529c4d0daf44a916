// Links to the files of all principals.

package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// LinkLifetime is how long a link to a file is good for.
const LinkLifetime = time.Hour

// linksGrace is the time that transfers by links get when the server ends; sessions end after it.
const linksGrace = 200 * time.Millisecond

// linksPrefix begins the addresses of links to a principal's files; its Key and filelinks.Prefix follow.
const linksPrefix = "/p/"

// linksBase returns the base of links' addresses: an address of their own, else MCP's over HTTP; nil: neither.
func (r *Running) linksBase() *url.URL {
	switch {
	case r.linked != nil:
		return r.linked.BaseURL
	case r.Web != nil:
		return r.Web.Base(cmp.Or(r.Program.Links.URL, r.Web.Options.URL))
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
	r.stopLinks = filelinks.Serve(r.linked, http.HandlerFunc(r.serveLink), linksGrace, r.Log)
}

// linksOf returns the links to a principal's files; nil if nothing serves them.
func (r *Running) linksOf(t *Services, p *Program) *filelinks.Links {
	base := r.linksBase()
	if base == nil {
		return nil
	}
	if !t.of.IsUser() {
		base = base.JoinPath(linksPrefix, t.of.Key())
	}
	return filelinks.New(filelinks.Options{
		Manager: t.manager, Key: t.linkKey, BaseURL: base, Lifetime: LinkLifetime, UploadBytes: p.Tools.DownloadBytes, Scripts: p.Tools.PageScripts,
		Count: func() error { return t.now.Load().deps.CountCall() }, Logger: t.manager.Config().Logger,
	})
}

// serveLink answers the links of all principals' files. Each principal's key is different, so a link is good at its own address alone.
func (r *Running) serveLink(w http.ResponseWriter, request *http.Request) {
	rest, is := strings.CutPrefix(request.URL.Path, linksPrefix)
	if !is {
		r.own.now.Load().links.ServeHTTP(w, request)
		return
	}
	key, _, _ := strings.Cut(rest, "/")
	known := r.own // no link is good there: the answer must not reveal principals
	if r.principals != nil {
		if of := r.principals.ByKey(key); of != nil {
			known = of
		}
	}
	http.StripPrefix(linksPrefix+key, known.now.Load().links).ServeHTTP(w, request)
}

// listenLinks opens the address of links; nil: there is none.
func listenLinks(s *setting.Links, log *slog.Logger) (*filelinks.Listener, error) {
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
