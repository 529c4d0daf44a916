package httpserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestWhoIsLetThrough(t *testing.T) {
	f := serve(t, Options{Token: token, AllowOrigins: []string{"https://app.example"}, AllowHosts: []string{"sandbox.internal"}})
	port := f.address[strings.LastIndex(f.address, ":"):]
	for name, test := range map[string]struct {
		h      headers
		status int
	}{
		"with the token":                     {nil, 200},
		"the scheme in small letters":        {headers{"Authorization": "bearer " + token}, 200},
		"no token":                           {headers{"Authorization": ""}, 401},
		"another scheme":                     {headers{"Authorization": "Basic " + token}, 401},
		"the scheme alone":                   {headers{"Authorization": "Bearer"}, 401},
		"another token":                      {headers{"Authorization": "Bearer a-token-that-nobody-guessed"}, 401},
		"the beginning of the token":         {headers{"Authorization": "Bearer a-token"}, 401},
		"more than the token":                {headers{"Authorization": "Bearer " + token + "-"}, 401},
		"a token of 10 KB":                   {headers{"Authorization": "Bearer " + strings.Repeat("x", 10_000)}, 401},
		"a foreign page":                     {headers{"Origin": "https://evil.example"}, 403},
		"a page without origin":              {headers{"Origin": "null"}, 403},
		"a page that is no address":          {headers{"Origin": "::"}, 403},
		"a page that was named":              {headers{"Origin": "https://app.example"}, 200},
		"its beginning":                      {headers{"Origin": "https://app.example.evil.example"}, 403},
		"another scheme of it":               {headers{"Origin": "http://app.example"}, 403},
		"a page of this machine":             {headers{"Origin": "http://localhost:6274"}, 200},
		"a page that looks like it":          {headers{"Origin": "http://localhost.evil.example"}, 403},
		"a page of a name that leads here":   {headers{"Origin": "http://evil.example" + port, "Host": "evil.example" + port}, 403},
		"a name that leads here":             {headers{"Host": "evil.example" + port}, 403},
		"another machine's address":          {headers{"Host": "192.0.2.1" + port}, 403},
		"localhost":                          {headers{"Host": "localhost" + port}, 200},
		"localhost by a tunnel":              {headers{"Host": "localhost:9999"}, 200},
		"the other loopback address":         {headers{"Host": "[::1]" + port}, 200},
		"a name that was named":              {headers{"Host": "Sandbox.Internal." + port}, 200},
		"its own page behind TLS":            {headers{"Host": "sandbox.internal", "Origin": "https://sandbox.internal"}, 200},
		"another page behind TLS":            {headers{"Host": "sandbox.internal", "Origin": "https://sandbox.internal.evil.example"}, 403},
		"a name that begins like an address": {headers{"Host": "127.0.0.1.evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			a := f.post(ping, test.h)
			should.Equal(t, a.status, test.status, "%+v", a)
			if challenge := a.header.Get("WWW-Authenticate"); (a.status == 401) != strings.Contains(challenge, "resource_metadata=") {
				t.Errorf("%d with the challenge %q", a.status, challenge)
			}
		})
	}
}

func TestHeadersThatAreThereTwice(t *testing.T) {
	f := serve(t, Options{Token: token})
	for _, name := range single {
		r := f.request(http.MethodPost, Path, ping, nil)
		r.Header.Add(name, r.Header.Get(name))
		r.Header.Add(name, "another")
		a := f.do(r)
		should.Hold(t, a.status == http.StatusBadRequest && strings.Contains(a.body, name), "%s: %+v", name, a)
	}
}

func TestWithoutToken(t *testing.T) {
	f := serve(t, Options{})
	a := f.post(ping, headers{"Authorization": ""})
	should.Hold(t, a.status == http.StatusOK, "%+v", a)
	a = f.do(f.request(http.MethodGet, metadataPath, "", nil))
	should.Hold(t, a.status == http.StatusNotFound, "metadata: %+v", a)
}

