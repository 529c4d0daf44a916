package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestHostsInsideThatAreReached(t *testing.T) {
	const other = "10.201.77.4"
	for _, test := range []struct {
		name    string
		options Options
		leads   string // what gitlab.corp does to
		address string
		want    string // in what the client says
		dialled string // inside
	}{
		{"a name", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, anInside, "https://gitlab.corp/", "200 OK hello", anInside + ":443"},
		{"a name, plain", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, anInside, "http://gitlab.corp/", "200 OK hello", anInside + ":80"},
		{"a port of its own", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:8929")}, anInside, "http://gitlab.corp:8929/", "200 OK hello", anInside + ":8929"},
		{"in open mode", Options{Mode: Open, Hosts: insides("gitlab.corp:443")}, anInside, "https://gitlab.corp/", "200 OK hello", anInside + ":443"},
		{"an address", Options{Mode: Allowlist, Hosts: insides(anInside + ":443")}, "", "https://" + anInside + "/", "200 OK hello", anInside + ":443"},
		{"an address in a network", Options{Mode: Allowlist, Hosts: insides("10.201.77.0/24:443")}, "", "https://" + anInside + "/", "200 OK hello", anInside + ":443"},
		{"a name in a network, with its name", Options{Mode: Allowlist, Hosts: append(hosts(insideHost), insides("10.201.77.0/24:443")...)}, anInside, "https://gitlab.corp/", "200 OK hello", anInside + ":443"},
		{"a name in a network, in open mode", Options{Mode: Open, Hosts: insides("10.201.77.0/24:443")}, anInside, "https://gitlab.corp/", "200 OK hello", anInside + ":443"},
		{"a mixed answer", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, "127.0.0.1 169.254.169.254 ::ffff:10.201.77.9 " + anInside + " fe80::1", "https://gitlab.corp/", "200 OK hello", anInside + ":443"},

		{"another port", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, anInside, "http://gitlab.corp/", "host_denied", ""},
		{"another name", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, anInside, "https://git.corp/", "host_denied", ""},
		{"its address", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, anInside, "https://" + anInside + "/", "address_denied", ""},
		{"a name in a network, without its name", Options{Mode: Allowlist, Hosts: insides("10.201.77.0/24:443")}, anInside, "https://gitlab.corp/", "host_denied", ""},
		{"beyond a network", Options{Mode: Allowlist, Hosts: insides(other + ":443")}, "", "https://" + anInside + "/", "address_denied", ""},
		{"a network with requests, by a name", Options{Mode: Open, Hosts: insides("10.201.77.0/24:443 GET /a")}, anInside, "https://gitlab.corp/", "address_denied", ""},
		{"not as a public one", Options{Mode: Allowlist, Hosts: hosts(insideHost)}, anInside, "https://gitlab.corp/", "host_unreachable", ""},
		{"loopback", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443")}, "127.0.0.1 ::1", "https://gitlab.corp/", "address_denied", ""},
		{"metadata", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, "169.254.169.254", "http://gitlab.corp/", "address_denied", ""},
		{"metadata among private ones", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, "100.100.100.200 fd00:ec2::254 168.63.129.16", "http://gitlab.corp/", "address_denied", ""},
		{"link-local", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, "fe80::1 169.254.1.1", "http://gitlab.corp/", "address_denied", ""},
		{"mapped, translated", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, "::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1 ::127.0.0.1", "http://gitlab.corp/", "address_denied", ""},
		{"multicast, unspecified", Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, "224.0.0.1 ff02::1 0.0.0.0 ::", "http://gitlab.corp/", "address_denied", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.options, hello)
			w.names.lead(insideHost, strings.Fields(test.leads)...)
			status, body := w.get(test.address)
			should.Contain(t, status+" "+body, test.want)
			should.Equal(t, w.names.taken(), test.dialled, "connected to")
		})
	}
}

// What a name leads to is asked once in a session: rebinding leads nowhere.
func TestANameInsideIsHeld(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, hello)
	for _, leads := range []string{anInside, "127.0.0.1", "10.201.77.4"} {
		w.names.lead(insideHost, leads)
		status, body := w.get("http://gitlab.corp/")
		should.Hold(t, body == "hello" && w.names.taken() == anInside+":80", "when it leads to %s: %s %s", leads, status, body)
	}
	should.Equal(t, w.names.lookups, 1, "it was looked up")
	w.proxy.Forget("s")
	w.names.lead(insideHost, "127.0.0.1")
	status, _ := w.get("http://gitlab.corp/")
	should.Hold(t, strings.Contains(status, "address_denied") && w.names.taken() == "", "in the next session: %s", status)
}

