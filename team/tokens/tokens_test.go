package tokens

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func open(t testing.TB) *Store {
	t.Helper()
	return again(t, filepath.Join(t.TempDir(), "state", FileName))
}

// again opens the store of a file as another process would.
func again(t testing.TB, path string) *Store {
	t.Helper()
	s := Open(path, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return s
}

func request(authorization ...string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": authorization}}
}

func add(t testing.TB, s *Store, name string, lifetime time.Duration, groups ...string) (Token, string) {
	t.Helper()
	token, text, err := s.Add(name, groups, lifetime)
	must.OK(t, err)
	return token, text
}

func TestATokenIsItsPrincipal(t *testing.T) {
	s := open(t)
	_, alice := add(t, s, "alice", 0, "staff", "admins")
	_, other := add(t, s, "alice", 0)
	_, bob := add(t, s, "bob@example.com", time.Hour)
	for text, want := range map[string]string{alice: "alice", other: "alice", bob: "bob@example.com"} {
		should.Hold(t, strings.HasPrefix(text, prefix) && len(text) >= len(prefix)+26, "the token is %q", text)
		for _, store := range []*Store{s, again(t, s.path)} {
			p, err := store.Authenticate(request("Bearer " + text))
			should.Hold(t, err == nil && p.Name == want && p.Source == "token", "%s: %+v, %v", want, p, err)
		}
	}
	p, _ := s.Authenticate(request("bearer  " + alice))
	should.Hold(t, slices.Equal(p.Groups, []string{"staff", "admins"}), "groups: %q", p.Groups)
}

// A principal has one set of groups, whichever of its tokens it shows, so that what it may do does not change from one to the next.
func TestGroupsAreThePrincipals(t *testing.T) {
	s := open(t)
	_, first := add(t, s, "alice", 0, "staff")
	token, second := add(t, s, "alice", 0)
	should.EqualSlice(t, token.Groups, []string{"staff"}, "a second token has the groups")
	add(t, s, "alice", 0, "admins")
	_, bob := add(t, s, "bob", 0)
	for text, want := range map[string][]string{first: {"admins"}, second: {"admins"}, bob: nil} {
		p, err := s.Authenticate(request("Bearer " + text))
		should.Hold(t, err == nil && slices.Equal(p.Groups, want), "%q, %v, want %q", p.Groups, err, want)
	}
}

func TestWhatIsNoTokenOfOurs(t *testing.T) {
	s := open(t)
	_, text := add(t, s, "alice", 0)
	for name, test := range map[string]struct {
		header []string
		want   error
	}{
		"none":                 {nil, principal.ErrNone},
		"another kind":         {[]string{"Bearer 0123456789abcdef"}, principal.ErrNone},
		"another scheme":       {[]string{"Basic " + text}, principal.ErrNone},
		"two headers":          {[]string{"Bearer " + text, "Bearer " + text}, principal.ErrNone},
		"the prefix alone":     {[]string{"Bearer " + prefix}, errUnknown},
		"one that was guessed": {[]string{"Bearer " + prefix + "aaaaaaaaaaaaaaaaaaaaaaaaaa"}, errUnknown},
		"in capitals":          {[]string{"Bearer " + prefix + strings.ToUpper(text[len(prefix):])}, errUnknown},
		"its hash":             {[]string{"Bearer " + prefix + hashOf(text)}, errUnknown},
		"one and more":         {[]string{"Bearer " + text + " x"}, errUnknown},
		"a huge one":           {[]string{"Bearer " + prefix + strings.Repeat("a", 1<<20)}, errUnknown},
	} {
		p, err := s.Authenticate(request(test.header...))
		should.Hold(t, errors.Is(err, test.want) && p.Name == "", "%s: %+v, %v", name, p, err)
	}
}

func TestTheFileHasNoToken(t *testing.T) {
	s := open(t)
	_, text := add(t, s, "alice", 0)
	content := must.Get(os.ReadFile(s.path))(t)
	if strings.Contains(string(content), text) || strings.Contains(string(content), text[len(prefix):]) || !strings.Contains(string(content), hashOf(text)) {
		t.Errorf("the file has %s", content)
	}
	if info, err := os.Stat(s.path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestARevokedTokenIsRefusedAtOnce(t *testing.T) {
	server := open(t)
	command := again(t, server.path)
	keep, kept := add(t, command, "alice", 0)
	gone, text := add(t, command, "alice", 0)
	let := must.Get(server.Authenticate(request("Bearer " + text)))(t)
	revoked, err := command.Revoke(gone.ID)
	must.Hold(t, err == nil && len(revoked) == 1 && revoked[0].ID == gone.ID, "%+v, %v", revoked, err)
	should.Be(t, should.ErrOf(server.Authenticate(request("Bearer "+text))), errUnknown)
	should.Hold(t, !principal.Still(server, request("Bearer "+text), let), "what it was let in for goes on")
	should.Hold(t, principal.Still(server, request("Bearer "+kept), let), "the other token of the name is gone as well")
	revoked, err = command.Revoke("alice")
	should.Hold(t, err == nil && len(revoked) == 1 && revoked[0].ID == keep.ID, "%+v, %v", revoked, err)
	should.Be(t, should.ErrOf(server.Authenticate(request("Bearer "+kept))), errUnknown)
	should.Be(t, should.ErrOf(command.Revoke("alice")), ErrNotFound)
}

func TestATokenEndsInTime(t *testing.T) {
	s := open(t)
	_, text := add(t, s, "alice", time.Hour)
	now := time.Now()
	s.now = func() time.Time { return now }
	should.OK(t, should.ErrOf(s.Authenticate(request("Bearer "+text))))
	now = now.Add(time.Hour)
	should.Be(t, should.ErrOf(s.Authenticate(request("Bearer "+text))), errExpired)
}

func TestWhenATokenWasUsedIsWrittenOnceAnHour(t *testing.T) {
	s := open(t)
	_, text := add(t, s, "alice", 0)
	now := time.Now()
	s.now = func() time.Time { return now }
	use := func() time.Time {
		for range 5 {
			must.OK(t, should.ErrOf(s.Authenticate(request("Bearer "+text))))
		}
		s.Close()
		tokens := must.Get(s.List())(t)
		return tokens[0].LastUsed
	}
	first := use()
	must.Hold(t, !first.IsZero() && now.Sub(first) <= time.Hour, "used at %v", first)
	now = now.Add(usedEvery / 2)
	again := use()
	should.Hold(t, again.Equal(first), "written again at %v", again)
	now = now.Add(usedEvery)
	again = use()
	should.Hold(t, again.After(first), "still used at %v", again)
}

func TestAddsAndRevokesAtOnceLoseNothing(t *testing.T) {
	path := open(t).path
	const workers, each = 4, 6
	var wait sync.WaitGroup
	texts := make(chan string, workers*each)
	for range workers {
		s := again(t, path)
		wait.Go(func() {
			for range each {
				_, kept, err := s.Add("kept", nil, 0)
				gone, _, err2 := s.Add("gone", nil, 0)
				_, err3 := s.Revoke(gone.ID)
				if err := errors.Join(err, err2, err3); err != nil {
					t.Error(err)
					return
				}
				texts <- kept
				should.OK(t, should.ErrOf(s.Authenticate(request("Bearer "+kept))))
			}
		})
	}
	wait.Wait()
	close(texts)
	s := again(t, path)
	tokens, err := s.List()
	must.Hold(t, err == nil && len(tokens) == workers*each, "%d tokens, %v", len(tokens), err)
	for text := range texts {
		p, err := s.Authenticate(request("Bearer " + text))
		should.Hold(t, err == nil && p.Name == "kept", "%+v, %v", p, err)
	}
}

func TestAFileThatCannotBeTrustedLetsNobodyIn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links of Unix")
	}
	elsewhere := filepath.Join(t.TempDir(), FileName)
	for name, spoil := range map[string]func(path string) error{
		"a link":            func(path string) error { return errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path)) },
		"a folder":          func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"readable by all":   func(path string) error { return os.Chmod(path, 0o644) },
		"writable by some":  func(path string) error { return os.Chmod(path, 0o620) },
		"half":              func(path string) error { return os.Truncate(path, 20) },
		"empty":             func(path string) error { return os.Truncate(path, 0) },
		"huge":              func(path string) error { return os.Truncate(path, ownfile.MaxBytes+1) },
		"a token of nobody": func(path string) error { return replace(path, `"alice"`, `""`) },
		"no hash":           func(path string) error { return replace(path, `"hash": "`, `"hash": "0`) },
		"null":              func(path string) error { return os.WriteFile(path, []byte(`{"tokens":[null]}`), 0o600) },
	} {
		s := open(t)
		_, text := add(t, s, "alice", 0)
		must.OK(t, should.ErrOf(s.Authenticate(request("Bearer "+text))), "%v", name)
		s.Close() // what is noted would come between
		must.OK(t, spoil(s.path), "%v", name)
		p, err := s.Authenticate(request("Bearer " + text))
		should.Hold(t, err != nil && !errors.Is(err, principal.ErrNone), "%s: %+v, %v", name, p, err)
		_, err = s.List()
		should.Hold(t, err != nil, "%s: it is listed", name)
		_, _, err = s.Add("mallory", nil, 0)
		should.Hold(t, err != nil, "%s: it is added to", name)
	}
}