func TestMetadata(t *testing.T) {
	f := serve(t, Options{Token: token})
	want := fmt.Sprintf(`{"resource":"http://%s/mcp","bearer_methods_supported":["header"],"resource_name":"Code sandbox"}`, f.address)
	for _, path := range []string{metadataPath, metadataPath + Path} {
		a := f.do(f.request(http.MethodGet, path, "", headers{"Authorization": ""}))
		should.Hold(t, a.status == http.StatusOK && a.body == want, "%s: %+v", path, a)
	}
}

func TestBrowsersAreAnswered(t *testing.T) {
	f := serve(t, Options{Token: token, AllowOrigins: []string{"https://app.example"}})
	asks := headers{"Authorization": "", "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
		"Access-Control-Request-Headers": "authorization,mcp-session-id"}
	a := f.do(f.request(http.MethodOptions, Path, "", asks))
	if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		a.header.Get("Access-Control-Allow-Headers") != "authorization,mcp-session-id" {
		t.Errorf("%+v", a)
	}
	a = f.post(ping, headers{"Authorization": "", "Origin": "https://app.example"})
	should.Hold(t, a.status == http.StatusUnauthorized && a.header.Get("Access-Control-Allow-Origin") == "https://app.example",
		"a page cannot read why it was refused: %+v", a)
	asks["Origin"] = "https://evil.example"
	if a := f.do(f.request(http.MethodOptions, Path, "", asks)); a.status != http.StatusForbidden || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%+v", a)
	}
}