// A policy that is changed while a session goes on counts for what the session has looked up before.
func TestANameIsNotHeldBeyondThePolicy(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, hello)
	w.names.lead(insideHost, anInside)
	_, body := w.get("http://gitlab.corp/")
	must.Hold(t, body == "hello", "%v", body)
	w.names.taken()
	w.proxy.options.Hosts = append(hosts(insideHost), insides("10.201.78.0/24:80")...)
	status, _ := w.get("http://gitlab.corp/")
	should.Hold(t, strings.Contains(status, "address_denied") && w.names.taken() == "", "%v", status)
}

// This machine's listeners are out of reach, the server's own among them, whatever address of it a name leads to.
func TestThisMachineIsNotReachedAsAHostInside(t *testing.T) {
	addresses := must.Get(net.InterfaceAddrs())(t)
	w := newWorld(t, Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80")}, hello)
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP.String()
		w.proxy.Forget("s")
		w.names.lead(insideHost, ip)
		status, _ := w.get("http://gitlab.corp/")
		should.Hold(t, strings.Contains(status, "address_denied") && w.names.taken() == "", "%s: %s", ip, status)
	}
}

func TestRequestsToARestrictedHost(t *testing.T) {
	options := Options{Mode: Allowlist, Hosts: append(insides("gitlab.corp:443 GET /api/v4/* POST /api/v4/issues", "gitlab.corp:80 GET /api/*"), hosts("public.example GET /repos/*", "*.deep.example")...)}
	echo := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.Host, r.URL, r.Header) }
	for _, test := range []struct{ method, address, header, want string }{
		{"GET", "https://gitlab.corp/api/v4/projects?x=/../", "", "GET gitlab.corp/api/v4/projects?x=/../ map["},
		{"POST", "https://gitlab.corp/api/v4/issues", "", "POST gitlab.corp/api/v4/issues"},
		{"GET", "http://gitlab.corp/api/x", "", "GET gitlab.corp/api/x"},
		{"GET", "https://public.example/repos/a", "", "GET public.example/repos/a"},
		{"GET", "https://any.deep.example/anything", "", "GET any.deep.example/anything"},
		{"GET", "https://gitlab.corp/api/v4/x", "X-HTTP-Method-Override: DELETE", "GET gitlab.corp/api/v4/x map[]"},
		{"GET", "https://gitlab.corp/api/v4/x", "X-Original-URL: /admin", "GET gitlab.corp/api/v4/x map[]"},
		{"GET", "https://gitlab.corp/api/v4/x", "X_HTTP_Method_Override: DELETE", "GET gitlab.corp/api/v4/x map[]"},
		{"GET", "https://gitlab.corp/api/v4/x", "x-rewrite_url: /admin", "GET gitlab.corp/api/v4/x map[]"},
		{"GET", "https://gitlab.corp/api/v4/x", "X.Original.Url: /admin", "GET gitlab.corp/api/v4/x map[]"},
		{"GET", "https://gitlab.corp/api/v4/x%3F/issues", "", "request_denied: the path of the request can be read in several ways"},
		{"DELETE", "https://gitlab.corp/api/v4/projects", "", "request_denied: this method and path are not allowed at gitlab.corp:443"},
		{"GET", "https://gitlab.corp/admin", "", "request_denied"},
		{"GET", "https://gitlab.corp/api/v4/%2e%2e/admin", "", "request_denied: the path of the request can be read in several ways"},
		{"GET", "https://gitlab.corp/api/v4/projects/group%2Fproject/issues", "", "GET gitlab.corp/api/v4/projects/group%2Fproject/issues map["},
		{"GET", "https://gitlab.corp/api/v4/a%2fb%20c", "", "GET gitlab.corp/api/v4/a%2fb%20c map["},
		{"GET", "https://gitlab.corp/api/v4/a%2F..%2F..%2Fadmin", "", "request_denied: the path of the request can be read in several ways"},
		{"GET", "https://gitlab.corp/api%2Fv4/a", "", "request_denied: this method and path are not allowed"},
		{"POST", "https://gitlab.corp/api/v4%2Fissues", "", "request_denied: this method and path are not allowed"},
		{"GET", "http://gitlab.corp/apix", "", "request_denied"},
		{"GET", "http://gitlab.corp//api/x", "", "request_denied"},
		{"GET", "https://public.example/user", "", "request_denied"},
		{"GET", "http://gitlab.corp/api/x", "Upgrade: h2c", "request_denied: gitlab.corp:80 is reached by HTTP requests and websockets alone"},
	} {
		w := newWorld(t, options, echo)
		w.names.lead(insideHost, anInside)
		r := must.Get(http.NewRequest(test.method, test.address, nil))(t)
		r.Header.Set("User-Agent", "")
		if name, value, ok := strings.Cut(test.header, ": "); ok {
			r.Header.Set(name, value)
			if name == "Upgrade" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Http2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")
			}
		}
		status, body := w.do(r)
		should.Contain(t, status+" "+body, test.want, "%s %s %s", test.method, test.address, test.header)
		if strings.HasPrefix(test.want, "request_denied") {
			e := w.newest(0)
			should.Hold(t, e.Rule == "request_denied" && !e.Allowed && e.Path != "", "%s: recorded as %+v", test.address, e)
		}
	}
}