func replace(path, old, with string) error {
	text, err := os.ReadFile(path)
	return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600))
}

func TestAFolderOfOthersIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Unix")
	}
	dir := filepath.Join(t.TempDir(), "state")
	must.OK(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)))
	_, _, err := again(t, filepath.Join(dir, FileName)).Add("alice", nil, 0)
	should.Hold(t, err != nil, "a folder that everybody can write to is used")
}

func TestNoFileIsNoToken(t *testing.T) {
	s := open(t)
	tokens, err := s.List()
	should.Hold(t, err == nil && len(tokens) == 0, "%v, %v", tokens, err)
	should.Be(t, should.ErrOf(s.Authenticate(request("Bearer "+prefix+"x"))), errUnknown)
	_, text := add(t, s, "alice", 0)
	should.OK(t, should.ErrOf(s.Authenticate(request("Bearer "+text))))
	s.Close()
	err = os.Remove(s.path)
	must.Hold(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	should.Be(t, should.ErrOf(s.Authenticate(request("Bearer "+text))), errUnknown)
}

func TestWhatCannotBeAdded(t *testing.T) {
	s := open(t)
	for name, test := range map[string]struct {
		name     string
		groups   []string
		lifetime time.Duration
	}{
		"no name":         {"", nil, 0},
		"a bad name":      {"a\nb", nil, 0},
		"an empty group":  {"alice", []string{""}, 0},
		"a bad group":     {"alice", []string{"x\x00"}, 0},
		"too many groups": {"alice", slices.Repeat([]string{"g"}, maxGroups+1), 0},
		"a time before":   {"alice", nil, -time.Second},
	} {
		_, text, err := s.Add(test.name, test.groups, test.lifetime)
		should.Hold(t, err != nil && text == "", "%s: %q, %v", name, text, err)
	}
	should.Be(t, should.ErrOf(os.Stat(s.path)), fs.ErrNotExist, "there is a file")
}
