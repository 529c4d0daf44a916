// Package tokens keeps the tokens that are principals' credentials.
//
// Open a Store with its file's path. Add makes a token and returns its text, which is kept nowhere: the file holds its SHA-256 sum alone.
// Authenticate finds a request's principal by it. Each server and each command of a user opens its own Store on the same file; a change by
// one reaches the others at their next request.
package tokens

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// FileName is the file's name in the state directory.
const FileName = "tokens.json"

// prefix begins each token, so that a leaked one is recognized.
const prefix = "csm_"

// Bounds for the file's content.
const (
	maxTokens = 10_000
	maxGroups = 100
)

const (
	// usedEvery is how exactly it is known when a token was last used.
	usedEvery = time.Hour
	// troubleEvery is how often the log says that the file cannot be used.
	troubleEvery = time.Minute
)

// Request errors, which no answer has.
var (
	errUnknown = errors.New("the token is not known here: it was taken back, or never given")
	errExpired = errors.New("the token is over")
)

// ErrNotFound reports that no token matches an id or a name.
var ErrNotFound = errors.New("there is no such token")

// Token describes a token, without its text.
type Token struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"` // of its principal
	Groups []string `json:"groups,omitempty"`
	// Hash is the text's SHA-256 sum, in hexadecimal.
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	// Expires is when it is over; zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// LastUsed is right to an hour; zero: never.
	LastUsed time.Time `json:"last_used,omitzero"`
}

// IsOver reports whether its time is over.
func (t Token) IsOver(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

type contents struct {
	Tokens []*Token `json:"tokens"`

	byHash map[string]*Token
}

// Check implements ownfile.Checker.
func (c *contents) Check() error {
	c.byHash = make(map[string]*Token, len(c.Tokens))
	for _, t := range c.Tokens {
		if t == nil || len(t.Hash) != hex.EncodedLen(sha256.Size) || principal.CheckName(t.Name) != nil || checkGroups(t.Groups) != nil {
			return errors.New("a token in it has no good name, groups or hash")
		}
		c.byHash[t.Hash] = t
	}
	return nil
}

// Store is the tokens in a file. Its methods may be called by several goroutines.
type Store struct {
	path string
	file *ownfile.File[contents]
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	used    map[string]time.Time // by hash: when it was last written down that a token was used
	trouble time.Time            // when the log last told of it
	noting  sync.WaitGroup       // the goroutines that write down token use
}

// Open returns a file's store, which need not be there, and does not read it yet.
func Open(path string, log *slog.Logger) *Store {
	return &Store{path: path, file: ownfile.Open[contents](path), log: log, now: time.Now, used: make(map[string]time.Time)}
}

// Authenticate implements principal.Authenticator for the store's tokens.
func (s *Store) Authenticate(r *http.Request) (principal.Principal, error) {
	text := principal.Bearer(r)
	if !strings.HasPrefix(text, prefix) {
		return principal.Principal{}, principal.ErrNone
	}
	token, err := s.find(hashOf(text))
	if err != nil {
		return principal.Principal{}, err
	}
	return principal.Principal{Name: token.Name, Groups: token.Groups, Source: "token"}, nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// find returns a hash's token. The result must not be changed.
func (s *Store) find(hash string) (*Token, error) {
	all, err := s.file.Read()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if err != nil {
		if now.Sub(s.trouble) >= troubleEvery {
			s.trouble = now
			s.log.Error("nobody is let in by a token of their own", "error", err)
		}
		return nil, err
	}
	token := all.byHash[hash]
	switch {
	case token == nil:
		return nil, errUnknown
	case token.IsOver(now):
		return nil, errExpired
	}
	if now.Sub(token.LastUsed) >= usedEvery && now.Sub(s.used[hash]) >= usedEvery {
		maps.DeleteFunc(s.used, func(hash string, _ time.Time) bool { return all.byHash[hash] == nil })
		s.used[hash] = now // whatever comes of it
		s.noting.Go(func() { s.noteUse(hash, now) })
	}
	return token, nil
}

// noteUse writes down when a token was used. That it could not is no reason to refuse anybody.
func (s *Store) noteUse(hash string, when time.Time) {
	err := s.file.Change(func(all *contents) error {
		for _, t := range all.Tokens {
			if t.Hash == hash && when.Sub(t.LastUsed) >= usedEvery {
				t.LastUsed = when.UTC().Truncate(time.Minute)
				return nil
			}
		}
		return ownfile.ErrUnchanged
	})
	if err != nil {
		s.log.Debug("when a token was used is not written down", "error", err)
	}
}

// Add makes a token for a principal, and returns its text too, which is kept nowhere. lifetime 0: it never expires. Groups are the
// principal's, whichever of its tokens it shows: given ones count for its other tokens too, and without any it takes theirs.
func (s *Store) Add(name string, groups []string, lifetime time.Duration) (Token, string, error) {
	if err := errors.Join(principal.CheckName(name), checkGroups(groups)); err != nil {
		return Token{}, "", err
	}
	if lifetime < 0 {
		return Token{}, "", fmt.Errorf("a token cannot be good for %s", lifetime)
	}
	text := prefix + strings.ToLower(rand.Text())
	now := s.now().UTC().Truncate(time.Second)
	token := Token{ID: "t" + strings.ToLower(rand.Text()[:9]), Name: name, Groups: groups, Hash: hashOf(text), Created: now}
	if lifetime > 0 {
		token.Expires = now.Add(lifetime)
	}
	err := s.file.Change(func(all *contents) error {
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
	all, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, 0, len(all.Tokens))
	for _, t := range all.Tokens {
		tokens = append(tokens, *t)
	}
	slices.SortStableFunc(tokens, func(a, b Token) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created)) })
	return tokens, nil
}

// Revoke takes back the token with an id, and all with a name, and returns them. ErrNotFound: there is none.
func (s *Store) Revoke(which string) ([]Token, error) {
	var revoked []Token
	err := s.file.Change(func(all *contents) error {
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
	return revoked, err
}

// Close waits for the writing of the tokens' use.
func (s *Store) Close() { s.noting.Wait() }
