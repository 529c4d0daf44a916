package ask

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
)

const (
	// defaultWait is the time for which a question waits for a person to notice it.
	defaultWait = time.Minute
	// holdTime is the time to answer a question that a person sees.
	holdTime = 5 * time.Minute
	// defaultPerMinute is questions per session and minute.
	defaultPerMinute = 6
	// maxWaiting limits a session's requests that wait for its questions, the open one included.
	maxWaiting = 32
	// maxOpen limits the open questions in all sessions.
	maxOpen = 64
	// maxRule is the longest rule that is asked for, in bytes: a person sees the whole of it.
	maxRule = maxPath
	// maxRemembered limits the answers kept per session; one with more gets no further questions.
	maxRemembered = 500
)

// Options say how a Desk asks. Each field's zero value means its default.
type Options struct {
	// File keeps the grants. Empty: none is for good.
	File string
	// Wait is the time for which an unheld question waits. Default a minute.
	Wait time.Duration
	// PerMinute limits a session's questions within a minute. Default 6.
	PerMinute int
	// Code returns a run's code line that a question about host may come from. Nil: no line is shown.
	Code func(session, run, host string) string
	// Audit records the decisions. May be nil.
	Audit audit.Recorder
	// Principal owns the sessions, for Audit.
	Principal string
	// Mask masks secrets in shown and recorded texts. May be nil.
	Mask   func(string) string
	Logger *slog.Logger
}

// Desk holds the open questions. Its methods are safe for use by several goroutines.
type Desk struct {
	o    Options
	file grants

	mu       sync.Mutex
	sessions map[string]*session
	open     []*Open       // that a person may answer now
	changed  chan struct{} // closed when there is one more
}

// session is one session's state. All but turn is under Desk.mu.
type session struct {
	turn    chan struct{} // holds a token while a question is open
	waiting int           // requests
	asked   []time.Time   // within the last minute
	answers map[string]Answer
	unheard map[unheard]bool // questions without an answer
	put     map[string]*Open // that are put or wait for their turn, by the rule
}

type unheard struct{ rule, run string }

// Open is a question that waits for an answer.
type Open struct {
	ID       string    `json:"id"`
	Question Question  `json:"question"` // as it is shown
	Answers  []Answer  `json:"answers"`  // that may be given
	Until    time.Time `json:"until"`

	session             string
	isHeld, isDismissed bool
	timer               *time.Timer
	given               chan struct{}      // closed with the answer
	settled             chan struct{}      // closed once there is an answer or an error
	waiting             int                // requests, under Desk.mu
	leave               context.CancelFunc // called when there are none
	answer              Answer             // empty: none yet; under Desk.mu until it is settled
	by                  string
	err                 error
}

// New returns a Desk without questions.
func New(o Options) *Desk {
	o.Wait, o.PerMinute = cmp.Or(o.Wait, defaultWait), cmp.Or(o.PerMinute, defaultPerMinute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	d := &Desk{o: o, sessions: make(map[string]*session), changed: make(chan struct{})}
	if o.File != "" {
		d.file.file = ownfile.Open[[]Grant](o.File)
	}
	return d
}

// Ask implements Asker: it answers from memory, or puts the question and waits. Requests that ask the same at the same time get the
// same answer.
func (d *Desk) Ask(ctx context.Context, q Question) (Answer, error) {
	rule := q.Rule()
	if len(rule) > maxRule { // a person would not see the whole of it
		return Deny, ErrTooMany
	}
	if d.file.have(rule) {
		return ForGood, nil
	}
	d.mu.Lock()
	s := d.sessionOf(q.Session)
	if answer, known := s.answers[rule]; known {
		d.mu.Unlock()
		return answer, nil
	}
	o := s.put[rule]
	isFirst := o == nil
	switch {
	case s.unheard[unheard{rule, q.Run}]:
		d.mu.Unlock()
		return Deny, ErrNoAnswer
	case s.waiting >= maxWaiting || len(s.answers) >= maxRemembered:
		d.mu.Unlock()
		return Deny, ErrTooMany
	case isFirst:
		o = &Open{ID: rand.Text(), session: q.Session, Question: d.shown(q), Answers: d.answersTo(rule), settled: make(chan struct{})}
		s.put[rule] = o
		asking, leave := context.WithCancel(context.WithoutCancel(ctx)) // others may wait for it longer
		o.leave = leave
		go func() {
			defer leave()
			d.put(asking, s, o)
			d.settle(s, o, q, rule)
		}()
	}
	s.waiting++
	o.waiting++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		s.waiting--
		if o.waiting--; o.waiting == 0 {
			o.leave()
			s.forget(rule, o)
		}
	}()
	select {
	case <-o.settled:
		return o.answer, o.err
	case <-ctx.Done():
		return Deny, context.Cause(ctx)
	}
}

// sessionOf returns a session's state. d.mu is held.
func (d *Desk) sessionOf(id string) *session {
	s := d.sessions[id]
	if s == nil {
		s = &session{turn: make(chan struct{}, 1), answers: make(map[string]Answer), unheard: make(map[unheard]bool), put: make(map[string]*Open)}
		d.sessions[id] = s
	}
	return s
}

