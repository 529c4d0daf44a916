// Package netlog records the requests that sessions sent out and those that were refused.
package netlog

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// maxEntries limits the entries kept per session; the newest stay.
const maxEntries = 1000

// maxText limits each of an entry's texts, in characters: any may come from code.
const maxText = 200

// Entry is one request that left a session or was refused. The zero value of a field that is not known is left out.
type Entry struct {
	Time          time.Time `json:"time"`
	Session       string    `json:"-"`
	Run           string    `json:"run_id,omitempty"`
	Kind          string    `json:"kind"` // "proxy", "packages", "sql" or "tools"
	Method        string    `json:"method,omitempty"`
	Host          string    `json:"host"`           // with the port if it is not the scheme's own
	Path          string    `json:"path,omitempty"` // without a query; known only where the request was read
	Allowed       bool      `json:"allowed"`
	Rule          string    `json:"rule,omitempty"` // the rule that refused it, or a person's answer that allowed it
	Why           string    `json:"why,omitempty"`  // refused or omitted items, and the rules: a line each
	Status        int       `json:"status,omitempty"`
	SentBytes     int64     `json:"sent_bytes"`
	ReceivedBytes int64     `json:"received_bytes"`
	DurationMS    int64     `json:"duration_ms"`
}

// Log holds every session's newest entries. The zero value is ready; its methods are safe for use by several goroutines.
type Log struct {
	// Added is called with each entry, and must not wait. Set before the first one; may be nil.
	Added func(Entry)

	mu       sync.Mutex
	sessions map[string]*entries
}

type entries struct {
	newest []Entry
	total  int
}

// Add records an entry, under its session. Its texts are clipped here, and may be of any length.
func (l *Log) Add(e Entry) {
	keep := func(said string, most int) string { // a part would keep the whole of a request
		return strings.Clone(strings.ToValidUTF8(text.Shorten(said, most), "?"))
	}
	for _, said := range []*string{&e.Run, &e.Kind, &e.Method, &e.Host, &e.Path, &e.Rule} {
		*said = keep(*said, maxText)
	}
	e.Why = keep(e.Why, 5*maxText)
	if l.Added != nil {
		l.Added(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		l.sessions = make(map[string]*entries)
	}
	s := l.sessions[e.Session]
	if s == nil {
		s = &entries{}
		l.sessions[e.Session] = s
	}
	s.total++
	if len(s.newest) == maxEntries {
		s.newest = slices.Delete(s.newest, 0, maxEntries/10)
	}
	s.newest = append(s.newest, e)
}

// Of returns a session's kept entries, the oldest first, and the total number.
func (l *Log) Of(session string) (newest []Entry, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[session]
	if s == nil {
		return nil, 0
	}
	return slices.Clone(s.newest), s.total
}

// Forget drops a session's record.
func (l *Log) Forget(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, session)
}
