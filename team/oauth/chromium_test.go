package oauth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A person in a real browser: the page's policy lets its form lead to the client's address, and the client learns nothing of the page.
func TestAPersonInChromium(t *testing.T) {
	p := browser.Open(t)
	s := serve(t)
	referer := make(chan string, 1)
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			referer <- r.Referer()
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<title>back</title>"))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<title>frame</title><iframe src="` + s.url + r.URL.RequestURI() + `"></iframe>`))
	}))
	t.Cleanup(client.Close)
	address := strings.Replace(client.URL, "127.0.0.1", "localhost", 1) + "/callback" // another site
	m := s.registered(map[string]any{"redirect_uris": []string{address}, "client_name": `<img src=x onerror="window.hacked=1">`})
	query := authorizePath + "?" + request(m.ID, "redirect_uri", address).Encode()

	p.Call("Page.navigate", map[string]any{"url": s.url + query}, nil)
	p.Await("document.activeElement?.id === 'token'")
	if p.See("window.hacked") != nil || p.See("document.querySelectorAll('img, script').length") != 0.0 || p.See("document.cookie") != "" {
		t.Error("the client's name is markup, or a script sees the cookie")
	}
	should.Equal(t, p.See("getComputedStyle(document.querySelector('.who')).fontWeight"), "600", "the page has no style")
	token, _ := json.Marshal(annsToken)
	p.See("document.querySelector('#token').value = " + string(token))
	p.TabTo("e.value === 'allow'")
	p.Press("Enter")
	p.Await("document.title === 'back'")
	back, err := url.Parse(p.See("location.href").(string))
	if err != nil || back.Query().Get("code") == "" || back.Query().Get("state") != "a state" {
		t.Errorf("the browser is at %s: %v", back, err)
	}
	should.Equal(t, <-referer, "", "the client learns of")

	p.Call("Page.navigate", map[string]any{"url": client.URL + query}, nil)
	p.Await("document.title === 'frame' && document.readyState === 'complete'")
	refused := func() bool {
		return slices.ContainsFunc(p.Said(), func(text string) bool { return strings.Contains(text, "frame") })
	}
	for end := time.Now().Add(10 * time.Second); !refused() && time.Now().Before(end); {
		p.See("1") // what the browser says comes beside its answers
	}
	if p.See("(() => { try { return document.querySelector('iframe').contentDocument !== null } catch { return false } })()") == true || !refused() {
		t.Errorf("the page is in a frame: %q", p.Said())
	}
}
