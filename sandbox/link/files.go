package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// mostFiles bounds the concurrent transfers of one session; more wait.
const mostFiles = 8

// Files reaches the files of a session: it finds a supervisor, and bounds the number of streams.
type Files struct {
	id     string
	config *place.Config
	ctx    context.Context // the session's
	place  *place.Place
	uses   *runs.Usage
	links  []*Link

	semaphore chan struct{} // holds a token for each use
}

// NewFiles makes the files of a session with these links.
func NewFiles(links []*Link, on *place.Place, uses *runs.Usage) *Files {
	return &Files{
		id: on.ID, config: on.Config, ctx: on.Ctx, place: on, uses: uses, links: links, semaphore: make(chan struct{}, mostFiles),
	}
}

// Use calls use with a client for the session's files. The error is a fault, or use's own error.
func (s *Files) Use(ctx context.Context, use func(context.Context, files.Client) error) error {
	c, ctx, done, err := s.borrow(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.Fault(ctx, use(ctx, c)) // while the context still knows the cause of its end
}

// FileReader reads a part of a session's file. It must be closed. It is for one goroutine.
type FileReader struct {
	*files.Reader
	of      *Files
	caller  context.Context
	explain func(error) error
	done    func()
	read    int64
}

// SessionID is the id of the file's session.
func (r *FileReader) SessionID() string { return r.of.id }

// Read reads the requested part of the file.
func (r *FileReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.explain(err)
	}
	return n, err
}

// Close closes the file and skips its unread rest.
func (r *FileReader) Close() error {
	err := r.Reader.Close()
	if r.done != nil {
		r.done()
		r.of.config.FileMoved(r.caller, runs.Transfer{
			Direction: runs.Out, Session: r.of.id, Path: r.File().Name(), Size: r.File().SizeBytes, Bytes: r.read,
		})
		r.done = nil
	}
	return err
}

