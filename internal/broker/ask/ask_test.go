package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// outcome is what Ask returns.
type outcome struct {
	answer Answer
	err    error
}

// asks puts a question in a goroutine of its own.
func asks(ctx context.Context, d *Desk, q Question) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		answer, err := d.Ask(ctx, q)
		c <- outcome{answer, err}
	}()
	return c
}

// next waits until a question is open, and returns it.
func next(t *testing.T, d *Desk) Open {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		open, changed := d.Waiting()
		if len(open) > 0 {
			return open[0]
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatal("no question came")
		}
	}
}

func question(session, run, host string) Question {
	return Question{Session: session, Run: run, Host: host, How: "GET /"}
}

func TestHowLongAnAnswerHolds(t *testing.T) {
	for answer, want := range map[Answer]struct{ sameRun, sameSession, otherSession bool }{ // asked again
		Once:       {true, true, true},
		ForSession: {false, false, true},
		ForGood:    {false, false, false},
		Deny:       {false, false, true},
	} {
		d := New(Options{File: filepath.Join(t.TempDir(), "p", FileName), PerMinute: 100})
		again := func(session, run string, want bool) {
			t.Helper()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			c := asks(ctx, d, question(session, run, "a.example:443"))
			if !want {
				got := <-c
				should.Hold(t, got.answer == answer && got.err == nil, "%s: from memory came %+v", answer, got)
				return
			}
			next(t, d)
			cancel()
			<-c
		}
		c := asks(context.Background(), d, question("s", "r", "a.example:443"))
		should.Hold(t, d.Answer(next(t, d).ID, answer, "test"), "%s was not taken", answer)
		got := <-c
		should.Hold(t, got.answer == answer && got.err == nil, "%s came as %+v", answer, got)
		again("s", "r", want.sameRun)
		again("s", "r2", want.sameSession)
		again("s2", "r", want.otherSession)
		d.Forget("s")
		again("s", "r", answer != ForGood)
		again("s", "r", answer != ForGood)
	}
}

func TestAQuestionWithoutAnAnswerIsNotRepeatedInItsRun(t *testing.T) {
	d := New(Options{Wait: time.Millisecond})
	_, err := d.Ask(context.Background(), question("s", "r", "a.example:443"))
	must.Hold(t, errors.Is(err, ErrNoAnswer), "%v", err)
	d.o.Wait = time.Hour
	should.Be(t, should.ErrOf(d.Ask(context.Background(), question("s", "r", "a.example:443"))), ErrNoAnswer)
	c := asks(context.Background(), d, question("s", "r2", "a.example:443"))
	d.Dismiss(next(t, d).ID)
	<-c
	should.Be(t, should.ErrOf(d.Ask(context.Background(), question("s", "r", "a.example:443"))), ErrNoAnswer, "beside another run")
	c = asks(context.Background(), d, question("s", "r3", "a.example:443"))
	d.Answer(next(t, d).ID, Once, "test")
	got := <-c
	should.Hold(t, got.answer == Once, "in the next run: %+v", got)
}

// A person who has the question before them has more time.
func TestAQuestionThatIsHeldWaits(t *testing.T) {
	d := New(Options{Wait: time.Hour})
	c := asks(context.Background(), d, question("s", "r", "a.example:443"))
	open := next(t, d)
	held, _ := d.Next("another")
	should.Hold(t, held == nil, "another session's is held")
	held, _ = d.Next("s")
	should.Hold(t, held != nil && held.ID == open.ID && held.Until.Before(open.Until), "%+v is held", held)
	held, _ = d.Next("s")
	should.Hold(t, held == nil, "it is held twice")
	should.Hold(t, !d.Answer(open.ID, "perhaps", "test") && !d.Answer("another", Once, "test") && !d.Answer(open.ID, ForGood, "test"),
		"an answer was taken that is none, or for good without a file")
	should.Hold(t, d.Answer(open.ID, Deny, "test") && !d.Answer(open.ID, Once, "test"), "the first answer is not the one")
	got := <-c
	should.Hold(t, got.answer == Deny && got.err == nil, "%+v", got)
}

func TestAQuestionThatIsDismissedHasNoAnswer(t *testing.T) {
	d := New(Options{})
	c := asks(context.Background(), d, question("s", "r", "a.example:443"))
	id := next(t, d).ID
	d.Dismiss(id)
	d.Dismiss(id)
	got := <-c
	should.Hold(t, errors.Is(got.err, ErrNoAnswer), "%+v", got)
	should.Hold(t, !d.Answer(id, Once, "test"), "it was answered all the same")
}