// What comes as bytes and no client would send.
func TestTricksAtARestrictedHost(t *testing.T) {
	options := Options{Mode: Allowlist, Hosts: insides("gitlab.corp:80 GET /api/*", "gitlab.corp:443 GET /api/*")}
	var mu sync.Mutex
	var seen []string
	w := newWorld(t, options, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.Host+r.URL.String())
	})
	w.names.lead(insideHost, anInside)
	const tunnel = "CONNECT gitlab.corp:80 HTTP/1.1\r\nHost: gitlab.corp:80\r\n\r\n"
	for _, test := range []struct{ name, sent, want, reached string }{
		{"pipelined", "GET http://gitlab.corp/api/1 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\nGET http://gitlab.corp/admin HTTP/1.1\r\nHost: gitlab.corp\r\nConnection: close\r\n\r\n", "request_denied", "GET gitlab.corp/api/1"},
		{"pipelined in a tunnel", tunnel + "GET /api/2 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\nDELETE /api/2 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "request_denied", "GET gitlab.corp/api/2"},
		{"another Host header", "GET http://gitlab.corp/api/3 HTTP/1.1\r\nHost: admin.corp\r\nConnection: close\r\n\r\n", "200 OK", "GET gitlab.corp/api/3"},
		{"another Host header in a tunnel", tunnel + "GET /api/4 HTTP/1.1\r\nHost: admin.corp\r\n\r\n", "other_host", ""},
		{"absolute form in a tunnel", tunnel + "GET http://admin.corp/api/5 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "other_host", ""},
		{"absolute form in a tunnel, the path", tunnel + "GET http://gitlab.corp/admin HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "request_denied", ""},
		{"the asterisk", tunnel + "OPTIONS * HTTP/1.1\r\nHost: gitlab.corp\r\nConnection: close\r\n\r\n", "Content-Length: 0", ""},
		{"a tunnel in a tunnel", tunnel + "CONNECT gitlab.corp:80 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "40", ""},
		{"a method in small letters", tunnel + "get /api/6 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "", ""},
		{"a user in the address", "GET http://me@gitlab.corp/admin HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "request_denied", ""},
		{"a body that is a request", tunnel + "GET /api/7 HTTP/1.1\r\nHost: gitlab.corp\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "", "GET gitlab.corp/api/7"},
		{"a path in another case", tunnel + "GET /API/8 HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "request_denied", ""},
		{"dots", tunnel + "GET /api/../admin HTTP/1.1\r\nHost: gitlab.corp\r\n\r\n", "request_denied", ""},
	} {
		got := w.raw(test.sent)
		mu.Lock()
		reached := strings.Join(seen, ", ")
		seen = nil
		mu.Unlock()
		should.Hold(t, strings.Contains(got, test.want) && reached == test.reached,
			"%s: the host saw %q, the answer is %q", test.name, reached, got)
	}
}

// TLS for another name does not get through the tunnel of a restricted host, whose certificate is of the session's authority.
func TestATunnelToARestrictedHostEndsHere(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: insides("gitlab.corp:443 GET /api/*", "10.201.77.0/24:443 GET /api/*")}, hello)
	w.names.lead(insideHost, anInside)
	pool := x509.NewCertPool()
	pool.AddCert(w.session.certificate)
	for _, test := range []struct{ host, name, path, want string }{
		{insideHost, insideHost, "/api/x", "200"},
		{insideHost, insideHost, "/admin", "403"},
		{insideHost, "admin.corp", "/api/x", "tls"},
		{insideHost, "corp", "/api/x", "tls"},
		{anInside, anInside, "/api/x", "200"},
		{anInside, anInside, "/admin", "403"},
	} {
		conn := must.Get(net.Dial("tcp", w.address))(t)
		fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s:443\r\n\r\n", test.host)
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		must.Hold(t, err == nil && response.StatusCode == http.StatusOK, "%v %v", err, response)
		response.Body.Close()
		inside := tls.Client(conn, &tls.Config{ServerName: test.name, RootCAs: pool})
		got := "tls"
		if inside.Handshake() == nil {
			fmt.Fprintf(inside, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", test.path, test.host)
			text, _ := bufio.NewReader(inside).ReadString('\n')
			got = strings.Fields(text + " nothing nothing")[1]
		}
		conn.Close()
		should.Equal(t, got, test.want, "%+v", test)
	}
}

func TestASecretGoesToItsHostInsideAlone(t *testing.T) {
	secret := Secret{Name: "GITLAB", Variable: "GITLAB", Hosts: hosts("gitlab.corp:443"), Value: secretValue}
	w := newWorld(t, Options{
		Mode: Allowlist, Hosts: insides("gitlab.corp:443 GET /api/*", "wiki.corp:443 * /*", "gitlab.corp:8080"), Secrets: []Secret{secret},
	}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Got", fmt.Sprint(r.Header.Get("Authorization") == "Bearer "+secretValue))
		fmt.Fprint(w, r.Header.Get("Authorization"))
	})
	w.names.lead(insideHost, anInside)
	w.names.lead("wiki.corp", "10.201.77.4")
	for address, want := range map[string]string{
		"https://gitlab.corp/api/x":     "200 OK Bearer [masked: GITLAB]",
		"https://gitlab.corp/admin":     "request_denied",
		"https://wiki.corp/":            "placeholder_denied",
		"http://gitlab.corp:8080/api/x": "placeholder_denied",
		"http://gitlab.corp:443/api/x":  "placeholder_denied",
	} {
		status, body := w.get(address, "Authorization", "Bearer "+secret.placeholder())
		got := status + " " + body
		should.Hold(t, strings.Contains(got, want) && !strings.Contains(got, secretValue), "%s: %s", address, got)
	}
}

// person answers as it is told, and keeps the questions.
type person struct {
	mu     sync.Mutex
	asked  []string
	answer func(ask.Question) (ask.Answer, error)
}

func (p *person) Ask(_ context.Context, q ask.Question) (ask.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q.Session+" "+q.Run+" "+q.Rule()+" ("+q.How+")")
	p.mu.Unlock()
	return p.answer(q)
}

func always(answer ask.Answer, err error) func(ask.Question) (ask.Answer, error) {
	return func(ask.Question) (ask.Answer, error) { return answer, err }
}

func TestWhatAPersonIsAsked(t *testing.T) {
	const tunnelled = " (a connection, whose requests are not seen where it is encrypted)"
	for _, test := range []struct {
		name    string
		hosts   []Host
		address string
		answer  func(ask.Question) (ask.Answer, error)
		want    string // in what the client says
		asked   string
		rule    string // recorded
	}{
		{"a host", nil, "https://public.example/a?b", always(ask.Once, nil), "200 OK hello", "s r public.example:443" + tunnelled, ""},
		{"a host, plain", nil, "http://public.example/a?b", always(ask.Once, nil), "200 OK hello", "s r public.example:80 (GET /a)", "asked: allowed once"},
		{"for the session", nil, "http://public.example/a", always(ask.ForSession, nil), "200 OK hello", "s r public.example:80 (GET /a)", "asked: allowed for the session"},
		{"for good", nil, "http://public.example/a", always(ask.ForGood, nil), "200 OK hello", "s r public.example:80 (GET /a)", "asked: allowed for good"},
		{"denied", nil, "http://public.example/", always(ask.Deny, nil), "403 host_denied: public.example is not an allowed host; the server's user can allow it with --allow-domain public.example; a person was asked, and has denied it", "s r public.example:80 (GET /)", "asked: denied"},
		{"denied, in a tunnel", nil, "https://public.example/", always(ask.Deny, nil), "has denied it", "s r public.example:443" + tunnelled, "asked: denied"},
		{"not answered", nil, "http://public.example/", always(ask.Deny, ask.ErrNoAnswer), "has not answered", "s r public.example:80 (GET /)", "asked: no answer"},
		{"too many", nil, "http://public.example/", always(ask.Deny, ask.ErrTooMany), "was not asked", "s r public.example:80 (GET /)", "asked: too many questions"},
		{"an answer beside an error", nil, "http://public.example/", always(ask.Once, errors.New("no")), "403 host_denied", "s r public.example:80 (GET /)", "host_denied"},
		{"what is allowed", hosts(publicHost), "http://public.example/", always(ask.Deny, nil), "200 OK hello", "", ""},
		{"a request", hosts("public.example GET /a"), "http://public.example/b", always(ask.Once, nil), "200 OK hello", "s r public.example:80 GET /b (GET /b)", "asked: allowed once"},
		{"a request that is encrypted", hosts("public.example GET /a"), "https://public.example/b", always(ask.Deny, nil), "403 Forbidden request_denied", "s r public.example:443 GET /b (GET /b)", "asked: denied"},
		{"a path that is no plain one", hosts("public.example GET /a"), "http://public.example/a/%2e%2e/b", always(ask.Once, nil), "request_denied", "", "request_denied"},
		{"an address inside", nil, "http://" + anInside + "/", always(ask.Once, nil), "200 OK hello", "s r " + anInside + ":80 at " + anInside + " (GET /)", "asked: allowed once"},
		{"a name that leads inside", nil, "http://gitlab.corp/", always(ask.Once, nil), "200 OK hello", "s r gitlab.corp:80 (GET /), s r gitlab.corp:80 at " + anInside + " (GET /)", "asked: allowed once"},
		{"an allowed name that leads inside", hosts(insideHost), "http://gitlab.corp/", always(ask.Deny, nil), "address_denied", "s r gitlab.corp:80 at " + anInside + " (GET /)", "asked: denied"},
		{"a name that leads inside, whose address is denied", nil, "http://gitlab.corp/", func(q ask.Question) (ask.Answer, error) {
			if q.Address != "" {
				return ask.Deny, nil
			}
			return ask.ForGood, nil
		}, "address_denied", "s r gitlab.corp:80 (GET /), s r gitlab.corp:80 at " + anInside + " (GET /)", "asked: denied"},
		// Never asked for.
		{"loopback", nil, "http://127.0.0.1/", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"a name of this machine", nil, "http://localhost/", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"metadata", nil, "http://169.254.169.254/latest", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"metadata of IPv6", nil, "http://[fd00:ec2::254]/latest", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"link-local", nil, "http://[fe80::1]/", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"mapped", nil, "http://[::ffff:127.0.0.1]/", always(ask.Once, nil), "address_denied", "", "address_denied"},
		{"a name that leads to metadata", nil, "http://meta.corp/", always(ask.Once, nil), "address_denied", "s r meta.corp:80 (GET /)", "address_denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &person{answer: test.answer}
			w := newWorld(t, Options{Mode: Allowlist, Hosts: test.hosts, Ask: p}, hello)
			w.names.lead(insideHost, anInside)
			w.names.lead("meta.corp", "169.254.169.254", "127.0.0.1")
			status, body := w.get(test.address)
			should.Contain(t, status+" "+body, test.want)
			should.Equal(t, strings.Join(p.asked, ", "), test.asked, "asked")
			if strings.HasPrefix(test.address, "https:") && !strings.Contains(test.rule, "denied") {
				return // a tunnel is recorded at its end
			}
			e := w.newest(0)
			should.Hold(t, e.Rule == test.rule, "recorded as %+v", e)
		})
	}
}

// The names of what is denied are not looked up: a question of DNS would be a way out.
func TestNothingIsLookedUpBeforeAPersonHasAllowedIt(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Ask: &person{answer: always(ask.Deny, nil)}}, hello)
	w.get("http://what-code-knows.evil.corp/")
	should.Equal(t, w.names.lookups, 0, "lookups")
}

// A request that waits for a person ends with its client.
func TestAQuestionEndsWithItsRequest(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	asker := askerFunc(func(ctx context.Context, _ ask.Question) (ask.Answer, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ask.Deny, context.Cause(ctx)
	})
	w := newWorld(t, Options{Mode: Allowlist, Ask: asker}, hello)
	conn := must.Get(net.Dial("tcp", w.address))(t)
	_, _ = io.WriteString(conn, "GET http://public.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n")
	<-begun
	conn.Close()
	<-ended
}

type askerFunc func(context.Context, ask.Question) (ask.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q ask.Question) (ask.Answer, error) { return f(ctx, q) }
