package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// echo answers with all that it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if value := r.Header.Get(name); value != "" {
			w.Header().Set("Echo-"+name, value)
		}
	}
	fmt.Fprintf(w, "%s %s %d %q %q %s", r.Method, r.RequestURI, r.ContentLength, r.Header["X-Api-Key"], r.Header["Authorization"], body)
}

// seen keeps what a host was really sent.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) echo(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	s.mu.Lock()
	s.all = append(s.all, fmt.Sprint(r.Host, " ", r.RequestURI, " ", r.Header, " ", r.ContentLength, " ", string(text)))
	s.mu.Unlock()
	echo(w, r)
}

func (s *seen) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return ""
	}
	return s.all[len(s.all)-1]
}

func TestASecretIsReplacedForItsHostAndMaskedInAnswers(t *testing.T) {
	inQuery, inBody := theSecret, theSecret
	inQuery.Query, inBody.Body = true, true
	key := theSecret.placeholder()
	long := strings.Repeat("a", 300<<10)
	for _, test := range []struct {
		name    string
		secret  Secret
		query   string
		header  []string
		body    string
		arrives string
	}{
		{"in a header", theSecret, "", []string{"X-Api-Key", key}, "", "X-Api-Key:[" + secretValue + "]"},
		{"within a header", theSecret, "", []string{"Authorization", "Bearer " + key}, "", "Authorization:[Bearer " + secretValue + "]"},
		{"as a password", theSecret, "", []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key))}, "", base64.StdEncoding.EncodeToString([]byte("me:" + secretValue))},
		{"in a query", inQuery, "?key=" + key + "&x=1", nil, "", "?key=" + url.QueryEscape(secretValue) + "&x=1"},
		{"in a body", inBody, "", nil, "plain " + key + " text", fmt.Sprintf("%d plain %s text", len("plain  text")+len(secretValue), secretValue)},
		{"in a form", inBody, "", []string{"Content-Type", "application/x-www-form-urlencoded"}, "key=" + key + "&x=1", "key=" + url.QueryEscape(secretValue) + "&x=1"},
		{"in JSON", inBody, "", []string{"Content-Type", "application/json; charset=utf-8"}, `{"key": "` + key + `"}`, `{"key": "` + strings.ReplaceAll(secretValue, `"`, `\"`) + `"}`},
		{"in a long body", inBody, "", nil, long + key + long + key, "-1 " + long + secretValue + long + secretValue},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s seen
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{test.secret}}, s.echo)
			r, _ := http.NewRequest(http.MethodPost, "https://api.example/v1"+test.query, strings.NewReader(test.body))
			for i := 0; i < len(test.header); i += 2 {
				r.Header.Set(test.header[i], test.header[i+1])
			}
			response := must.Get(w.client().Do(r))(t)
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusOK || !strings.Contains(s.last(), test.arrives) || strings.Contains(s.last(), key) {
				t.Errorf("%s: the host has seen %.500q", response.Status, s.last())
			}
			answer := fmt.Sprint(response.Header, string(body))
			if w.proxy.mask.In([]byte(answer)) || !strings.Contains(answer, "[masked: API_KEY]") || strings.Contains(answer, "Secret") {
				t.Errorf("the answer is %.500q", answer)
			}
			if len(test.header) > 0 && test.header[0] != "Content-Type" && !strings.Contains(fmt.Sprint(response.Header), "[masked") {
				t.Errorf("the headers are %v", response.Header)
			}
			if e := w.newest(0); e.Method != http.MethodPost || e.Host != secretHost || e.Path != "/v1" || !e.Allowed || e.Status != 200 || e.SentBytes == 0 || e.ReceivedBytes == 0 {
				t.Errorf("recorded as %+v", e)
			}
		})
	}
}