func TestTheSameQuestionIsPutOnce(t *testing.T) {
	d := New(Options{})
	var all []<-chan outcome
	for range 10 {
		all = append(all, asks(context.Background(), d, question("s", "r", "a.example:443")))
	}
	open := next(t, d)
	for waits := 0; waits < 10; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		waits = d.sessions["s"].waiting
		d.mu.Unlock()
	}
	d.Answer(open.ID, Once, "test")
	for _, c := range all {
		got := <-c
		should.Hold(t, got.answer == Once && got.err == nil, "%+v", got)
	}
	if open, _ := d.Waiting(); len(open) != 0 {
		t.Errorf("%+v are open", open)
	}
}

func TestAQuestionStaysWhileSomebodyWaitsForIt(t *testing.T) {
	d := New(Options{})
	gone := errors.New("gone")
	ctx, leave := context.WithCancelCause(context.Background())
	first := asks(ctx, d, question("s", "r", "a.example:443"))
	open := next(t, d)
	second := asks(context.Background(), d, question("s", "r", "a.example:443"))
	for waits := 0; waits < 2; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		waits = d.sessions["s"].waiting
		d.mu.Unlock()
	}
	leave(gone)
	got := <-first
	should.Hold(t, errors.Is(got.err, gone), "the first got %+v", got)
	d.Answer(open.ID, Once, "test")
	got = <-second
	should.Hold(t, got.answer == Once && got.err == nil, "the second got %+v", got)
	ctx, leave = context.WithCancelCause(context.Background())
	third := asks(ctx, d, question("s", "r", "b.example:443"))
	next(t, d)
	held, _ := d.Next("s")
	leave(gone)
	<-third
	<-held.Settled()
	left, _ := d.Waiting()
	should.Hold(t, len(left) == 0, "%+v waits for nobody", left)
}

func TestAFloodOfQuestionsIsBounded(t *testing.T) {
	d := New(Options{PerMinute: 3})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	results := make(chan outcome, 2000)
	var others sync.WaitGroup
	for i := range 1000 {
		others.Go(func() {
			answer, err := d.Ask(ctx, question("s", "r", fmt.Sprintf("h%d.example:443", i)))
			results <- outcome{answer, err}
		})
	}
	for range 3 {
		open := next(t, d)
		all, _ := d.Waiting()
		should.Hold(t, len(all) == 1, "%d questions are open at once", len(all))
		d.Answer(open.ID, Deny, "test")
	}
	others.Wait()
	counts := map[string]int{}
	for range 1000 {
		o := <-results
		counts[fmt.Sprint(o.answer, " ", o.err)]++
	}
	should.Hold(t, counts["denied <nil>"] == 3 && counts["denied too many questions"] == 997, "%v", counts)
	// Others are asked for all the same.
	c := asks(ctx, d, question("s2", "r", "a.example:443"))
	d.Answer(next(t, d).ID, Once, "test")
	got := <-c
	should.Hold(t, got.answer == Once, "another session: %+v", got)
}

func TestAQuestionThatIsNotShownWholeIsNotPut(t *testing.T) {
	d := New(Options{})
	should.Be(t, should.ErrOf(d.Ask(context.Background(), Question{Session: "s", Host: "a.example:443", Method: "GET", Path: "/" + strings.Repeat("a", 1000)})), ErrTooMany)
}

