// Package link connects a session with its containers: it takes a container over or starts one, and performs runs, restores and
// transfers of files by its messages.
package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Link connects a session with one container, for the runs of the languages in it. A run goes through these phases:
//
//  1. connect (link.go) returns the container that there is, or brings one up:
//  2. takeOver (takeover.go) attaches to a container that runs without a server, or
//  3. start (start.go) makes a container and sends init.
//  4. execute (perform.go) has the language's kernel run the code, by the messages of package kernel, and
//  5. outlet (wayout.go) serves what the code sends out meanwhile.
//  6. outcome (perform.go) turns the kernel's answer into the run's result.
type Link struct {
	Languages    []runs.Language // of its container, which bears the name of the first
	Interpreters map[runs.Language]*Interpreter
	Config       *place.Config
	Place        *place.Place
	Uses         *runs.Usage
	admit        Admission

	// starting is held while the container starts or is removed.
	starting sync.Mutex
	reached  bool   // it looked for an earlier server's container; under starting
	madeWith string // the key of the container's settings; under starting

	Container atomic.Pointer[kernel.Container]
	Had       atomic.Bool // there was a container
}

// Admission waits until a link may start a container. leave is called once that started or failed.
type Admission func(ctx context.Context, l *Link) (leave func(), err error)

// New makes a link without a container, for the languages of one image.
func New(languages []runs.Language, on *place.Place, uses *runs.Usage, admit Admission) *Link {
	l := &Link{Languages: languages, Interpreters: make(map[runs.Language]*Interpreter), Config: on.Config, Place: on, Uses: uses, admit: admit}
	for _, language := range languages {
		l.Interpreters[language] = &Interpreter{Link: l, Language: language, queue: newQueue()}
	}
	return l
}

// Name is the language that names the container.
func (l *Link) Name() runs.Language { return l.Languages[0] }

// each calls do for each interpreter, in the order of the languages.
func (l *Link) each(do func(*Interpreter)) {
	for _, language := range l.Languages {
		do(l.Interpreters[language])
	}
}

// connect returns a live container: the existing one, one that runs without a server, or a new one, in which this language's
// interpreter starts first. It waits for its turn to start a new one until ctx ends. The caller holds l.starting.
func (l *Link) connect(ctx context.Context, first runs.Language, note func(string), warm bool) (*kernel.Container, error) {
	c, err := l.existing(ctx)
	switch {
	case c != nil:
		return c, nil
	case err != nil && !isFinal(err):
		return nil, err
	case l.Had.Load():
		l.each(func(i *Interpreter) {
			if i.Had.Load() {
				i.Lose(fmt.Sprintf("The %s kernel's container had ended since the last run: its variables are gone", i.Language), FilesKept)
			}
		})
	case errors.Is(err, place.ErrOtherSettings):
		files := l.Place.FilesThere()
		l.replaceEarlier(ctx)
		for _, i := range l.usedEarlier() {
			i.Lose(fmt.Sprintf("The server's settings or secrets have changed since this session's %s kernel began, so it begins anew: its variables are gone", i.Language), files)
		}
	}
	l.Place.NoteEnded(l.Languages)
	admitted, err := l.admit(ctx, l)
	if err != nil {
		return nil, err
	}
	defer admitted()
	c, err = l.start(ctx, first, note, warm)
	if err != nil {
		return nil, err
	}
	l.set(c)
	l.reached = true
	l.loseUnfinished(false) // the new container replaced any other
	return c, nil
}

// existing returns the session's container, taking it over if its server died. It returns nil if there is none; the error says why
// one could not be reached, a fault unless isFinal. The caller holds l.starting.
func (l *Link) existing(ctx context.Context) (*kernel.Container, error) {
	if c := l.Container.Load(); c != nil && c.Alive() && (!c.Ending() || !c.Ends(ctx, l.endTime())) {
		return c, nil
	}
	if c, err := l.retake(ctx); c != nil || err != nil {
		return c, err
	}
	c, err := l.reachEarlier()
	if err != nil && !isFinal(err) {
		err = errNotTakenOver(l.Place.ID).Because(err)
	}
	return c, err
}

// Live returns the container, if this server has one that answers; nil: it has none.
func (l *Link) Live() *kernel.Container {
	if c := l.Container.Load(); c != nil && c.Alive() {
		return c
	}
	return nil
}

// discard removes a useless container, unless it was replaced already.
func (l *Link) discard(c *kernel.Container) {
	l.starting.Lock() // the next one of this name does not start while this one is removed
	defer l.starting.Unlock()
	c.Close()
	if l.Container.Load() != c {
		return
	}
	l.Container.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), l.Config.StartTimeout)
	defer cancel()
	if err := l.Place.Remove(ctx, l.Name()); err != nil {
		l.Config.Logger.Warn("remove container", "session", l.Place.ID, "error", err)
	}
}

// set replaces the container, and notes which interpreters in it have variables.
func (l *Link) set(c *kernel.Container) {
	l.Container.Store(c)
	c.Watch(l.Uses)
	l.Had.Store(true)
	for _, k := range c.Used() {
		l.Interpreters[k.Language()].Had.Store(true)
	}
}

// usedEarlier returns the interpreters that had variables in an earlier server, by the session's record.
func (l *Link) usedEarlier() []*Interpreter {
	var used []*Interpreter
	settings := l.Place.Settings()
	l.each(func(i *Interpreter) {
		if _, had := settings[string(i.Language)]; had {
			used = append(used, i)
		}
	})
	return used
}

// KeyOf returns the key of the settings that an earlier server's container was made with; empty: it ended in order, or there was
// none. Containers of the languages of this one, made apart from each other, have other settings than this server's.
func (l *Link) KeyOf(settings map[string]string) (key string) {
	for _, language := range l.Languages {
		switch now := settings[string(language)]; {
		case now == "" || now == key:
		case key == "":
			key = now
		default:
			return "several"
		}
	}
	return key
}

// loseUnfinished settles the runs of earlier servers that will never report an end.
func (l *Link) loseUnfinished(alive bool) {
	for _, run := range l.Uses.All() {
		if run.Earlier && !run.Over() && slices.Contains(l.Languages, run.Language) && !run.IsFollowed() {
			l.Uses.Settle(run, runs.LostResult(run, alive), nil)
		}
	}
}
