// Package filelinks makes signed links to the files of sessions, and serves them.
//
// Start with New. A link of [Links.Download] or [Links.Upload] is for one file of one session, for one method and for a
// limited time; [Links.ServeHTTP] answers it below /files/. A link is enough to get the file. Links end with the key, so
// with the process if no key is given. A Links is safe for use by several goroutines; a nil one makes no links.
package filelinks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Prefix begins the path of every link.
const Prefix = "/files/"

// Options configure links. Manager and BaseURL are required.
type Options struct {
	Manager *sandbox.Manager
	// Key signs the links. Nil: a random one.
	Key []byte
	// BaseURL is the public URL before Prefix, such as http://127.0.0.1:8080.
	BaseURL *url.URL
	// Lifetime is how long a link is good for; it never outlives its session. Zero: an hour.
	Lifetime time.Duration
	// UploadBytes is the largest file that an upload link takes. Zero: no limit but the session's own.
	UploadBytes int64
	// Scripts lets a browser run the scripts of HTML files, in a frame. False: they do not run.
	Scripts bool
	// Count counts a use of a link, or returns the fault why it may not be used. Nil: any number of uses.
	Count func() error
	// Logger may be nil.
	Logger *slog.Logger
}

// Links signs links and serves them.
type Links struct {
	o        Options
	now      func() time.Time
	paceTime time.Duration

	mu sync.Mutex
	// grants are the upload links that were not used yet.
	grants map[mark]*grant
	turns  *fair.Places // of transfers
}

// mark tells a link from others that are for the same: it is a part of the signature. A download's is of the session's
// begin, so that a later session of that id is another; an upload's is random.
type mark [8]byte

// grant is the permission of an upload link, good for one upload.
type grant struct {
	session   mark
	overwrite bool
	expires   time.Time
	busy      bool
}

// maxGrants bounds the upload links that are good at once; the one that ends first makes room.
const maxGrants = 1000

// signatureBytes are those of a mark and 128 bits of a sum.
const signatureBytes = 24

// New makes a Links.
func New(o Options) *Links {
	if o.Key == nil {
		o.Key = make([]byte, sha256.Size)
		_, _ = rand.Read(o.Key) // never fails
	}
	if o.Lifetime == 0 {
		o.Lifetime = time.Hour
	}
	if o.Count == nil {
		o.Count = func() error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Links{o: o, now: time.Now, paceTime: paceTime, grants: make(map[mark]*grant), turns: fair.NewFew(math.MaxInt, sessionTransfers)}
}

// Download returns a link to a file of a session, the default one for an empty id. Empty: there is no such session, or
// no link can name the path.
func (l *Links) Download(session, path string) string {
	if l == nil {
		return ""
	}
	lease, err := l.o.Manager.Lease(session, false)
	if clean, bad := sandbox.CleanPath(path); err != nil || bad != nil || clean != path {
		return ""
	}
	return l.link(http.MethodGet, lease, path, l.expiry(lease), markOf(lease))
}

// Grant is a link that takes one file.
type Grant struct {
	SessionID  string
	URL        string
	Expires    time.Time
	LimitBytes int64 // 0: none
}

// Upload returns a link that takes a file for that path of a session, the default one for an empty id, which is made when
// it does not exist. The error is a fault.
func (l *Links) Upload(session, path string, overwrite bool) (Grant, error) {
	path, err := sandbox.CleanPath(path)
	if err != nil {
		return Grant{}, err
	}
	lease, err := l.o.Manager.Lease(session, true)
	if err != nil {
		return Grant{}, err
	}
	expires := l.expiry(lease)
	var nonce mark
	_, _ = rand.Read(nonce[:]) // never fails
	l.keep(nonce, &grant{session: markOf(lease), overwrite: overwrite, expires: expires})
	return Grant{
		SessionID: lease.SessionID, URL: l.link(http.MethodPut, lease, path, expires, nonce), Expires: expires, LimitBytes: l.o.UploadBytes,
	}, nil
}

func (l *Links) keep(nonce mark, g *grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first mark
	for at, other := range l.grants {
		if !other.busy && !other.expires.After(l.now()) {
			delete(l.grants, at)
		} else if had := l.grants[first]; had == nil || other.expires.Before(had.expires) {
			first = at
		}
	}
	if len(l.grants) >= maxGrants {
		delete(l.grants, first)
	}
	l.grants[nonce] = g
}

// expiry is when a link of now ends, in whole seconds.
func (l *Links) expiry(lease sandbox.Lease) time.Time {
	end := l.now().Add(l.o.Lifetime)
	if lease.Ends.Before(end) {
		end = lease.Ends
	}
	return end.Truncate(time.Second)
}

func markOf(lease sandbox.Lease) (m mark) {
	binary.BigEndian.PutUint64(m[:], uint64(lease.Created.UnixMilli()))
	return m
}

func (l *Links) link(method string, lease sandbox.Lease, path string, end time.Time, m mark) string {
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	expires := strconv.FormatInt(end.Unix(), 10)
	return fmt.Sprintf("%s%s%s/%s?expires=%s&signature=%s", strings.TrimSuffix(l.o.BaseURL.String(), "/"), Prefix,
		lease.SessionID, strings.Join(names, "/"), expires, l.sign(method, lease.SessionID, path, expires, m))
}

func (l *Links) sign(method, session, path, expires string, m mark) string {
	sum := hmac.New(sha256.New, l.o.Key)
	for _, part := range []string{method, session, path, expires, string(m[:])} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(m[:])[:signatureBytes])
}

// verify returns the mark of a signature that is one of ours.
func (l *Links) verify(method, session, path, expires, signature string) (m mark, ok bool) {
	given, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || len(given) != signatureBytes {
		return m, false
	}
	copy(m[:], given)
	return m, subtle.ConstantTimeCompare([]byte(signature), []byte(l.sign(method, session, path, expires, m))) == 1
}

// parse takes a link's path apart. Nothing is cleaned: there is one way to write the path of a file.
func parse(u *url.URL) (session, path string, ok bool) {
	rest, below := strings.CutPrefix(u.EscapedPath(), Prefix)
	session, escaped, _ := strings.Cut(rest, "/")
	if !below || runs.CheckSessionID(session) != nil {
		return "", "", false
	}
	names := strings.Split(escaped, "/")
	for i, name := range names {
		plain, err := url.PathUnescape(name)
		if err != nil || strings.Contains(plain, "/") {
			return "", "", false
		}
		names[i] = plain
	}
	path = strings.Join(names, "/")
	clean, err := sandbox.CleanPath(path)
	return session, path, err == nil && clean == path
}