func TestHostileTextIsShownAsWhatItIs(t *testing.T) {
	d := New(Options{File: filepath.Join(t.TempDir(), FileName), Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2hunter2", "***") }, Code: func(session, run, host string) string {
		return "\t" + `fetch("x")` + "\x1b[2J\u202eevil\u200b" + strings.Repeat("x", 1000) + session + run + host
	}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := asks(ctx, d, Question{Session: "s", Run: "r", Host: "a.example:443", Method: "GET", Path: "/\u202ea\nAllow?\u0301\ufe0f\u2028\u00ad\u3164", How: "GET /hunter2hunter2"})
	open := next(t, d)
	q := open.Question
	should.Hold(t, q.Path == `/\u{202e}a\u{a}Allow?\u{301}\u{fe0f}\u{2028}\u{ad}\u{3164}` && q.How == "GET /***", "%+v", q)
	should.Hold(t, strings.HasPrefix(q.Code, `fetch("x")\u{1b}[2J\u{202e}evil\u{200b}xxx`) && len(q.Code) <= 300, "%q", q.Code)
	if strings.Count(q.Words(), "\n") != 4 || q.Allowed != "Allowed would be: a.example:443 GET "+q.Path || !strings.HasSuffix(q.Words(), "\n"+q.Allowed) {
		t.Errorf("%q", q.Words())
	}
	should.Len(t, open.Answers, 3, "what cannot be read in a list may be allowed")
	cancel()
	<-c
}

func TestTheLineThatSeemsToAsk(t *testing.T) {
	for code, want := range map[string]string{
		"import requests\n\nrequests.get('https://API.a.example/x')": "line 3: requests.get('https://API.a.example/x')",
		"\n  go()\nthere()": "line 2: go()",
		"":                  "",
	} {
		should.Equal(t, Line(code, "api.a.example:443"), want, "%q", code)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("a.example:443", "/x", "print(1)")
	f.Add("\u202e", "\x00\xff", "\r\n\u2067")
	f.Fuzz(func(t *testing.T, host, path, code string) {
		q := Question{Host: host, Method: "GET", Path: path, How: path, Code: code}.shown()
		if n := strings.Count(q.Words(), "\n"); n > 4 {
			t.Errorf("%d lines: %q", n, q.Words())
		}
		if len(q.Words()) > 20_000 || strings.ContainsAny(q.Words(), "\x00\x1b\r\u202e\u2066\u200b") {
			t.Errorf("%q", q.Words())
		}
	})
}

func TestDecisionsAreAudited(t *testing.T) {
	var events recorder
	d := New(Options{Audit: &events, Principal: "anna"})
	for _, answer := range []Answer{Once, Deny} {
		c := asks(context.Background(), d, question("s", "r", string(answer)+".example:443"))
		d.Answer(next(t, d).ID, answer, "the page")
		<-c
	}
	text, _ := json.Marshal(events.all)
	for _, want := range []string{
		`"kind":"policy","action":"Ask","principal":"anna","session":"s","run":"r","outcome":"success"`, `"answer":"allowed once","asked":"once.example:443","by":"the page"`,
		`"outcome":"denied"`, `"answer":"denied","asked":"deny.example:443"`,
	} {
		should.Hold(t, strings.Contains(string(text), want), "%s is not in %s", want, text)
	}
}

type recorder struct{ all []audit.Event }

func (r *recorder) Record(e audit.Event) { r.all = append(r.all, e) }

func TestWhatIsAllowedForGoodCanBeListedAndRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "principals", "x", FileName)
	d := New(Options{File: path})
	for _, host := range []string{"a.example:443", "b.example:443"} {
		c := asks(context.Background(), d, question("s", "r", host))
		d.Answer(next(t, d).ID, ForGood, "test")
		<-c
	}
	all, err := ReadGrants(path)
	must.Hold(t, err == nil && len(all) == 2 && all[0].Rule == "a.example:443" && all[0].Session == "s" && !all[0].Time.IsZero(),
		"%+v, %v", all, err)
	other := New(Options{File: path}) // a server that runs beside it
	should.Give(other.Ask(context.Background(), question("s", "r", "a.example:443")))(t, ForGood)
	removed, err := RemoveGrant(path, "a.example:443")
	should.Hold(t, removed && err == nil, "%v %v", removed, err)
	removed, err = RemoveGrant(path, "a.example:443")
	should.Hold(t, !removed && err == nil, "removed twice %v", err)
	for _, d := range []*Desk{d, other} {
		ctx, cancel := context.WithCancel(context.Background())
		c := asks(ctx, d, question("s", "r", "a.example:443"))
		next(t, d)
		cancel()
		<-c
		should.Give(d.Ask(context.Background(), question("s", "r", "b.example:443")))(t, ForGood)
	}
	if runtime.GOOS != "windows" { // where others could have written it
		must.OK(t, os.Chmod(path, 0o660))
		should.Hold(t, !d.file.have("b.example:443"), "a file that others can write allows")
		_, err := ReadGrants(path)
		should.Hold(t, err != nil, "a file that others can write is listed")
		must.OK(t, os.Chmod(path, 0o600))
	}
	must.OK(t, os.WriteFile(path, []byte("{"), 0o600))
	should.Hold(t, !d.file.have("b.example:443"), "a broken file allows")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info.Mode(), err)
	}
}
