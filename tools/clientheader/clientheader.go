// Package clientheader reads the requests that clients make in HTTP headers: bounds below the server's, a database and an
// object store of their own. The names and rules are those of MadhanMohanReddy2301/CodeBoxMCP: of the client's bound and
// the server's the lower one counts, and an invalid value counts as the server's.
//
// Start with Read; With stores the result in a request's context and Of returns it.
//
// It promises that no header affects another client's request, and that no credential is read where the server does not
// allow it, nor quoted in a note.
package clientheader

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Bounds are the limits that headers can lower. In a request zero means that the client asks for no bound.
type Bounds struct {
	Lifetime        time.Duration // of a session
	IdleTimeout     time.Duration // of a session
	RunTimeout      time.Duration // the longest that a run may take
	DownloadTimeout time.Duration // of a file that is fetched
	DownloadBytes   int64         // likewise
	InlineRows      int64         // of a query's result in an answer
	LinkLifetime    time.Duration // of an address of a file in an object store
}

// Use is the purpose of a header. Its notes appear in the answers of tools that serve that purpose.
type Use int

// The uses.
const (
	Sessions Use = iota
	Runs
	Downloads
	Queries
	Stores
)

// AllUses is every one.
var AllUses = []Use{Sessions, Runs, Downloads, Queries, Stores}

// DatabaseName is the connection that headers give.
const DatabaseName = "header"

const (
	databaseHeader = "X-Db-Connection-String"
	passwordHeader = "X-Db-Password"
	// StoreHeader holds the connection string of a client's object store.
	StoreHeader     = "X-Blob-Connection-String"
	containerHeader = "X-Blob-Container-Name"
)

// mostCredential is the longest credential that is read, in bytes: each takes memory, to be masked in the answers.
const mostCredential = 4 << 10

// Store is a container of Azure Blob that belongs to a client.
type Store struct {
	Connection string // its credentials; never empty
	Container  string // empty: the server's default
}

// headers lists the known headers and the bounds that they set.
var headers = []struct {
	name string
	use  Use
	// isSecret is of a credential, which is read only where the server allows it.
	isSecret bool
	read     func(a *Asked, name, value string, most *Bounds)
}{
	{"X-Session-TTL", Sessions, false, number(Sessions, func(b *Bounds) *time.Duration { return &b.Lifetime }, time.Second)},
	{"X-Idle-Timeout", Sessions, false, number(Sessions, func(b *Bounds) *time.Duration { return &b.IdleTimeout }, time.Second)},
	{"X-Exec-Timeout", Runs, false, number(Runs, func(b *Bounds) *time.Duration { return &b.RunTimeout }, time.Second)},
	{"X-Download-Timeout", Downloads, false, number(Downloads, func(b *Bounds) *time.Duration { return &b.DownloadTimeout }, time.Second)},
	{"X-Max-Download-Size", Downloads, false, number(Downloads, func(b *Bounds) *int64 { return &b.DownloadBytes }, 1)},
	{"X-Sql-Max-Inline-Rows", Queries, false, number(Queries, func(b *Bounds) *int64 { return &b.InlineRows }, 1)},
	{databaseHeader, Queries, true, func(a *Asked, _, value string, _ *Bounds) { a.database().DSN = value }},
	{passwordHeader, Queries, true, func(a *Asked, _, value string, _ *Bounds) { a.database().Password = value }},
	{StoreHeader, Stores, true, func(a *Asked, _, value string, _ *Bounds) { a.store().Connection = value }},
	{containerHeader, Stores, true, func(a *Asked, _, value string, _ *Bounds) { a.store().Container = value }},
	{"X-Blob-SAS-Expiry-Hours", Stores, false, number(Stores, func(b *Bounds) *time.Duration { return &b.LinkLifetime }, time.Hour)},
}

// Asked holds the values of a request's headers. Its methods may be called on nil, which asks for nothing.
type Asked struct {
	bounds Bounds
	// Database is the one that the headers give. Nil: they give none.
	Database *sql.Source
	// Store is where artifacts go instead of the server's. Nil: the headers name none.
	Store *Store
	// Secrets are masked in answers to this client, beside the server's own. Nil: there are none.
	Secrets *secrets.Masker

	notes []note
}

type note struct {
	use  Use
	text string
}

