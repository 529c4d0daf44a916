//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startOAuth starts a server that gives out tokens by OAuth, and returns the token of a person.
func startOAuth(t *testing.T) (s *httpServer, person string) {
	t.Helper()
	s = startHTTP(t, "--oauth")
	cmd := exec.CommandContext(t.Context(), serverProgram, "tokens", "add", "ann", "--json", "--state-dir", s.stateDir)
	out, err := cmd.Output()
	var made struct{ Token string }
	if err = errors.Join(err, json.Unmarshal(out, &made)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s, made.Token
}

func TestOAuthOfTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			s, person := startOAuth(t)
			stdout, stderr, err := node(t, "oauth.mjs", s.url, person, generation)
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s\n%s", err, stdout, stderr, s.stderr.String())
			}
		})
	}
}

var readTicket = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// allow is what a person does who is sent to an address: it opens the page, and allows what is asked for.
func allow(t *testing.T, address, person string) {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(page.Body)
	_ = page.Body.Close()
	found := readTicket.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%d %s", page.StatusCode, text)
	}
	u, _ := url.Parse(address)
	u.RawQuery = ""
	answer, err := browser.PostForm(u.String(), url.Values{"ticket": {html.UnescapeString(string(found[1]))}, "token": {person}, "decision": {"allow"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// The suite's scenarios for authorization servers; its others of the kind auth judge clients.
func TestConformanceOfTheAuthorizationServer(t *testing.T) {
	t.Parallel()
	s, person := startOAuth(t)
	issuer := strings.TrimSuffix(s.url, "/mcp")
	registered, err := http.Post(issuer+"/oauth/register", "application/json", strings.NewReader(`{"client_name":"conformance","redirect_uris":["http://127.0.0.1/callback"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer registered.Body.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(registered.Body).Decode(&client); err != nil || client.ID == "" {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(npmClients(t), ".bin", "node"), filepath.Join("node_modules", ".bin", "conformance"), "authorization",
		"--url", issuer, "--client-id", client.ID, "--resource", s.url, "--port", port, "--spec-version", "2026-07-28")
	cmd.Dir, cmd.WaitDelay = clientsDir, 10*time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	asked, listens, address := 0, false, ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), issuer+"/oauth/authorize?") {
			address = lines.Text()
		}
		listens = listens || strings.HasPrefix(lines.Text(), "Callback server started")
		if listens && address != "" {
			asked++
			allow(t, address, person)
			address = ""
		}
	}
	if err := cmd.Wait(); err != nil || asked != 1 || !strings.Contains(said.String(), "Total: 3 passed, 0 failed") {
		t.Errorf("%v, and a person was asked %d times\n%s", err, asked, said.String())
	}
}
