package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// takeOverTimeout bounds the wait for a supervisor that a new server speaks to.
const takeOverTimeout = 10 * time.Second

var (
	errNeverStarted  = errors.New("no kernel of this language was started before")
	errOtherSettings = errors.New("the container was made with other settings")
	errNoTakeOver    = errors.New("the supervisor does not take this server")
)

// takeOver speaks to the supervisor that an earlier server left running, through a relay in its
// container. The kernel has its variables, and what went on goes on. The caller holds l.starting.
func (s *session) takeOver(l *lane) (*kernel, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	setting := s.config.Kernels[l.language]
	image, err := s.images.get(ctx, s.config.Engine, setting.Image)
	if err != nil {
		return nil, err
	}
	key, err := s.settingsKey(setting, image)
	if err != nil {
		return nil, err
	}
	switch s.record.Settings[l.language] {
	case key:
	case "":
		return nil, errNeverStarted
	default:
		return nil, errOtherSettings
	}
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	proc, err := s.exec(ctx, l.language, slices.Concat([]string{setting.Interpreter}, setting.Program, []string{setting.Relay}))
	if err != nil {
		return nil, err
	}
	k := newKernel(proc, s.wireLimits(), s.config.Logger.With("session", s.id, "language", l.language))
	k.onReady = func(m readyMessage) { s.adopt(l, k, m) }
	go k.listen()
	go k.speak()
	if err := k.send(attachMessage{Type: "attach", Protocol: 1, Token: s.record.Token}); err != nil {
		_ = proc.Close()
		return nil, err
	}
	if err := k.awaitReady(takeOverTimeout); err != nil {
		_ = proc.Close()
		return nil, fmt.Errorf("%w: %w: %s", errNoTakeOver, err, clip(proc.Stderr(), 500))
	}
	return k, nil
}

// adopt makes the run that goes on in a kernel that was taken over, or the last one whose end nobody
// has read, a run of this server. It is called before any frame of that run is looked at.
func (s *session) adopt(l *lane, k *kernel, m readyMessage) {
	id := m.Run
	if id == "" {
		id = m.Last
	}
	run := s.unfinished(id)
	if run == nil || run.Language != l.language {
		return
	}
	if s.enter() != nil {
		return
	}
	answer := k.follow(run)
	l.setAdopted(run)
	go func() {
		defer s.leave()
		done, err := k.await(run, answer, max(0, time.Until(run.created.Add(run.options.Timeout))))
		res, err := s.outcome(run, l, k, done, err)
		s.settle(run, res, err)
	}()
}

// reachEarlier takes over the lane's container of an earlier server, once. nil, nil: there is no
// reason to look for one. The caller holds l.starting.
func (s *session) reachEarlier(l *lane) (*kernel, error) {
	if !s.resumed || l.reached || l.hadKernel() {
		return nil, nil
	}
	l.reached = true
	k, err := s.takeOver(l)
	if err != nil {
		s.config.Logger.Debug("take over", "session", s.id, "language", l.language, "error", err)
	} else {
		l.setKernel(k)
	}
	s.loseUnfinished(l)
	return k, err
}

// reach takes over what an earlier server left running, so that its runs are known here.
func (s *session) reach(language Language) {
	l := s.lanes[language]
	if l == nil {
		return
	}
	l.starting.Lock()
	defer l.starting.Unlock()
	_, _ = s.reachEarlier(l)
}

// loseUnfinished settles the lane's runs of earlier servers that nobody knows the end of.
func (s *session) loseUnfinished(l *lane) {
	s.mu.Lock()
	runs := slices.Clone(s.runs)
	s.mu.Unlock()
	adopted := l.adoptedNow()
	for _, run := range runs {
		if run.earlier && run.Language == l.language && run != adopted {
			s.settle(run, lostResult(run), nil)
		}
	}
}

// unfinished gives a run of an earlier server whose end is not known.
func (s *session) unfinished(id string) *Run {
	run := s.findRun(id)
	if run == nil {
		return nil
	}
	select {
	case <-run.Done():
		return nil
	default:
		return run
	}
}