// Read reads a request's headers. most is the server's limit, withCredentials whether it takes credentials. It returns nil if there are no
// such headers.
func Read(h http.Header, most Bounds, withCredentials bool) *Asked {
	a := &Asked{}
	refused := make(map[Use][]string)
	for _, header := range headers {
		values := slices.Compact(slices.Clone(h.Values(header.name)))
		switch {
		case len(values) == 0 || len(values) == 1 && values[0] == "":
		case header.isSecret && !withCredentials:
			refused[header.use] = append(refused[header.use], header.name)
		case len(values) > 1:
			a.note(header.use, "Note: the header %s was ignored: it came %d times, with different values.", header.name, len(values))
		case header.isSecret && len(values[0]) > mostCredential:
			a.note(header.use, "Note: the header %s was ignored: a credential may have %d bytes, and this one has %d.", header.name, mostCredential, len(values[0]))
		default:
			header.read(a, header.name, values[0], &most)
		}
	}
	for _, use := range AllUses {
		if names := refused[use]; names != nil {
			a.note(use, "Note: ignored %s: this server takes no credentials in headers (--header-credentials).", strings.Join(names, ", "))
		}
	}
	if d := a.Database; d != nil && (d.DSN == "" || d.Password == "") {
		a.Database = nil
		a.note(Queries, "Note: one of %s and %s was ignored: a database needs both.", databaseHeader, passwordHeader)
	}
	// Without its credentials a container would be one of the server's, and which of those is not for a client to choose.
	if a.Store != nil && a.Store.Connection == "" {
		a.Store = nil
		a.note(Stores, "Note: the header %s was ignored: it names a container of what %s opens, which is not there.", containerHeader, StoreHeader)
	}
	if a.bounds == (Bounds{}) && a.Database == nil && a.Store == nil && a.notes == nil {
		return nil
	}
	return a
}

// number reads a bound: a whole number of units above 0.
func number[T ~int64](use Use, field func(*Bounds) *T, unit T) func(*Asked, string, string, *Bounds) {
	return func(a *Asked, name, value string, most *Bounds) {
		n, err := strconv.ParseUint(value, 10, 64) // the largest number if it overflows
		allowed := *field(most)
		switch {
		case n == 0 || err != nil && n < 1<<64-1:
			a.note(use, "Note: the header %s is %q and not a whole number above 0; the server's %s counts.", name, text.Shorten(value, 40), inUnits(allowed, unit))
		case n > uint64(allowed/unit):
			a.note(use, "Note: the header %s was lowered from %s to %s, the most that this server allows.", name, text.Shorten(value, 40), inUnits(allowed, unit))
		default:
			*field(&a.bounds) = T(n) * unit
		}
	}
}

// inUnits writes the server's bound, which may be no whole number of them.
func inUnits[T ~int64](bound, unit T) string {
	return humanize.FtoaWithDigits(float64(bound)/float64(unit), 2)
}

func (a *Asked) database() *sql.Source {
	if a.Database == nil {
		a.Database = &sql.Source{Name: DatabaseName, Variable: databaseHeader, Dialect: sql.SQLServer, Foreign: true}
	}
	return a.Database
}

func (a *Asked) store() *Store {
	if a.Store == nil {
		a.Store = &Store{}
	}
	return a.Store
}

func (a *Asked) note(use Use, format string, args ...any) {
	a.notes = append(a.notes, note{use, fmt.Sprintf(format, args...)})
}

// Bounds returns the requested bounds that are below the server's; zero: none.
func (a *Asked) Bounds() Bounds {
	if a == nil {
		return Bounds{}
	}
	return a.bounds
}

// OwnStore returns where artifacts go instead of the server's store; nil: the headers name none.
func (a *Asked) OwnStore() *Store {
	if a == nil {
		return nil
	}
	return a.Store
}

// Times returns the requested times of a session.
func (a *Asked) Times() sandbox.Times {
	asked := a.Bounds()
	return sandbox.Times{IdleTimeout: asked.IdleTimeout, Lifetime: asked.Lifetime}
}

// Lower returns the lower one of the server's bound and the client's, which is none if it is zero.
func Lower[T ~int | ~int64](server, asked T) T {
	if asked > 0 {
		return min(server, asked)
	}
	return server
}

// Notes returns the notes on the headers for these uses, a sentence a line; empty: there are none.
func (a *Asked) Notes(uses ...Use) string {
	if a == nil {
		return ""
	}
	var lines []string
	for _, n := range a.notes {
		if slices.Contains(uses, n.use) {
			lines = append(lines, n.text)
		}
	}
	return strings.Join(lines, "\n")
}

type key struct{}

// With stores a in a request's context.
func With(ctx context.Context, a *Asked) context.Context {
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, a)
}

// Of returns the header values stored in a context; nil: there are none.
func Of(ctx context.Context) *Asked {
	a, _ := ctx.Value(key{}).(*Asked)
	return a
}
