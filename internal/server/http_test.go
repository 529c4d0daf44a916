package server

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
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
		s := setting.HTTP{Address: given}
		network, address, err := s.ListenAddress()
		if err != nil || network != want.network || address != want.address || setting.IsLocal(network, address) != want.local {
			t.Errorf("%s: %s %s, local %v, %v", given, network, address, setting.IsLocal(network, address), err)
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
		"a token that is short":    {args: []string{"--http=8000"}, env: map[string]string{setting.TokenVariable: "short"}, want: "SANDBOX_HTTP_TOKEN: the token has 5 characters"},
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
	s := setting.HTTP{TokenFile: named, Token: "the-token-of-the-environment"}
	if token, where, err := token(&s, dir); token != "the-token-of-a-file" || where != named || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
	s.TokenFile = ""
	if token, where, err := token(&s, dir); token != "the-token-of-the-environment" || where != setting.TokenVariable || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
	s.Token = ""
	made, where, err := token(&s, dir)
	if written, _ := os.ReadFile(filepath.Join(dir, "http-token")); err != nil || where != filepath.Join(dir, "http-token") || made+"\n" != string(written) {
		t.Errorf("%q in %q, %v", made, where, err)
	}
	s.NoAuth = true
	if token, where, err := token(&s, dir); token != "" || where != "" || err != nil {
		t.Errorf("%q in %q, %v", token, where, err)
	}
}

func TestSocketOfThisUserAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a socket there has no mode")
	}
	path := filepath.Join(t.TempDir(), "s")
	s := setting.HTTP{Address: setting.SocketScheme + path, NoAuth: true}
	w := must.Get(openWeb(&s, t.TempDir(), slog.New(slog.DiscardHandler)))(t)
	info, err := os.Stat(path)
	should.Hold(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	should.Fail(t, should.ErrOf(listenSocket(path)), "another server", "a second server")
	w.Listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a server that is killed leaves it
	_ = w.Listener.Close()
	again := must.Get(listenSocket(path))(t)
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
	page := forPersons(deps, false, nil)
	should.Hold(t, len(page.Enable) == 1 && len(page.Disable) == 1 && page.Called == nil, "got %+v for a principal", page)
}

func TestMachineID(t *testing.T) {
	dir := t.TempDir()
	system := filepath.Join(dir, "system")
	write := func(text string) {
		must.OK(t, os.WriteFile(system, []byte(text), 0o600))
	}
	write("of the system")
	should.Equal(t, machineID(system, filepath.Join(dir, "none")), "of the system")
	write("")
	state := filepath.Join(dir, "new", "state")
	ids := make([]string, 20)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = machineID(system, state) })
	}
	all.Wait()
	for _, id := range ids {
		must.Hold(t, id == ids[0] && len(id) >= 20, "servers that start at once have %q", ids)
	}
	should.Equal(t, machineID(system+".absent", state), ids[0], "a later one")
	id := machineID(system, filepath.Join(dir, "other"))
	should.Hold(t, id != ids[0], "another state folder has the same")
	left, _ := filepath.Glob(filepath.Join(state, "*.part"))
	should.Hold(t, len(left) == 0, "left: %q", left)
	// Where it cannot be kept, there is still something.
	if id := machineID(system, filepath.Join(system, "below-a-file")); id == "" {
		name, _ := os.Hostname()
		should.Hold(t, name == "", "nothing")
	}
}

func TestTheLogHasAnAddressThatOpens(t *testing.T) {
	var log strings.Builder
	w, err := openWeb(&setting.HTTP{Address: "0.0.0.0:0"}, t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	_ = w.Listener.Close()
	should.Hold(t, strings.Contains(log.String(), "page=http://127.0.0.1:"), "log: %s", log.String())
}

func TestDoctorLooksAtTheStore(t *testing.T) {
	nothing := func(string) (string, bool) { return "", false }
	should.Hold(t, storeChecks(t.Context(), &setting.ArtifactStore{}, nothing) == nil, "there is no store to look at")
	checks := storeChecks(t.Context(), &setting.ArtifactStore{Address: "azblob://artifacts"}, nothing)
	should.Hold(t, len(checks) == 1 && checks[0].Status == doctor.Warn && strings.Contains(checks[0].Found, "azblob://artifacts"), "without credentials: %+v", checks)
}