func TestAPlaceholderThatMayNotBeThereIsNotSent(t *testing.T) {
	other := Secret{Name: "OTHER", Variable: "OTHER", Hosts: hosts("other.example"), Query: true, Body: true, Value: "another-Secret-9876"}
	key, otherKey := theSecret.placeholder(), other.placeholder()
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret, other}}, s.echo)
	for _, test := range []struct {
		name, address, header, body, words string
	}{
		{"plain HTTP to its host", "http://api.example/", key, "", "in a header of a request to api.example:80, which was not sent: the value goes out by https:// alone"},
		{"plain HTTP to another host", "http://public.example/", key, "", "the value goes to api.example alone"},
		{"the password of another host", "http://public.example/", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key)), "", "the value goes to api.example alone"},
		{"an address of another host", "http://public.example/?x=" + key, "", "", "in the query of an address of a request to public.example:80"},
		{"a path", "https://api.example/" + key + "/x", "", "", "in an address of a request to api.example:443, which was not sent: put it into a header"},
		{"a query that was not asked for", "https://api.example/?key=" + key, "", "", "put it into a header, or the server's user can add ,query to --secret API_KEY@api.example"},
		{"a body that was not asked for", "https://api.example/", "", "key=" + key, "put it into a header, or the server's user can add ,body to --secret API_KEY@api.example"},
		{"a body of another host", "http://public.example/", "", "key=" + key, "the value goes to api.example alone"},
		{"another secret's host", "https://other.example/", key, "", "the value goes to api.example alone"},
		{"both", "https://api.example/", key + otherKey, "", "the placeholder of OTHER is in a header of a request to api.example:443, which was not sent: the value goes to other.example alone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodPost, test.address, strings.NewReader(test.body))
			if test.header != "" {
				r.Header.Set("Authorization", test.header)
			}
			status, body := w.do(r)
			if !strings.HasPrefix(status, "403") || !strings.Contains(body, test.words) || !strings.HasPrefix(body, "placeholder_denied: ") {
				t.Errorf("%s %s", status, body)
			}
			should.Equal(t, s.last(), "", "the host has seen")
		})
	}
}

func TestARedirectToAnotherHostDoesNotCarryASecret(t *testing.T) {
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == secretHost {
			http.Redirect(w, r, "https://public.example/?stolen="+url.QueryEscape(r.Header.Get("X-Api-Key")), http.StatusTemporaryRedirect)
			return
		}
		s.echo(w, r)
	})
	status, _ := w.get("https://api.example/", "X-Api-Key", theSecret.placeholder())
	if got := s.last(); !strings.Contains(got, "X-Api-Key:["+theSecret.placeholder()+"]") || w.proxy.mask.In([]byte(got)) || !strings.Contains(got, "masked") {
		t.Errorf("%s: the other host has seen %s", status, got)
	}
}

func TestATunnelOfASecretIsForItsHostAlone(t *testing.T) {
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, s.echo)
	r, _ := http.NewRequest(http.MethodGet, "https://api.example/", nil)
	r.Host = "public.example"
	r.Header.Set("X-Api-Key", theSecret.placeholder())
	if status, body := w.do(r); !strings.HasPrefix(status, "421") || !strings.Contains(body, "other_host: this is a connection to api.example") || s.last() != "" {
		t.Errorf("%s %s %s", status, body, s.last())
	}
}

func TestAHostThatCannotBeVerifiedGetsNoSecret(t *testing.T) {
	var s seen
	wrong := theSecret
	wrong.Hosts = hosts("wrong.example")
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{wrong}}, s.echo)
	status, body := w.get("https://wrong.example/", "X-Api-Key", wrong.placeholder())
	if !strings.HasPrefix(status, "502") || body != "host_unreachable: wrong.example:443 could not be reached: its TLS certificate is not valid\n" || s.last() != "" {
		t.Errorf("%s %s %s", status, body, s.last())
	}
}

func TestASessionWithoutAnAuthority(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, hello)
	other := theSecret
	other.Hosts = hosts("other.example")
	before := New(Options{Mode: Allowlist, Secrets: []Secret{other}})
	_, _, err := before.Trust("s", nil)
	must.OK(t, err)
	for name, change := range map[string]func(){
		"without any":       func() { w.proxy.Forget("s") },
		"with other hosts'": func() { w.proxy.TakeOver(before) },
	} {
		change()
		if status, _ := w.get("https://api.example/"); !strings.Contains(status, "no_authority: this session began without certificates for api.example") {
			t.Errorf("%s: %s", name, status)
		}
	}
}

func TestTheAuthorityOfASessionIsKept(t *testing.T) {
	other := theSecret
	other.Hosts = hosts("other.example")
	with := func(s ...Secret) *Proxy { return New(Options{Mode: Allowlist, Secrets: s}) }
	if certificate, kept, err := New(Options{}).Trust("s", []byte("x")); certificate != "" || kept != nil || err != nil {
		t.Errorf("without secrets: %q %q %v", certificate, kept, err)
	}
	first, kept, err := with(theSecret).Trust("s", nil)
	must.Hold(t, err == nil && strings.HasPrefix(first, "-----BEGIN CERTIFICATE-----") && !strings.Contains(first, "PRIVATE"),
		"%s %v", first, err)
	for _, test := range []struct {
		name string
		p    *Proxy
		kept []byte
		same bool
	}{
		{"the same hosts", with(theSecret), kept, true}, {"other hosts", with(other), kept, false}, {"nothing", with(theSecret), nil, false}, {"garbage", with(theSecret), []byte("x"), false},
	} {
		again, _, err := test.p.Trust("s", test.kept)
		should.Hold(t, err == nil && (again == first) == test.same, "%s: the same is %v (%v)", test.name, again == first, err)
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, text)
	_ = z.Close()
	return b.String()
}