func TestHeadersAndBodyAgree(t *testing.T) {
	f := serve(t, Options{Token: token})
	good, h := modernCall(1, "test", "echo")
	for name, test := range map[string]struct {
		body   string
		h      headers
		status int
		code   int
		says   string
	}{
		"all is well":                  {good, nil, 200, 0, ""},
		"the tool's name in Base64":    {good, headers{mcp.HeaderName: "=?base64?ZWNobw==?="}, 200, 0, ""},
		"no version":                   {good, headers{mcp.HeaderProtocolVersion: ""}, 400, mcp.HEADER_MISMATCH, "is missing"},
		"another version":              {good, headers{mcp.HeaderProtocolVersion: "2025-11-25"}, 400, mcp.HEADER_MISMATCH, `2025-11-25`},
		"a version of the header only": {call(1, "echo", ""), nil, 400, mcp.INVALID_PARAMS, "lacks"},
		"no method":                    {good, headers{mcp.HeaderMethod: ""}, 400, mcp.HEADER_MISMATCH, "Mcp-Method"},
		"another method":               {good, headers{mcp.HeaderMethod: "tools/list"}, 400, mcp.HEADER_MISMATCH, "tools/list"},
		"no name":                      {good, headers{mcp.HeaderName: ""}, 400, mcp.HEADER_MISMATCH, "Mcp-Name"},
		"another name":                 {good, headers{mcp.HeaderName: "wait"}, 400, mcp.HEADER_MISMATCH, `wait`},
		"a name that is no Base64":     {good, headers{mcp.HeaderName: "=?base64?!?="}, 400, mcp.HEADER_MISMATCH, "Base64"},
		"an event to go on from":       {good, headers{"Last-Event-ID": "7"}, 200, 0, ""},
		"a session":                    {good, headers{headerSession: "none"}, 200, 0, ""},
		"a version of the future": {strings.ReplaceAll(good, modern, "2099-01-01"), headers{mcp.HeaderProtocolVersion: "2099-01-01"},
			400, mcp.UNSUPPORTED_PROTOCOL_VERSION, modern},
		"an unknown method": {strings.Replace(good, "tools/call", "no/such", 1), headers{mcp.HeaderMethod: "no/such"}, 404, mcp.METHOD_NOT_FOUND, ""},
		"an answer":         {`{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, mcp.INVALID_REQUEST, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := headers{}
			for _, more := range []headers{h, test.h} {
				for name, value := range more {
					all[name] = value
				}
			}
			a := f.post(test.body, all)
			if a.status != test.status || a.code() != test.code || !strings.Contains(a.body, test.says) || a.header.Get(headerSession) != "" {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestOwnToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "http-token")
	first, err := OwnToken(path)
	must.Hold(t, err == nil && len(first) >= 40, "%q, %v", first, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if again, err := OwnToken(path); err != nil || again != first {
		t.Errorf("%q, %v", again, err)
	}
	left, _ := filepath.Glob(path + ".*")
	should.Hold(t, left == nil, "%v was left", left)
	for name, spoil := range map[string]func() error{
		"mode 0640":          func() error { return os.Chmod(path, 0o640) },
		"characters":         func() error { return os.WriteFile(path, []byte("short"), 0o600) },
		"one word":           func() error { return os.WriteFile(path, []byte("two words, which is one too many"), 0o600) },
		"not a regular file": func() error { return os.Symlink("/etc/hostname", path) },
	} {
		must.OK(t, os.RemoveAll(path))
		if name == "mode 0640" {
			_, _ = OwnToken(path)
		}
		must.OK(t, spoil())
		got, err := OwnToken(path)
		should.Hold(t, err != nil && strings.Contains(err.Error(), name), "%s: %q, %v", name, got, err)
	}
}

// Of several servers that start at once for the first time, all have the same token.
func TestOwnTokenOfManyServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http-token")
	tokens := make(chan string)
	const servers = 20
	for range servers {
		go func() {
			token, err := OwnToken(path)
			if err != nil {
				token = err.Error()
			}
			tokens <- token
		}()
	}
	first := <-tokens
	for range servers - 1 {
		should.Equal(t, <-tokens, first, "%q and", first)
	}
}

// Other routes are behind the same token, and their POSTs within the same bounds.
func TestOtherRoutes(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v", len(body), err)
	})
	f := serve(t, Options{Token: token, Site: Site{Routes: map[string]http.Handler{"/other/": echo}}, Open: map[string]http.Handler{"/other/open": echo}})
	for name, test := range map[string]struct {
		path, token string
		length      int
		body        string
		status      int
		want        string
	}{
		"token":            {"/other/x", token, 5, "12345", 200, "5 <nil>"},
		"no token":         {"/other/x", "", 5, "12345", 401, "send the header"},
		"open":             {"/other/open", "", 5, "12345", 200, "5 <nil>"},
		"a body too large": {"/other/x", token, rpc.MaxMessageBytes + 1, "", 200, "0 http: request body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := f.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
				test.path, test.token, test.length, test.body))
			if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", test.status)) || !strings.Contains(answer, "\r\n\r\n"+test.want) {
				t.Errorf("got %s", answer)
			}
		})
	}
}

// What is refused before it gets to a route is answered as the routes answer, and to clients of MCP with a line of text.
func TestRefusalsHaveTheShapeOfTheirRoute(t *testing.T) {
	o := Options{
		Token: token, Site: Site{Routes: map[string]http.Handler{"/other/": http.NotFoundHandler()}},
		Refuse: func(w http.ResponseWriter, r *http.Request, status int, problem, advice string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "%s: %s | %s", r.URL.Path, problem, advice)
		},
	}
	synctest.Test(t, func(t *testing.T) {
		f := serveInBubble(t, o)
		must.Hold(t, f.server.requests.all.TryAcquire(maxRequests), "requests are served")
		for name, test := range map[string]struct {
			headers headers
			status  int
			problem string
			advice  string
		}{
			"no token":       {headers{"Authorization": ""}, 401, "send the header Authorization: Bearer TOKEN", "the server's log says where its token is"},
			"a foreign page": {headers{"Origin": "https://evil.example; x"}, 403, `pages of "https://evil.example; x" may not use this server`, "--allow-origin names those that may"},
			"too many":       {nil, 503, "too many requests at once", "try again later"},
		} {
			for path, want := range map[string]string{
				"/other/x": "/other/x: " + test.problem + " | " + test.advice, Path: test.problem + "; " + test.advice + "\n",
			} {
				a := f.do(f.request(http.MethodPost, path, "{}", test.headers))
				if a.status != test.status || a.body != want || (a.status == 401) != (a.header.Get("WWW-Authenticate") != "") || (a.status == 503) != (a.header.Get("Retry-After") != "") {
					t.Errorf("%s, %s: %+v", name, path, a)
				}
			}
		}
		f.server.requests.all.Release(maxRequests)
	})
}

func TestWhoGivesOutTokens(t *testing.T) {
	const issuer, url = "https://login.example.com", "https://sandbox.example.com"
	f := serve(t, Options{Token: token, Issuer: issuer, URL: url})
	for given, want := range map[string]string{"": "", "Bearer another-token": `, error="invalid_token"`} {
		a := f.post(ping, headers{"Authorization": given})
		want = `Bearer resource_metadata="` + url + metadataPath + Path + `"` + want
		should.Hold(t, a.status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == want, "%q: %+v, not %s", given, a, want)
	}
	for _, path := range []string{metadataPath, metadataPath + Path} {
		a := f.do(f.request(http.MethodGet, path, "", headers{"Authorization": ""}))
		var got map[string]any
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got["resource"] != url+Path || fmt.Sprint(got["authorization_servers"]) != "["+issuer+"]" {
			t.Errorf("%s: %+v %v", path, a, err)
		}
	}
}

// testCertificate is for example.com and 127.0.0.1.
func testCertificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	certificate := s.TLS.Certificates[0]
	if certificate.Leaf == nil {
		leaf := must.Get(x509.ParseCertificate(certificate.Certificate[0]))(t)
		certificate.Leaf = leaf
	}
	return &certificate, s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// secure makes the fixture's client one that speaks TLS, and the newer HTTP or the older one.
func (f *fixture) secure(roots *x509.CertPool, newer bool) {
	transport := f.client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	transport.ForceAttemptHTTP2 = newer
}

func secured(r *http.Request) *http.Request {
	r.URL.Scheme = "https"
	return r
}

func TestTLS(t *testing.T) {
	certificate, roots := testCertificate(t)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			f := serve(t, Options{Token: token, Certificate: certificate})
			f.secure(roots, proto == "HTTP/2.0")
			response, err := f.client.Do(secured(f.request(http.MethodPost, Path, ping, nil)))
			must.Hold(t, err == nil && response.Proto == proto && response.StatusCode == http.StatusOK, "%+v, %v", response, err)
			response.Body.Close()
			for host, status := range map[string]int{"example.com": 200, "www.example.com": 200, "evil.example": 403} {
				a := f.do(secured(f.request(http.MethodPost, Path, ping, headers{"Host": host})))
				should.Hold(t, a.status == status, "%s: %+v", host, a)
			}
			want := fmt.Sprintf(`"resource":"https://%s/mcp"`, f.address)
			if a := f.do(secured(f.request(http.MethodGet, metadataPath, "", nil))); !strings.Contains(a.body, want) {
				t.Errorf("%+v", a)
			}
			a := f.do(secured(f.request(http.MethodPost, Path, call(1, "count", `,"arguments":{"n":3},"_meta":{"progressToken":1}`), nil)))
			should.Hold(t, a.header.Get("Content-Type") == web.TypeEvents && strings.Count(a.body, "event: message") == 4, "%+v", a)
			should.Contain(t, f.raw("GET / HTTP/1.0\r\n\r\n"), "400", "without TLS")
		})
	}
}

// An answer that takes longer than a client may take to read it is sent all the same.
func TestSlowAnswers(t *testing.T) {
	certificate, roots := testCertificate(t)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Options{Certificate: certificate})
				p := newPipes()
				f.address, f.dial = "example.com", p.dial
				f.start(p)
				f.secure(roots, proto == "HTTP/2.0")
				// The certificate is of another time than a bubble's.
				f.client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
				got := make(chan answer)
				go func() {
					got <- f.do(secured(f.request(http.MethodPost, Path, call(1, "wait", ""), headers{"Accept": "application/json"})))
				}()
				<-f.began
				time.Sleep(3 * web.WriteTime)
				f.stop()
				<-f.ended
				a := <-got
				should.Hold(t, a.text(t) == "waited", "%+v", a)
				f.close()
				time.Sleep(web.WriteTime) // both ends say goodbye over a pipe that neither reads any more
			})
		})
	}
}
