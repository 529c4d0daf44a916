// Package tokens keeps the tokens by which principals show who they are.
//
// Open a Store with the path of its file. Add makes a token and returns its text, which is kept nowhere: the file has its SHA-256 sum alone.
// Authenticate finds a request's principal by it. Each server and each command of a user has a Store of its own on the same file; what one
// changes, the others go by at their next request.
package tokens

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// FileName is the file's name in the state directory.
const FileName = "tokens.json"

// Prefix begins each token, so that one is recognized where it has leaked to.
const Prefix = "csm_"

// Bounds of what the file holds.
const (
	maxTokens    = 10_000
	maxFileBytes = 8 << 20
	maxGroups    = 100
)

const (
	// usedEvery is how exactly it is known when a token was last used.
	usedEvery = time.Hour
	// lockTime is how long a change waits for another one.
	lockTime = 10 * time.Second
	// settleTime is how long after a change the file is read at each request: two changes within a tick of its file system's clock look alike.
	settleTime = 200 * time.Millisecond
	// troubleEvery is how often the log says that the file cannot be used.
	troubleEvery = time.Minute
)

// Errors of requests. Whoever asks is told none of them.
var (
	ErrUnknown = errors.New("the token is not known here: it was taken back, or never given")
	ErrExpired = errors.New("the token is over")
)

// ErrNotFound reports that no token has an id or a name.
var ErrNotFound = errors.New("there is no such token")

// Token is what is known of a token, which is not its text.
type Token struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"` // of its principal
	Groups []string `json:"groups,omitempty"`
	// Hash is the SHA-256 sum of the text, in hexadecimal.
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	// Expires is when it is over; zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// LastUsed is right to an hour; zero: never.
	LastUsed time.Time `json:"last_used,omitzero"`
}

// IsOver reports whether its time is over.
func (t Token) IsOver(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

type file struct {
	Tokens []*Token `json:"tokens"`
}

// Store is the tokens in a file. Its methods may be called by any number of goroutines.
type Store struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	known   map[string]*Token // by hash; nil: the file is to be read
	info    fs.FileInfo       // of the file that was read; nil: there was none
	settled bool
	used    map[string]time.Time // by hash: when it was last written down that a token was used
	trouble time.Time            // when the log last told of it
	noting  sync.WaitGroup       // what writes down that tokens were used
}

// Open returns the store of a file, which need not be there, and reads nothing yet.
func Open(path string, log *slog.Logger) *Store {
	return &Store{path: path, log: log, now: time.Now, used: make(map[string]time.Time)}
}

// Authenticate implements principal.Authenticator for the tokens of the store.
func (s *Store) Authenticate(r *http.Request) (principal.Principal, error) {
	return s.SignIn(principal.Bearer(r))
}

// SignIn returns the principal of a token's text. principal.ErrNone: it has not the form of one.
func (s *Store) SignIn(text string) (principal.Principal, error) {
	if !strings.HasPrefix(text, Prefix) {
		return principal.Principal{}, principal.ErrNone
	}
	return s.Known(hashOf(text))
}

// Known returns the principal of the token that has a SHA-256 sum, in hexadecimal: whether one that was shown before is still good.
func (s *Store) Known(hash string) (principal.Principal, error) {
	token, err := s.find(hash)
	if err != nil {
		return principal.Principal{}, err
	}
	return principal.Principal{Name: token.Name, Groups: token.Groups, Source: "token"}, nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// find returns the token of a hash. What it returns is not changed.
func (s *Store) find(hash string) (*Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if err := s.refresh(); err != nil {
		if now.Sub(s.trouble) >= troubleEvery {
			s.trouble = now
			s.log.Error("nobody is let in by a token of their own", "error", err)
		}
		return nil, err
	}
	token := s.known[hash]
	switch {
	case token == nil:
		return nil, ErrUnknown
	case token.IsOver(now):
		return nil, ErrExpired
	}
	if now.Sub(token.LastUsed) >= usedEvery && now.Sub(s.used[hash]) >= usedEvery {
		s.used[hash] = now // whatever comes of it
		s.noting.Go(func() { s.noteUse(hash, now) })
	}
	return token, nil
}

// refresh reads the file if it is another one than that which was read.
func (s *Store) refresh() error {
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.known, s.info, s.settled = map[string]*Token{}, nil, true
		return nil
	case err == nil && s.known != nil && s.settled && s.info != nil && os.SameFile(info, s.info) && info.Size() == s.info.Size() && info.ModTime().Equal(s.info.ModTime()) && info.Mode() == s.info.Mode():
		return nil
	}
	s.known = nil
	all, info, err := read(s.path)
	if err != nil {
		return err
	}
	s.known = make(map[string]*Token, len(all.Tokens))
	for _, t := range all.Tokens {
		s.known[t.Hash] = t
	}
	maps.DeleteFunc(s.used, func(hash string, _ time.Time) bool { return s.known[hash] == nil })
	s.info, s.settled = info, time.Since(info.ModTime()) > settleTime
	return nil
}

// noteUse writes down when a token was used. That it could not is no reason to refuse anybody.
func (s *Store) noteUse(hash string, when time.Time) {
	err := s.change(func(all *file) error {
		for _, t := range all.Tokens {
			if t.Hash == hash && when.Sub(t.LastUsed) >= usedEvery {
				t.LastUsed = when.UTC().Truncate(time.Minute)
				return nil
			}
		}
		return errNothing
	})
	if err != nil {
		s.log.Debug("when a token was used is not written down", "error", err)
	}
}