func TestAnswersAreMaskedWhateverTheirEncodingsOrRefused(t *testing.T) {
	const masked, refused = "it is [masked: API_KEY]", "encoding: the host "
	for _, test := range []struct {
		name      string
		status    int
		encodings []string // of headers
		times     int      // that the body is encoded
		want      string
	}{
		{"none", 200, nil, 0, masked},
		{"one that is none", 200, []string{"Identity", " "}, 0, masked},
		{"the one that was asked for", 200, []string{"gzip"}, 1, masked},
		{"its older name", 200, []string{" X-GZip "}, 1, masked},
		{"behind one that is none", 200, []string{"identity", "gzip"}, 1, masked},
		{"in one header with one that is none", 200, []string{"identity, gzip,"}, 1, masked},
		{"twice", 200, []string{"gzip", "gzip"}, 2, refused},
		{"twice in one header", 200, []string{"gzip, x-gzip"}, 2, refused},
		{"one that was not asked for", 200, []string{"br"}, 0, refused},
		{"within the one that was asked for", 200, []string{"gzip", "br"}, 1, refused},
		{"a part", 206, nil, 0, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
				should.Hold(t, r.Header.Get("Range") == "" && r.Header.Get("Accept-Encoding") == "gzip", "the headers are %v", r.Header)
				body := "it is " + r.Header.Get("X-Api-Key")
				for range test.times {
					body = gzipped(body)
				}
				w.Header()["Content-Encoding"] = test.encodings
				w.WriteHeader(test.status)
				fmt.Fprint(w, body)
			})
			for _, accept := range []string{"gzip, br", "br", "identity"} {
				status, body := w.get("https://api.example/", "X-Api-Key", theSecret.placeholder(), "Accept-Encoding", accept, "Range", "bytes=1-2")
				should.Hold(t, strings.HasPrefix(body, test.want) && (test.want == masked) == (status == "200 OK"),
					"%s: %s %q", accept, status, body)
			}
		})
	}
}

func TestHintsTrailersAndNamesAreMasked(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		w.Header().Set("Link", key)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Echo")
		fmt.Fprint(w, key[:10])
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, key[10:])
		w.Header().Set("X-Echo", key)
		w.Header().Set(http.TrailerPrefix+"X-Late", key)
	})
	r, _ := http.NewRequest(http.MethodGet, "https://api.example/", nil)
	r.Header.Set("X-Api-Key", theSecret.placeholder())
	var hint string
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		hint = h.Get("Link")
		return nil
	}}))
	response := must.Get(w.client().Do(r))(t)
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	const want = "[masked: API_KEY]"
	if hint != want || string(body) != want || response.Header.Get("Link") != want || response.Trailer.Get("X-Echo") != want || response.Trailer.Get("X-Late") != want {
		t.Errorf("hint %q, body %q, header %v, trailer %v", hint, body, response.Header, response.Trailer)
	}
}

// A client keeps its connection to a host, and nothing that happens between two requests ends it.
func TestConnectionsAreKeptAlive(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, hello)
	for _, address := range []string{"http://public.example/", "https://public.example/", "https://api.example/"} {
		client := w.client()
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		made := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				made++
			}
		}})
		for range 40 {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("body"))
			response := must.Get(client.Do(r))(t, "%s", address)
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		should.Hold(t, made == 1, "%s: 40 requests took %d connections", address, made)
	}
}

func TestWebsockets(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		key := r.Header.Get("X-Api-Key")
		fmt.Fprintf(conn, "HTTP/1.1 101 %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Echo: %[1]s\r\n\r\n", key)
		for {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s %s s", strings.TrimSpace(line), key)
		}
	})
	for _, address := range []string{"http://public.example/", "https://api.example/"} {
		r, _ := http.NewRequest(http.MethodGet, address, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		key, want := "", "hello  s"
		if strings.HasPrefix(address, "https:") {
			key, want = theSecret.placeholder(), "hello "+strings.Repeat("*", len(secretValue))+" s"
		}
		r.Header.Set("X-Api-Key", key)
		response, err := w.client().Do(r)
		must.OK(t, err)
		must.Hold(t, response.Status == "101 Switching Protocols" && !strings.Contains(response.Header.Get("X-Echo"), "Secret"),
			"%s %v", response.Status, response.Header)
		defer response.Body.Close()
		conn := response.Body.(io.ReadWriteCloser)
		for range 2 {
			fmt.Fprint(conn, "hello\n")
			got := make([]byte, len(want))
			_, err := io.ReadFull(conn, got)
			should.Hold(t, err == nil && string(got) == want, "%s: %q (%v)", address, got, err)
		}
	}
}