// Open opens a file for reading. The error is a fault.
func (s *Files) Open(ctx context.Context, path string, o files.ReadOptions) (*FileReader, error) {
	caller := ctx
	c, ctx, done, err := s.borrow(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.Open(ctx, path, o)
	if err != nil {
		err = s.Fault(ctx, err)
		done()
		return nil, err
	}
	return &FileReader{Reader: r, of: s, caller: caller, explain: func(err error) error { return s.Fault(ctx, err) }, done: done}, nil
}

// borrow returns a client for the session's files, under a context that ends with the session too. The caller must call done.
func (s *Files) borrow(ctx context.Context) (c files.Client, joined context.Context, done func(), err error) {
	if err := s.uses.Enter(); err != nil {
		return c, nil, nil, err
	}
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	leave := func() {
		stop()
		cancel(nil)
		s.uses.Leave()
	}
	select {
	case s.semaphore <- struct{}{}:
	case <-joined.Done():
		err = s.Fault(joined, context.Cause(joined))
		leave()
		return c, nil, nil, err
	}
	c, release, err := s.reach(joined)
	if err != nil {
		err = s.Fault(joined, err)
		<-s.semaphore
		leave()
		return c, nil, nil, err
	}
	return c, joined, func() {
		release()
		<-s.semaphore
		leave()
	}, nil
}

// reach finds a supervisor for the session's files: of a kernel that this server has, takes over, or starts. It does not end a
// kernel with other settings.
func (s *Files) reach(ctx context.Context) (files.Client, func(), error) {
	if err := s.TakeOver(); err != nil {
		conn, gone := s.inEarlier(ctx)
		switch {
		case conn != nil:
			return files.Client{Streams: conn}, func() { _ = conn.Close() }, nil
		case s.config.Visit && !gone:
			return files.Client{}, nil, errOtherImage(s.id)
		}
	}
	c, err := s.SomeContainer(ctx)
	if err != nil {
		return files.Client{}, nil, err
	}
	return files.Client{Streams: c.Streams()}, func() {}, nil
}

func imageFlags(between string) string {
	return kernel.JoinLanguages(between, func(i kernel.LanguageInfo) string { return "--" + i.ImageFlag() })
}

func errOtherImage(id string) *fault.Error {
	return fault.New(fault.EngineError, "Give "+imageFlags(" and ")+" as the session's server has them.",
		"Session %q has a container whose image is another: its files cannot be read in it, and it is not ended for that.", id)
}

// TakeOver takes over an earlier server's kernel, if this server has none: it would end as idle while its files are in use. The
// error reports a kernel with other settings.
func (s *Files) TakeOver() error {
	if !s.place.IsResumed() || s.runningContainer() != nil {
		return nil
	}
	var other error
	for _, l := range s.StartedEarlier() {
		l.starting.Lock()
		_, err := l.reachEarlier()
		l.starting.Unlock()
		if errors.Is(err, place.ErrOtherSettings) {
			other = err
		}
	}
	if s.runningContainer() != nil {
		return nil
	}
	return other
}

// inEarlier connects to the supervisor of a container that this server does not take over, for its files alone. gone reports that
// the container is gone.
func (s *Files) inEarlier(ctx context.Context) (conn *channel.Conn, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	gone = true
	for _, l := range s.StartedEarlier() {
		if l.Had.Load() {
			continue
		}
		proc, err := s.place.Join(ctx, l.Name())
		if err != nil {
			gone = gone && errors.Is(err, engine.ErrContainerGone)
			continue
		}
		gone = false
		conn := channel.New(proc, channel.Options{MaxControl: protocol.MaxToServer})
		body, err := kernel.Encode(s.place.Attach(true))
		if err == nil && conn.Send(body) == nil {
			go func() { // streams receive only while messages are received
				for err == nil {
					_, err = conn.Receive()
				}
			}()
			return conn, false
		}
		_ = conn.Close()
	}
	return nil, gone
}

// StartedEarlier returns the links of a named session that may have a container.
func (s *Files) StartedEarlier() []*Link {
	settings := s.place.Settings()
	return slices.DeleteFunc(slices.Clone(s.links), func(l *Link) bool { return l.KeyOf(settings) == "" })
}

// runningContainer returns a running container of this server, the one with the versions if there are several, or nil.
func (s *Files) runningContainer() (found *kernel.Container) {
	for _, l := range s.links {
		c := l.Live()
		if c != nil && (found == nil || hasVersions(c)) {
			found = c
		}
	}
	return found
}

// SomeContainer returns a running container. It starts one if there is none.
func (s *Files) SomeContainer(ctx context.Context) (*kernel.Container, error) {
	if c := s.runningContainer(); c != nil {
		return c, nil
	}
	for _, l := range s.links {
		return l.Interpreters[l.Name()].Reachable(ctx)
	}
	return nil, fault.New(fault.EngineUnavailable, "Switch a language on, with "+imageFlags(" or ")+".", "No language is switched on.")
}

// Fault puts a failure between here and a supervisor into words.
func (s *Files) Fault(ctx context.Context, err error) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(s.ctx), runs.ErrClosing):
		return fault.New(fault.SessionNotFound, "Call again: a new session begins, without the files of this one.",
			"Session %q was closed meanwhile.", s.id)
	case errors.Is(context.Cause(s.ctx), runs.ErrAsleep):
		return runs.ErrSlept(s.id)
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, files.ErrSilent) && s.engineHangs():
		return place.Fault(s.config.Engine, fmt.Errorf("%w: %w", context.DeadlineExceeded, err), "files", place.KernelConfig{})
	case place.IsAny(err, files.ErrSilent, files.ErrFrame, engine.ErrContainerGone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET):
		return fault.New(fault.EngineError, "Try again; if it stays so, code of this session may be using up its processes or memory: close the session.",
			"The sandbox of session %q did not answer.", s.id).Because(err)
	}
	return place.Fault(s.config.Engine, err, "files", place.KernelConfig{})
}

// hangTimeout is an engine's time to show that it lives.
const hangTimeout = 3 * time.Second

// engineHangs reports whether the engine, which carries all messages of a supervisor, does not answer.
func (s *Files) engineHangs() bool {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	_, err := s.config.Engine.List(ctx, place.LabelSession, s.id)
	return err != nil
}

func hasVersions(c *kernel.Container) bool {
	v := c.Versions()
	return v != nil && len(v.Runs) > 0
}
