package server

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

func TestAddressesOfHTTP(t *testing.T) {
	for given, want := range map[string]struct {
		network, address string
		local            bool
	}{
		"127.0.0.1:8000":        {"tcp", "127.0.0.1:8000", true},
		"8000":                  {"tcp", "127.0.0.1:8000", true},
		":8000":                 {"tcp", "127.0.0.1:8000", true},
		"localhost:0":           {"tcp", "localhost:0", true},
		"[::1]:8000":            {"tcp", "[::1]:8000", true},
		"http://127.0.0.1:8000": {"tcp", "127.0.0.1:8000", true},
		"0.0.0.0:8000":          {"tcp", "0.0.0.0:8000", false},
		"[::]:8000":             {"tcp", "[::]:8000", false},
		"192.0.2.7:8000":        {"tcp", "192.0.2.7:8000", false},
		"sandbox.internal:80":   {"tcp", "sandbox.internal:80", false},
		"fd://":                 {"fd", "", true},
		"unix:///run/sandbox.s": {"unix", "/run/sandbox.s", true},
	} {
		s := HTTPSettings{Address: given}
		network, address, err := s.ListenAddress()
		if err != nil || network != want.network || address != want.address || IsLocal(network, address) != want.local {
			t.Errorf("%s: %s %s, local %v, %v", given, network, address, IsLocal(network, address), err)
		}
	}
}

func TestBadSettingsOfHTTP(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"no port":                  {args: []string{"--http=localhost"}, want: `--http "localhost" is not an address`},
		"a port that is none":      {args: []string{"--http=localhost:http"}, want: `"http" is not a port`},
		"a port that is too large": {args: []string{"--http=localhost:65536"}, want: `"65536" is not a port`},
		"a path that is relative":  {args: []string{"--http=unix://sandbox.sock"}, want: "begins with /"},
		"no token on a network":    {args: []string{"--http=0.0.0.0:8000", "--http-no-auth"}, want: "--http-no-auth on 0.0.0.0:8000"},
		"no token on a name":       {args: []string{"--http=sandbox.internal:80", "--http-no-auth"}, want: "--http-no-auth on sandbox.internal:80"},
		"no token and a token":     {args: []string{"--http=8000", "--http-no-auth", "--http-token-file=x"}, want: "exclude each other"},
		"no key":                   {args: []string{"--http=8000", "--tls-cert=x"}, want: "--tls-cert and --tls-key go together"},
		"an origin with a path":    {args: []string{"--http=8000", "--allow-origin=https://a.example/x"}, want: `"https://a.example/x" is not an origin`},
		"an origin without scheme": {args: []string{"--http=8000", "--allow-origin=a.example"}, want: `"a.example" is not an origin`},
		"no token for all pages":   {args: []string{"--http=8000", "--allow-origin=*", "--http-no-auth"}, want: "every web page"},
		"a token that is short":    {args: []string{"--http=8000"}, env: map[string]string{tokenVariable: "short"}, want: "SANDBOX_HTTP_TOKEN: the token has 5 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			should.Fail(t, should.ErrOf(loadSettings(t, test.args, test.env)), test.want)
		})
	}
	should.OK(t, should.ErrOf(loadSettings(t, []string{"--http-no-auth", "--tls-cert=x"}, nil)), "where HTTP is not asked for")
}

// A token comes from the file that is named, else from the environment, else from the server's own file.
func TestWhereTheTokenComesFrom(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "named")
	must.OK(t, os.WriteFile(named, []byte("the-token-of-a-file\n"), 0o600))
	s := HTTPSettings{TokenFile: named, tokenVariable: "the-token-of-the-environment"}
	if token, where, err := s.token(dir); token != "the-token-of-a-file" || where != named || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
	s.TokenFile = ""
	if token, where, err := s.token(dir); token != "the-token-of-the-environment" || where != tokenVariable || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
	s.tokenVariable = ""
	token, where, err := s.token(dir)
	if written, _ := os.ReadFile(filepath.Join(dir, "http-token")); err != nil || where != filepath.Join(dir, "http-token") || token+"\n" != string(written) {
		t.Errorf("%q in %q, %v", token, where, err)
	}
	s.NoAuth = true
	if token, where, err := s.token(dir); token != "" || where != "" || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
}

func TestSocketOfThisUserAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a socket there has no mode")
	}
	path := filepath.Join(t.TempDir(), "s")
	s := HTTPSettings{Address: socketScheme + path, NoAuth: true}
	w, err := s.open(t.TempDir(), slog.New(slog.DiscardHandler))
	must.OK(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	should.Fail(t, should.ErrOf(listenSocket(path)), "another server", "a second server")
	w.Listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a server that is killed leaves it
	_ = w.Listener.Close()
	again, err := listenSocket(path)
	must.OK(t, err)
	_ = again.Close()
	must.OK(t, os.WriteFile(path, nil, 0o600))
	if _, err := listenSocket(path); err == nil {
		t.Error("a file was removed that is no socket")
	}
}

// What a model may not do, the owner may, and does not count as a model's call. Other principals may not either.
func TestTheOwnersPageHasEveryTool(t *testing.T) {
	deps := &tools.Deps{Enable: []string{"run_python_code"}, Disable: []string{"close_session"}, UploadBytes: 1, Called: new(telemetry.Recorder).Call}
	if page := forPersons(deps, true, nil); page.Enable != nil || page.Disable != nil || page.Called != nil || page.UploadBytes != 1 || deps.Called == nil {
		t.Errorf("got %+v", page)
	}
	if page := forPersons(deps, false, nil); len(page.Enable) != 1 || len(page.Disable) != 1 || page.Called != nil {
		t.Errorf("got %+v for a principal", page)
	}
}
