package sandbox

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// session is one volume, and a container for each image with at most one kernel per language. It exists before it is open: its users queue, and wait for opened.
type session struct {
	id      string
	named   bool // it outlives this server
	manager *Manager
	// fallback is the client of an unnamed default session, by DefaultOf; under the manager's lock.
	fallback string
	config   *Config
	ctx      context.Context
	cancel   context.CancelCauseFunc

	before  *session      // its closing predecessor of the same name; under the manager's lock
	opened  chan struct{} // closed when the session can be used, or failed with openErr
	openErr error
	gone    chan struct{} // closed after the session closed

	place  *place.Place
	uses   *runs.Usage
	limits runs.Limits
	links  []*link.Link
	files  *link.Files

	turning      sync.Mutex                     // held while a restore takes its turns of all kernels
	programs     chan struct{}                  // holds a token for each
	interpreters map[Language]*link.Interpreter // of all links
}

func (m *Manager) newSession(id string, named bool, before *session, config *Config) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &session{
		id: id, named: named, manager: m, before: before, config: config, ctx: ctx, cancel: cancel,
		opened: make(chan struct{}), gone: make(chan struct{}),
		programs: make(chan struct{}, maxPrograms), limits: runs.Limits{Rules: &config.Rules}, interpreters: make(map[Language]*link.Interpreter),
	}
	s.uses = runs.NewUsage(id, &config.Rules, &s.limits, s.isOpen, func() bool { return m.quotas.isFull(id) })
	s.place = &place.Place{ID: id, Named: named, Config: &config.Config, Supply: m.pool.Supply, Limits: &s.limits, Ctx: ctx, Note: s.noteLater, Lost: s.noteFilesLost, Out: kernel.NewConns()}
	for _, languages := range config.Containers() {
		l := link.New(languages, s.place, s.uses, m.quotas.admit)
		s.links = append(s.links, l)
		maps.Copy(s.interpreters, l.Interpreters)
	}
	s.files = link.NewFiles(s.links, s.place, s.uses)
	return s
}

// noteLater keeps a note for the next run of each language.
func (s *session) noteLater(text string) {
	for _, i := range s.interpreters {
		i.NoteLater(text)
	}
}

// noteFilesLost makes the next run of each language report that the files are gone.
func (s *session) noteFilesLost() {
	for _, i := range s.interpreters {
		i.NoteFilesLost()
	}
}

// begin reads an earlier server's record of the session and takes over its lock, and begins to record its runs. resumed reports
// that the earlier server left it on purpose.
func (s *session) begin(lock *state.Lock, resumed bool) {
	record, created, awake := s.place.Begin(resumed), s.uses.Created, s.uses.Awake
	if record != nil {
		created = record.Created
	}
	if record != nil && !record.Awake.IsZero() {
		awake = record.Awake
	}
	s.limits.Restore(record)
	s.uses.Open(s.ctx, lock, created, awake)
}

// awaitOpen waits until the session can be used. The error is a fault, or says why ctx ended.
func (s *session) awaitOpen(ctx context.Context) error {
	select {
	case <-s.opened:
		return s.openErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isOpen reports whether the session can be used.
func (s *session) isOpen() bool { return runs.IsClosed(s.opened) && s.openErr == nil }

func (s *session) folder() string { return state.Folder(s.config.StateDir, s.id) }

// launch queues a run and returns it at once: it waits for the session to open, and then for its turn.
func (s *session) launch(id string, options RunOptions) (*Run, error) {
	i := s.interpreters[options.Language]
	run := runs.NewRun(s.ctx, &s.config.Rules, id, s.id, options)
	run.Ahead = func() *RunInfo { return i.Ahead(run) }
	if err := s.config.MayBegin(run); err != nil {
		run.Cancel(err)
		return nil, err
	}
	turn := link.OpenTurn() // a run in an interpreter of its own waits for no other run
	err := s.uses.Begin(run, func() {
		if !options.Apart() {
			turn = i.Enqueue()
		}
	})
	if err != nil {
		run.Cancel(err)
		return nil, err
	}
	go func() {
		res, err := s.perform(run, i, turn)
		s.uses.Conclude(run, res, err)
	}()
	return run, nil
}

// ping keeps the supervisors from ending as idle.
func (s *session) ping(n int) {
	for _, c := range s.containers() {
		c.Ping(n)
	}
}

// sizeTimeout bounds the wait for a supervisor's count of files; without it the answer gives no size.
const sizeTimeout = 2 * time.Second

// size asks a supervisor for the size of the session's files. nil: none answers.
func (s *session) size(ctx context.Context) *int64 {
	ctx, cancel := context.WithTimeout(ctx, sizeTimeout)
	defer cancel()
	for _, l := range s.links {
		c := l.Live()
		if c == nil {
			continue
		}
		if _, bytes, _, err := (files.Client{Streams: c.Streams()}).Usage(ctx); err == nil {
			if most := 3*s.config.VolumeBytes + 1<<30; s.config.VolumeBytes > 0 {
				bytes = min(bytes, most) // more is forged, and would drive other sessions out
			}
			return &bytes
		}
	}
	return nil
}

// containers returns the containers that answer.
func (s *session) containers() []*kernel.Container {
	var live []*kernel.Container
	for _, l := range s.links {
		if c := l.Live(); c != nil && c.CameUp() {
			live = append(live, c)
		}
	}
	return live
}

// perform takes a run from its place in the kernel's queue to its result.
func (s *session) perform(run *Run, i *link.Interpreter, turn link.Turn) (res *Result, err error) {
	defer func() {
		if err != nil { // an error carries no notes: the next result gets them
			run.PassNotes(i.NoteLater)
		}
		turn.Leave()
	}()
	if err := s.awaitOpen(run.Ctx); run.Ctx.Err() != nil {
		return run.Stopped()
	} else if err != nil {
		return nil, err
	}
	if err := turn.Wait(run.Ctx, run.Options.Timeout); err != nil {
		return i.NotInTurn(run, err)
	}
	if err := s.manager.quotas.checkDisk(run.Ctx, s.id); err != nil {
		return nil, err
	}
	longest, notes := s.limits.Ask(&run.Options)
	run.Most = longest
	for _, note := range notes {
		run.Note(note)
	}
	return i.Execute(run)
}
