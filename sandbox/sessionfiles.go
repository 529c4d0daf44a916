package sandbox

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const (
	// keptFiles is how many files programs of one session are kept for the next request, and
	// filesIdle how long: a new one costs a tenth of a second, and one that waits costs memory.
	keptFiles = 2
	filesIdle = 45 * time.Second
	// mostFiles is how many files programs of one session are used at once; more requests wait.
	mostFiles = 4
)

// withFiles lends a files program of the session to use. The error is a fault, or what use was told
// by something that is none of ours.
func (s *session) withFiles(ctx context.Context, use func(context.Context, *filesConn) error) error {
	c, ctx, done, err := s.borrowFiles(ctx)
	if err != nil {
		return err
	}
	err = s.filesFault(ctx, use(ctx, c)) // while the context still tells whether it was cut short
	done()
	return err
}

func (s *session) openFile(ctx context.Context, path string, o ReadOptions) (*FileReader, error) {
	c, ctx, done, err := s.borrowFiles(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.open(ctx, path, o)
	if err != nil {
		err = s.filesFault(ctx, err)
		done()
		return nil, err
	}
	r.done, r.explain, r.session = done, s.filesFault, s.id
	return r, nil
}

// borrowFiles gives a files program that answers, under a context that ends with the session too.
// done must be called, and gives it back.
func (s *session) borrowFiles(ctx context.Context) (c *filesConn, joined context.Context, done func(), err error) {
	if err := s.enter(); err != nil {
		return nil, nil, nil, err
	}
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	leave := func() {
		stop()
		cancel(nil)
		s.leave()
	}
	select {
	case s.filesTurn <- struct{}{}:
	case <-joined.Done():
		err = s.filesFault(joined, context.Cause(joined))
		leave()
		return nil, nil, nil, err
	}
	c, err = s.filesProgram(joined)
	if err != nil {
		err = s.filesFault(joined, err)
		<-s.filesTurn
		leave()
		return nil, nil, nil, err
	}
	return c, joined, func() {
		s.returnFiles(c)
		<-s.filesTurn
		leave()
	}, nil
}

func (s *session) filesProgram(ctx context.Context) (*filesConn, error) {
	if err := s.takeOverForFiles(); err != nil {
		if c := s.filesInEarlier(ctx); c != nil {
			return c, nil
		}
		if s.config.Visit {
			return nil, errOtherImage(s.id)
		}
	}
	l, err := s.someKernel()
	if err != nil {
		return nil, err
	}
	if c := s.keptFiles(ctx, l); c != nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.startFiles(ctx, l)
}

func errOtherImage(id string) *fault.Error {
	return fault.New(fault.EngineError, "Give --python-image and --js-image as the session's server has them.",
		"Session %q has a container whose image is another: its files cannot be read in it, and it is not ended for that.", id)
}

// takeOverForFiles takes over a kernel that an earlier server left, where none is this server's: it
// would end as idle while its files are in use. The error says that there is one which this server does
// not go on with.
func (s *session) takeOverForFiles() error {
	if !s.resumed || s.runningLane() != nil {
		return nil
	}
	var other error
	for _, language := range s.startedEarlier() {
		l := s.lanes[language]
		if l == nil {
			continue
		}
		l.starting.Lock()
		_, err := s.reachEarlier(l)
		l.starting.Unlock()
		if errors.Is(err, errOtherSettings) {
			other = err
		}
	}
	if s.runningLane() != nil {
		return nil
	}
	return other
}

// filesInEarlier gives a files program in a container that this server does not take over: files are no
// reason to end a kernel that was made with other settings.
func (s *session) filesInEarlier(ctx context.Context) *filesConn {
	for _, language := range s.startedEarlier() {
		l := s.lanes[language]
		if l == nil || l.hadKernel() {
			continue
		}
		if c := s.keptFiles(ctx, l); c != nil {
			return c
		}
		if c, err := s.startFiles(ctx, l); err == nil {
			return c
		}
	}
	return nil
}

// startedEarlier gives the languages that a named session has had a container of.
func (s *session) startedEarlier() []Language {
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	return slices.Collect(maps.Keys(s.record.Settings))
}

// keptFiles gives a program in the lane's container that waits and still answers, or nil.
func (s *session) keptFiles(ctx context.Context, l *lane) *filesConn {
	for c := s.keptFilesOf(l.kernelNow()); c != nil; c = s.keptFilesOf(l.kernelNow()) {
		if c.hello(ctx) == nil {
			return c
		}
	}
	return nil
}

// startFiles starts a files program in the lane's container.
func (s *session) startFiles(ctx context.Context, l *lane) (*filesConn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	proc, err := s.exec(ctx, l.language, s.config.Kernels[l.language].Files)
	if err != nil {
		return nil, err
	}
	c := newFilesConn(proc)
	c.kernel = l.kernelNow()
	if err := c.hello(ctx); err != nil {
		if tail := proc.Stderr(); tail != "" {
			s.config.Logger.Debug("files program", "session", s.id, "stderr", clip(tail, 2000))
		}
		return nil, err
	}
	return c, nil
}

// exec starts a program of ours, given as source, in one of the session's containers.
func (s *session) exec(ctx context.Context, language Language, source string) (Process, error) {
	setting := s.config.Kernels[language]
	image, err := s.images.get(ctx, s.config.Engine, setting.Image)
	if err != nil {
		return nil, err
	}
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	if err := context.Cause(s.ctx); err != nil {
		return nil, err // the container may be another server's by now
	}
	command := slices.Concat([]string{setting.programInterpreterOf(image)}, setting.Program, []string{source})
	return s.config.Engine.Exec(ctx, s.containerName(language), command)
}

func (c *filesConn) hello(ctx context.Context) error {
	a, err := c.ask(ctx, filesRequest{Op: "hello", WorkDir: WorkDir}, WorkDir)
	if err == nil && !a.OK {
		c.close()
		return errFilesFrame
	}
	return err
}

// runningLane gives a lane whose container runs and is this server's, or nil.
func (s *session) runningLane() *lane {
	for _, language := range languageOrder {
		if l := s.lanes[language]; l != nil {
			if k := l.kernelNow(); k != nil && k.alive() {
				return l
			}
		}
	}
	return nil
}

// languageOrder is the one in which a container for files is looked for.
var languageOrder = []Language{Python, JavaScript}

// someKernel gives a lane whose container runs, and starts one where none does.
func (s *session) someKernel() (*lane, error) {
	if l := s.runningLane(); l != nil {
		return l, nil
	}
	for _, language := range languageOrder {
		if l := s.lanes[language]; l != nil {
			_, err := s.kernel(l, l.noteLater, true)
			return l, err
		}
	}
	return nil, fault.New(fault.EngineUnavailable, "Switch a language on, with --python-image or --js-image.", "No language is switched on.")
}

func (s *session) keptFilesOf(k *kernel) *filesConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) > 0 {
		c := s.files[0]
		s.files = s.files[1:]
		if c.kernel == k {
			return c
		}
		c.close() // its container is gone
	}
	return nil
}

func (s *session) returnFiles(c *filesConn) {
	if c.broken {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.files) >= keptFiles {
		c.close()
		return
	}
	c.idle = time.Now()
	s.files = append(s.files, c)
}

// dropIdleFiles ends the programs that nobody has used since before.
func (s *session) dropIdleFiles(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = slices.DeleteFunc(s.files, func(c *filesConn) bool {
		if c.idle.After(before) {
			return false
		}
		c.close()
		return true
	})
}

// filesFault puts what went wrong between here and the files program into words.
func (s *session) filesFault(ctx context.Context, err error) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(s.ctx), errClosing):
		return fault.New(fault.SessionNotFound, "Call again: a new session begins, without the files of this one.",
			"Session %q was closed meanwhile.", s.id)
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isAny(err, errFilesSilent, errFilesFrame, ErrContainerGone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET):
		return fault.New(fault.EngineError, "Try again; if it stays so, code of this session may be using up its processes or memory: close the session.",
			"The sandbox of session %q did not answer.", s.id).Because(err)
	}
	return engineFault(err, "files", KernelConfig{})
}