// Nobody but the proxy would close the host's connection.
func TestAChangeOfProtocolThatWasNotAskedForIsRefused(t *testing.T) {
	for name, head := range map[string]string{"another": "Connection: Upgrade\r\nUpgrade: other\r\n", "none": ""} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			w := newWorld(t, Options{Mode: Open}, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprint(conn, "HTTP/1.1 101 x\r\n"+head+"\r\nmore")
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				_, err = io.Copy(io.Discard, conn)
				ended <- err
			})
			status, body := w.get("http://public.example/", "Connection", "Upgrade", "Upgrade", "websocket")
			if !strings.HasPrefix(status, "502 host_unreachable") || !strings.Contains(body, "the host changed to a protocol that the request did not name") {
				t.Errorf("%s %q", status, body)
			}
			err := <-ended
			should.Hold(t, !errors.Is(err, os.ErrDeadlineExceeded), "the host's connection stays open")
		})
	}
}

func TestAWebsocketThatIsCompressedIsRefused(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		should.Equal(t, r.Header.Get("Sec-Websocket-Extensions"), "", "the headers are %v", r.Header)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	})
	status, body := w.get("https://api.example/", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Extensions", "permessage-deflate")
	if !strings.HasPrefix(status, "502") || !strings.HasPrefix(body, "encoding: the host compresses the messages of a websocket") {
		t.Errorf("%s %q", status, body)
	}
}

func TestAuthoritiesAreKept(t *testing.T) {
	a := must.Get(newAuthority([]string{"b.example", "a.example"}))(t)
	text := must.Get(a.MarshalText())(t)
	b := new(Authority)
	must.OK(t, b.UnmarshalText(text))
	if !b.covers([]string{"a.example", "b.example"}) || b.covers([]string{"a.example", "c.example"}) || !bytes.Equal(a.certificatePEM(), b.certificatePEM()) {
		t.Errorf("it is another one: %v", b.certificate.PermittedDNSDomains)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.certificatePEM())
	leaf := must.Get(b.leaf("a.example"))(t)
	again, _ := b.leaf("a.example")
	should.Hold(t, again == leaf, "a certificate is not kept")
	_, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: "a.example", Roots: pool})
	should.Hold(t, err == nil && b.permits("a.example"), "%v", err)
	for _, host := range []string{"c.example", "example"} {
		should.Hold(t, !b.permits(host), "it vouches for %s", host)
	}
	for i := range 2 * mostLeaves {
		must.OK(t, should.ErrOf(b.leaf(fmt.Sprintf("%d.a.example", i))))
	}
	should.Hold(t, len(b.leaves) <= mostLeaves, "%d certificates are kept", len(b.leaves))
	for _, broken := range []string{"", "x", string(a.certificatePEM())} {
		should.Hold(t, new(Authority).UnmarshalText([]byte(broken)) != nil, "%q is taken for an authority", broken)
	}
	_, err = newAuthority(nil)
	should.Hold(t, err != nil, "an authority for every host")
}

func TestWordsForAModel(t *testing.T) {
	for want, options := range map[string]Options{
		"": {},
		"only api.github.com, *.example.com by HTTP(S)":             {Mode: Allowlist, Hosts: hosts("api.github.com", "*.example.com")},
		"public hosts by HTTP(S), on the ports 80, 443, 8080, 8443": {Mode: Open},
		"only api.example by HTTP(S); API_KEY has a placeholder, which is replaced by the value in headers of requests to https://api.example": {Mode: Allowlist, Secrets: []Secret{theSecret}},
	} {
		should.Equal(t, New(options).Summary(), want)
	}
	p := New(Options{Mode: Allowlist, Secrets: []Secret{theSecret}})
	env := p.Environment()
	should.Hold(t, len(env) == 1 && env["API_KEY"] == theSecret.placeholder(), "%v", env)
}

func describe(all []Secret) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s=%s@%v query:%v body:%v\n", s.Name, s.Variable, s.Hosts, s.Query, s.Body)
	}
	return b.String()
}