// forget lets the next request put the question anew. Desk.mu is held.
func (s *session) forget(rule string, o *Open) {
	if s.put[rule] == o {
		delete(s.put, rule)
	}
}

// answersTo returns the possible answers. A rule that holds for good must be readable in a list.
func (d *Desk) answersTo(rule string) []Answer {
	if d.o.File == "" || plain(rule, maxRule) != rule {
		return []Answer{Deny, Once, ForSession}
	}
	return allAnswers
}

func (d *Desk) shown(q Question) Question {
	if d.o.Code != nil {
		q.Code = d.o.Code(q.Session, q.Run, q.Host)
	}
	if d.o.Mask != nil {
		q.Path, q.How, q.Code = d.o.Mask(q.Path), d.o.Mask(q.How), d.o.Mask(q.Code)
	}
	return q.shown()
}

// put shows a question when it is its session's turn, and waits until it is answered or times out.
func (d *Desk) put(ctx context.Context, s *session, o *Open) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		o.err = context.Cause(ctx)
		return
	}
	over := make(chan struct{})
	d.mu.Lock()
	now := time.Now()
	s.asked = slices.DeleteFunc(s.asked, func(at time.Time) bool { return now.Sub(at) > time.Minute })
	if len(s.asked) >= d.o.PerMinute || len(d.open) >= maxOpen {
		d.mu.Unlock()
		o.err = ErrTooMany
		return
	}
	s.asked = append(s.asked, now)
	o.Until = now.Add(d.o.Wait)
	o.timer = time.AfterFunc(d.o.Wait, func() { close(over) })
	o.given = make(chan struct{})
	d.open = append(d.open, o)
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	select {
	case <-o.given:
	case <-over:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o.timer.Stop()
	d.open = slices.DeleteFunc(d.open, func(other *Open) bool { return other == o })
	switch {
	case o.answer != "":
	case ctx.Err() != nil:
		o.err = context.Cause(ctx)
	default:
		o.err = ErrNoAnswer
	}
}

// settle remembers and records a question's outcome, and wakes all who wait for it.
func (d *Desk) settle(s *session, o *Open, q Question, rule string) {
	if o.err == nil && o.answer == ForGood {
		if err := d.file.add(Grant{Rule: rule, Session: q.Session, Time: time.Now().UTC().Truncate(time.Second)}); err != nil {
			d.o.Logger.Error("what was allowed for good could not be kept, and holds for the session", "error", err)
			o.answer = ForSession
		}
	}
	d.mu.Lock()
	s.forget(rule, o)
	switch {
	case errors.Is(o.err, ErrNoAnswer):
		if len(s.unheard) >= maxRemembered {
			clear(s.unheard) // of runs that are over, but for a few
		}
		s.unheard[unheard{rule, q.Run}] = true
	case o.err == nil && (o.answer == Deny || o.answer == ForSession):
		s.answers[rule] = o.answer
	}
	d.mu.Unlock()
	defer close(o.settled) // behind the record
	if o.err == nil && d.o.Audit != nil {
		outcome := audit.Success
		if !o.answer.Allows() {
			outcome = "denied"
		}
		shown := o.Question
		d.o.Audit.Record(audit.Event{
			Kind: audit.KindPolicy, Action: "Ask", Principal: d.o.Principal, Session: shown.Session, Run: shown.Run, Outcome: outcome,
			Detail: map[string]any{"asked": shown.Rule(), "request": shown.How, "answer": o.answer.String(), "by": o.by},
		})
	}
}

// Answer answers a question that is open, for those that wait for it, and reports whether it was. by is whoever could show it.
func (d *Desk) Answer(id string, answer Answer, by string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.find(id)
	if o == nil || o.answer != "" || o.isDismissed || !slices.Contains(o.Answers, answer) {
		return false
	}
	o.answer, o.by = answer, by
	close(o.given)
	return true
}

// Dismiss ends the wait for an answer to a question that is open: there is none.
func (d *Desk) Dismiss(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.find(id); o != nil && o.answer == "" && !o.isDismissed {
		o.isDismissed = true
		close(o.given)
	}
}

// Next returns a session's open question that is not held, and holds it: it is shown to a person, who gets more time. Nil: there is
// none. The channel is closed when another question comes.
func (d *Desk) Next(session string) (open *Open, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		if o.session == session && !o.isHeld && o.answer == "" && o.timer.Stop() {
			o.isHeld = true
			o.timer.Reset(holdTime)
			o.Until = time.Now().Add(holdTime)
			return o, d.changed
		}
	}
	return nil, d.changed
}

// Settled returns a channel that is closed when the question is answered or no longer needs an answer.
func (o *Open) Settled() <-chan struct{} { return o.settled }

// find returns an open question; nil: there is none. d.mu is held.
func (d *Desk) find(id string) *Open {
	for _, o := range d.open {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// Waiting returns the questions that are open, the oldest first, and a channel that is closed when there is another one.
func (d *Desk) Waiting() (open []Open, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		if o.answer == "" {
			open = append(open, Open{ID: o.ID, Question: o.Question, Answers: o.Answers, Until: o.Until})
		}
	}
	return open, d.changed
}

// Forget drops the state for a session that ended.
func (d *Desk) Forget(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, session)
}