// Add makes a token for a principal, and returns its text too, which nothing keeps. lifetime 0: it is never over. Groups are the principal's,
// whichever of its tokens it shows: those that are given count for its other tokens too, and without any it has those of the others.
func (s *Store) Add(name string, groups []string, lifetime time.Duration) (Token, string, error) {
	if err := errors.Join(principal.CheckName(name), checkGroups(groups)); err != nil {
		return Token{}, "", err
	}
	if lifetime < 0 {
		return Token{}, "", fmt.Errorf("a token cannot be good for %s", lifetime)
	}
	text := Prefix + strings.ToLower(rand.Text())
	now := s.now().UTC().Truncate(time.Second)
	token := Token{ID: "t" + strings.ToLower(rand.Text()[:9]), Name: name, Groups: groups, Hash: hashOf(text), Created: now}
	if lifetime > 0 {
		token.Expires = now.Add(lifetime)
	}
	err := s.change(func(all *file) error {
		if len(all.Tokens) >= maxTokens {
			return fmt.Errorf("there are %d tokens already, and may be no more; revoke some", maxTokens)
		}
		for _, t := range all.Tokens {
			switch {
			case t.Name != name:
			case len(groups) > 0:
				t.Groups = groups
			default:
				token.Groups = t.Groups
			}
		}
		all.Tokens = append(all.Tokens, &token)
		return nil
	})
	return token, text, err
}

func checkGroups(groups []string) error {
	if len(groups) > maxGroups {
		return fmt.Errorf("%d groups are given, and a token has at most %d", len(groups), maxGroups)
	}
	for _, group := range groups {
		if err := principal.CheckName(group); err != nil {
			return fmt.Errorf("the group %q: %w", group, err)
		}
	}
	return nil
}

// List returns all tokens, by the names of their principals and their age.
func (s *Store) List() ([]Token, error) {
	all, _, err := read(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	tokens := make([]Token, 0, len(all.Tokens))
	for _, t := range all.Tokens {
		tokens = append(tokens, *t)
	}
	slices.SortStableFunc(tokens, func(a, b Token) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created)) })
	return tokens, nil
}

// Revoke takes back the token of an id, and all tokens of a name, and returns them. ErrNotFound: there is none.
func (s *Store) Revoke(which string) ([]Token, error) {
	var revoked []Token
	return revoked, s.change(func(all *file) error {
		all.Tokens = slices.DeleteFunc(all.Tokens, func(t *Token) bool {
			if t.ID != which && t.Name != which {
				return false
			}
			revoked = append(revoked, *t)
			return true
		})
		if len(revoked) == 0 {
			return ErrNotFound
		}
		return nil
	})
}

// errNothing is returned by a change that leaves all as it is.
var errNothing = errors.New("there is nothing to change")

// change changes the file under a lock that all processes heed.
func (s *Store) change(how func(*file) error) error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !state.IsOwn(dir) {
		return &fs.PathError{Op: "use", Path: dir, Err: state.ErrForeign}
	}
	lock, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := patiently(func() (bool, error) { err := filelock.Try(lock); return errors.Is(err, filelock.ErrHeld), err }); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	all, _, err := read(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := how(&all); err != nil {
		if errors.Is(err, errNothing) {
			return nil
		}
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > maxFileBytes {
		return fmt.Errorf("%s would have more than %d MiB; revoke some tokens", s.path, maxFileBytes>>20)
	}
	// On Windows a file that somebody reads cannot be replaced.
	return patiently(func() (bool, error) {
		err := state.WriteFileDurably(s.path, append(text, '\n'))
		return runtime.GOOS == "windows" && errors.Is(err, fs.ErrPermission), err
	})
}

// patiently tries again, for lockTime, while what is tried says so.
func patiently(try func() (again bool, err error)) error {
	for end := time.Now().Add(lockTime); ; time.Sleep(5 * time.Millisecond) {
		if again, err := try(); !again || time.Now().After(end) {
			return err
		}
	}
}

// read returns what a file holds that this user alone can read.
func read(path string) (all file, info fs.FileInfo, err error) {
	if info, err = os.Lstat(path); err != nil {
		return file{}, nil, err
	}
	if err := checkOwn(path, info); err != nil { // before it is opened: a pipe would wait
		return file{}, nil, err
	}
	opened, err := os.OpenFile(path, os.O_RDONLY|filelock.NoFollow, 0)
	if err != nil {
		return file{}, nil, err
	}
	defer func() { _ = opened.Close() }()
	if info, err = opened.Stat(); err != nil { // it may be another one meanwhile
		return file{}, nil, err
	}
	if err := checkOwn(path, info); err != nil {
		return file{}, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxFileBytes+1))
	if err != nil {
		return file{}, nil, err
	}
	if len(text) > maxFileBytes {
		return file{}, nil, fmt.Errorf("%s has more than %d MiB", path, maxFileBytes>>20)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return file{}, nil, fmt.Errorf("%s cannot be read: %w; restore it, or remove it and give out new tokens", path, err)
	}
	for _, t := range all.Tokens {
		if t == nil || len(t.Hash) != hex.EncodedLen(sha256.Size) || principal.CheckName(t.Name) != nil || checkGroups(t.Groups) != nil {
			return file{}, nil, fmt.Errorf("%s cannot be read: a token in it has no good name, groups or hash; restore it, or remove it and give out new tokens", path)
		}
	}
	return all, info, nil
}

// checkOwn refuses a file that somebody else can have written or read.
func checkOwn(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; remove it", path)
	case state.IsAnothers(info):
		return fmt.Errorf("%s belongs to another user; remove it", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return fmt.Errorf("%s can be read or changed by others (mode %04o); look what is in it, and run chmod 600 on it", path, info.Mode().Perm())
	}
	return nil
}

// Close waits for what writes down that tokens were used.
func (s *Store) Close() { s.noting.Wait() }
