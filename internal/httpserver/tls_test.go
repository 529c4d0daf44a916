package httpserver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// testCertificate is for example.com and 127.0.0.1.
func testCertificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	certificate := s.TLS.Certificates[0]
	if certificate.Leaf == nil {
		leaf, err := x509.ParseCertificate(certificate.Certificate[0])
		must.OK(t, err)
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
			if err != nil || response.Proto != proto || response.StatusCode != http.StatusOK {
				t.Fatalf("%+v, %v", response, err)
			}
			response.Body.Close()
			for host, status := range map[string]int{"example.com": 200, "www.example.com": 200, "evil.example": 403} {
				if a := f.do(secured(f.request(http.MethodPost, Path, ping, headers{"Host": host}))); a.status != status {
					t.Errorf("%s: %+v", host, a)
				}
			}
			want := fmt.Sprintf(`"resource":"https://%s/mcp"`, f.address)
			if a := f.do(secured(f.request(http.MethodGet, metadataPath, "", nil))); !strings.Contains(a.body, want) {
				t.Errorf("%+v", a)
			}
			a := f.do(secured(f.request(http.MethodPost, Path, call(1, "count", `,"arguments":{"n":3},"_meta":{"progressToken":1}`), nil)))
			if a.header.Get("Content-Type") != web.TypeEvents || strings.Count(a.body, "event: message") != 4 {
				t.Errorf("%+v", a)
			}
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
				if a := <-got; a.text(t) != "waited" {
					t.Errorf("%+v", a)
				}
				f.close()
				time.Sleep(web.WriteTime) // both ends say goodbye over a pipe that neither reads any more
			})
		})
	}
}