func TestSecretsAreParsed(t *testing.T) {
	for list, want := range map[string]string{
		"":                               "",
		"KEY@api.example":                "KEY=KEY@[api.example] query:false body:false\n",
		"KEY@a.example,b.example:8443":   "KEY=KEY@[a.example b.example:8443] query:false body:false\n",
		"KEY@a.example,query,body,b.c":   "KEY=KEY@[a.example b.c] query:true body:true\n",
		"KEY=OTHER@a.example":            "KEY=OTHER@[a.example] query:false body:false\n",
		"A@a.example,query,B@a.example":  "A=A@[a.example] query:true body:false\nB=B@[a.example] query:false body:false\n",
		"A@a.example , b.example ,query": "A=A@[a.example b.example] query:true body:false\n",
	} {
		var items []string
		if list != "" {
			items = strings.Split(list, ",")
		}
		all, err := ParseSecrets(items)
		got := describe(all)
		should.Hold(t, err == nil && got == want, "%q is %q (%v)", list, got, err)
	}
	for list, words := range map[string]string{
		"KEY":                         "has no @",
		"query":                       "has no @",
		"KEY@":                        "names no host",
		"KEY@query":                   "has no host",
		"@a.example":                  "name of a variable",
		"1KEY@a.example":              "name of a variable",
		"MY-KEY@a.example":            "name of a variable",
		"KEY=@a.example":              "name of a variable",
		"KEY@*.a.example":             "one by one",
		"KEY@9.9.9.9":                 "one by one",
		"KEY@https://a.example":       "scheme",
		"KEY@10.0.0.1":                "open internet",
		"KEY@a.example,KEY@b.example": "given twice",
		"KEY@me@a.example":            "user name",
		"KEY@a.example GET /x":        "--allow-domain or --allow-private",
	} {
		should.Fail(t, should.ErrOf(ParseSecrets(strings.Split(list, ","))), words, "%q", list)
	}
}

func TestValuesOfSecrets(t *testing.T) {
	for value, words := range map[string]string{
		"sk-1234567890abcdef\n": "", "short12": "7 bytes", "": "0 bytes", "sk-1234567890\nabcdef": "fits into no header",
		"localhost": "cannot be masked", "12345678": "cannot be masked",
	} {
		s := Secret{Name: "KEY", Variable: "OTHER"}
		err := s.Fill(func(name string) (string, bool) { return value, name == "OTHER" })
		if words == "" && (err != nil || s.Value != strings.TrimSpace(value)) || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v", value, err)
		}
		should.Hold(t, err == nil || value == "" || !strings.Contains(err.Error(), value), "the error has the value in it: %v", err)
	}
	s := Secret{Name: "KEY", Variable: "OTHER"}
	should.Fail(t, s.Fill(func(string) (string, bool) { return "", false }), "the variable OTHER is not set")
	if got := s.placeholder(); got != (Secret{Name: "KEY"}).placeholder() || !strings.HasPrefix(got, "sandbox-secret-KEY-placeholder-") {
		t.Errorf("the placeholder is %s", got)
	}
}

func FuzzParseSecrets(f *testing.F) {
	f.Add("KEY@a.example,query,B=C@b.example")
	f.Fuzz(func(t *testing.T, list string) {
		all, err := ParseSecrets(strings.Split(list, ","))
		if err != nil {
			return
		}
		for _, s := range all {
			if len(s.Hosts) == 0 || !variableName.MatchString(s.Name) {
				t.Errorf("%q is %s", list, describe(all))
			}
		}
	})
}

func FuzzRevealingBody(f *testing.F) {
	key := theSecret.placeholder()
	for _, seed := range []string{"", key, key[:20], "a" + key + key + key[:30], "sandbox-sandbox-secret-" + key, key[:len(key)-1] + key} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	rt := &route{secrets: []Secret{theSecret, {Name: "API", Value: "another-value"}}}
	all := func(Secret) bool { return true }
	f.Fuzz(func(t *testing.T, text string, inBytes bool) {
		var from io.Reader = strings.NewReader(text)
		if inBytes {
			from = iotest.OneByteReader(from)
		}
		body := &revealingBody{ReadCloser: io.NopCloser(from), replacer: rt.replacer(all, plainly), placeholders: rt.placeholders(all)}
		got, err := io.ReadAll(body)
		want := rt.replacer(all, plainly).Replace(text)
		should.Hold(t, err == nil && string(got) == want, "%q became %q instead of %q (%v)", text, got, want, err)
	})
}
