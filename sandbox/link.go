package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// link connects a session with one container, for the runs of the languages in it. A run goes through these phases:
//
//  1. connect (link.go) returns the container that there is, or brings one up:
//  2. takeOver (takeover.go) attaches to a container that runs without a server, or
//  3. start (start.go) makes a container and sends init.
//  4. execute (perform.go) has the language's kernel run the code, by the messages of package kernel, and
//  5. outlet (wayout.go) serves what the code sends out meanwhile.
//  6. outcome (perform.go) turns the kernel's answer into the run's result.
type link struct {
	languages    []Language // of its container, which bears the name of the first
	interpreters map[Language]*interpreter
	config       *Config
	engine       *engineSide
	uses         *usage
	admit        Admission

	// starting is held while the container starts or is removed.
	starting sync.Mutex
	reached  bool   // it looked for an earlier server's container; under starting
	tried    bool   // it asked for a container, which may exist although that failed; under starting
	madeWith string // the key of the container's settings; under starting

	container atomic.Pointer[kernel.Container]
	had       atomic.Bool // there was a container
}

// Admission waits until a link may start a container. leave is called once that started or failed.
type Admission func(ctx context.Context, l *link) (leave func(), err error)

func newLink(languages []Language, on *engineSide, uses *usage, admit Admission) *link {
	l := &link{languages: languages, interpreters: make(map[Language]*interpreter), config: on.config, engine: on, uses: uses, admit: admit}
	for _, language := range languages {
		l.interpreters[language] = &interpreter{link: l, language: language, queue: newQueue()}
	}
	return l
}

// name is the language that names the container.
func (l *link) name() Language { return l.languages[0] }

// each calls do for each interpreter, in the order of the languages.
func (l *link) each(do func(*interpreter)) {
	for _, language := range l.languages {
		do(l.interpreters[language])
	}
}

// connect returns a live container: the existing one, one that runs without a server, or a new one, in which this language's
// interpreter starts first. It waits for its turn to start a new one until ctx ends. The caller holds l.starting.
func (l *link) connect(ctx context.Context, first Language, note func(string), warm bool) (*kernel.Container, error) {
	c, err := l.existing(ctx)
	switch {
	case c != nil:
		return c, nil
	case err != nil && !isFinal(err):
		return nil, err
	case l.had.Load():
		l.each(func(i *interpreter) {
			if i.had.Load() {
				i.lose(fmt.Sprintf("The %s kernel's container had ended since the last run: its variables are gone", i.language), filesKept)
			}
		})
	case errors.Is(err, errOtherSettings):
		files := l.engine.filesThere()
		l.replaceEarlier(ctx)
		for _, i := range l.usedEarlier() {
			i.lose(fmt.Sprintf("The server's settings or secrets have changed since this session's %s kernel began, so it begins anew: its variables are gone", i.language), files)
		}
	}
	l.engine.noteEnded(l.languages)
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
func (l *link) existing(ctx context.Context) (*kernel.Container, error) {
	if c := l.container.Load(); c != nil && c.Alive() && (!c.Ending() || !c.Ends(ctx, l.endTime())) {
		return c, nil
	}
	if c, err := l.retake(ctx); c != nil || err != nil {
		return c, err
	}
	c, err := l.reachEarlier()
	if err != nil && !isFinal(err) {
		err = errNotTakenOver(l.engine.id).Because(err)
	}
	return c, err
}

// live returns the container, if this server has one that answers; nil: it has none.
func (l *link) live() *kernel.Container {
	if c := l.container.Load(); c != nil && c.Alive() {
		return c
	}
	return nil
}

// discard removes a useless container, unless it was replaced already.
func (l *link) discard(c *kernel.Container) {
	l.starting.Lock() // the next one of this name does not start while this one is removed
	defer l.starting.Unlock()
	c.Close()
	if l.container.Load() != c {
		return
	}
	l.container.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	if err := l.engine.remove(ctx, l.name()); err != nil {
		l.config.Logger.Warn("remove container", "session", l.engine.id, "error", err)
	}
}

// set replaces the container, and notes which interpreters in it have variables.
func (l *link) set(c *kernel.Container) {
	l.container.Store(c)
	c.WatchVersions(l.uses.recordDid)
	l.had.Store(true)
	for _, k := range c.Used() {
		l.interpreters[k.Language()].had.Store(true)
	}
}

// usedEarlier returns the interpreters that had variables in an earlier server, by the session's record.
func (l *link) usedEarlier() []*interpreter {
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	var used []*interpreter
	l.each(func(i *interpreter) {
		if l.engine.record != nil {
			if _, had := l.engine.record.Settings[string(i.language)]; had {
				used = append(used, i)
			}
		}
	})
	return used
}

// keyOf returns the key of the settings that an earlier server's container was made with; empty: it ended in order, or there was
// none. Containers of the languages of this one, made apart from each other, have other settings than this server's.
func (l *link) keyOf(settings map[string]string) (key string) {
	for _, language := range l.languages {
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
func (l *link) loseUnfinished(alive bool) {
	for _, run := range l.uses.all() {
		if run.earlier && !run.over() && slices.Contains(l.languages, run.Language) && !run.isFollowed() {
			l.uses.settle(run, lostResult(run, alive), nil)
		}
	}
}

// adoptSpare moves a session that nobody used yet to a spare and returns its container; nil: no spare fits. The caller holds
// l.starting.
func (l *link) adoptSpare(first Language, image engine.ImageInfo, warm bool) *kernel.Container {
	e := l.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	key := e.spareKey(l.languages, image)
	if e.ctx.Err() != nil {
		return nil
	}
	moved := false
	if !e.used() && !e.stale && !isSpare(e.id) { // its own files may be there
		spares := e.supply.spares
		if sp := spares.take(l.name(), key); sp != nil {
			if moved = e.moveTo(sp, func() { e.takeSettings(first, e.settingsKey(l.languages, image), l.uses.wake()) }); !moved {
				spares.mu.Lock()
				spares.discard(sp)
				spares.mu.Unlock()
			}
		}
	}
	c := e.ready[l.name()]
	if delete(e.ready, l.name()); c == nil || !c.Alive() || e.readyAs[string(l.name())] != key {
		return nil
	}
	awake := l.uses.wake()
	bind := e.init(l.languages, first, warm)
	bind.Type = "bind"
	c.Bind(bind, e.outlet())
	l.madeWith = e.settingsKey(l.languages, image)
	if !moved {
		e.noteSettings(first, l.madeWith, awake)
	}
	return c
}
