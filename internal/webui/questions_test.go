package webui

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// asked has somebody's code ask, and returns the answer when there is one.
func asked(t *testing.T, d *ask.Desk, host string) <-chan ask.Answer {
	t.Helper()
	answered := make(chan ask.Answer, 1)
	_, changed := d.Waiting()
	go func() {
		answer, _ := d.Ask(t.Context(), ask.Question{Session: "mine", Run: "r", Host: host, How: "GET /" + markup})
		answered <- answer
	}()
	<-changed
	return answered
}

func deskOf(name string, d *ask.Desk) func(principal.Principal) Questions {
	return func(p principal.Principal) Questions {
		if p.Name == name {
			return d
		}
		return nil
	}
}

func TestCodeAsksOnThePage(t *testing.T) {
	d := ask.New(ask.Options{})
	s := serve(t, Options{Token: token, Questions: deskOf("", d)})
	answered := asked(t, d, "a.example:443")
	for method, what := range map[string]string{http.MethodGet: "questions", http.MethodPost: "questions/x"} {
		if a := s.do(method, Prefix+what, `{"answer":"once"}`, ownHeader, "1"); a.status != http.StatusUnauthorized {
			t.Errorf("nobody is let in to %s: %+v", what, a)
		}
	}
	s.login(token)
	var list struct {
		Questions []struct {
			ID       string
			Question map[string]string
			Answers  []string
		}
	}
	if a := s.get("questions"); json.Unmarshal([]byte(a.body), &list) != nil || len(list.Questions) != 1 {
		t.Fatalf("%+v", a)
	}
	q := list.Questions[0]
	if q.Question["host"] != "a.example:443" || q.Question["session_id"] != "mine" || !strings.Contains(q.Question["allowed"], "everything can be sent to this host") || len(q.Answers) != 3 {
		t.Errorf("%+v", q)
	}
	path := Prefix + "questions/" + q.ID
	for name, one := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"a form of another page":     {`{"answer":"once"}`, []string{"Origin", "https://evil.example", ownHeader, "1"}, http.StatusForbidden},
		"a form":                     {`{"answer":"once"}`, []string{"Origin", s.url}, http.StatusForbidden},
		"a page that another embeds": {`{"answer":"once"}`, []string{"Sec-Fetch-Site", "cross-site", ownHeader, "1"}, http.StatusForbidden},
		"no answer":                  {`once`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusBadRequest},
		"one that is none":           {`{"answer":"perhaps"}`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusConflict},
		"one that is not offered":    {`{"answer":"always"}`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusConflict},
	} {
		if a := s.do(http.MethodPost, path, one.body, one.headers...); a.status != one.status {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := s.do(http.MethodPost, path, `{"answer":"once"}`, "Origin", s.url, ownHeader, "1"); a.status != http.StatusOK {
		t.Errorf("%+v", a)
	}
	should.Equal(t, <-answered, ask.Once, "it was answered with")
	if a := s.do(http.MethodPost, path, `{"answer":"deny"}`, "Origin", s.url, ownHeader, "1"); a.status != http.StatusConflict {
		t.Errorf("answered again: %+v", a)
	}
}

func TestNothingIsAskedOfAnother(t *testing.T) {
	d := ask.New(ask.Options{})
	s := serve(t, Options{Token: token, Questions: deskOf("alice", d)})
	asked(t, d, "a.example:443")
	s.login(token)
	open, _ := d.Waiting()
	if a := s.get("questions"); a.status != http.StatusNotFound || strings.Contains(a.body, "a.example") {
		t.Errorf("%+v", a)
	}
	if a := s.do(http.MethodPost, Prefix+"questions/"+open[0].ID, `{"answer":"once"}`, "Origin", s.url, ownHeader, "1"); a.status != http.StatusNotFound {
		t.Errorf("%+v", a)
	}
	if open, _ := d.Waiting(); len(open) != 1 {
		t.Error("it was answered")
	}
}

func TestAPersonAnswersInChromium(t *testing.T) {
	p := browser.Open(t)
	d := ask.New(ask.Options{Code: func(string, string, string) string { return "line 1: " + markup }})
	s := serve(t, Options{Questions: deskOf("", d)})
	p.Call("Page.navigate", map[string]any{"url": s.url + s.Link()}, nil)
	p.Await("document.querySelector('#questions')?.hidden === true")
	answered := asked(t, d, "a.example:443")
	p.Await("document.querySelector('#questions').hidden === false && document.title.startsWith('Code asks')")
	p.Await("document.querySelector('#questions li').innerText.includes('a.example:443') && document.querySelector('#questions li').innerText.includes('onerror')")
	p.Await("document.querySelector('#questions li').innerText.includes('everything can be sent to this host')")
	should.Equal(t, p.See("document.querySelectorAll('#questions script, #questions b, #questions img, #questions [onerror]').length"), 0.0, "elements are of the sandbox")
	p.Await("[...document.querySelectorAll('#questions button')].every(b => !b.disabled)")
	p.TabTo("e.textContent === 'Allow for this session'")
	p.Press("Enter")
	should.Equal(t, <-answered, ask.ForSession, "it was answered with")
	p.Await("document.querySelector('#questions').hidden")
	if answer, err := d.Ask(context.Background(), ask.Question{Session: "mine", Run: "r2", Host: "a.example:443"}); answer != ask.ForSession || err != nil {
		t.Errorf("in the session: %v, %v", answer, err)
	}
}
