//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// endTime is how long a server may take to end before the tests call it hung. An orderly end may take
// 1.5 s; what it took is in the test's log.
const endTime = 20 * time.Second

// end closes the server's input and waits for its end, after which nothing of it may be left.
func (s *server) end() {
	s.t.Helper()
	s.endBy("end of input", func() { _ = s.stdin.Close() })
}

// endBy ends the server by what act does. It must come to its end in order, with exit status 0.
func (s *server) endBy(how string, act func()) {
	s.t.Helper()
	ids := s.sessionIDs()
	began := time.Now()
	act()
	if !s.endsIn(endTime) {
		s.t.Fatalf("the server does not end by %s", how)
	}
	s.t.Logf("ended by %s in %v", how, time.Since(began).Round(time.Millisecond))
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("ended by %s with %v", how, s.cmd.ProcessState)
	}
	wantNothingLeft(s.t, ids)
}

func (s *server) endsIn(limit time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill ends the server as the kernel would for want of memory.
func (s *server) kill() {
	s.t.Helper()
	s.killed = true
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.exited
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// sessionIDs are the sessions that this server has or had: those that its answers named, and those
// that it keeps a lock for, when it alone uses the state directory.
func (s *server) sessionIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared {
		for _, id := range lockedSessions(s.stateDir) {
			s.sessions[id] = true
		}
	}
	ids := make([]string, 0, len(s.sessions))
	for id := range s.sessions {
		ids = append(ids, id)
	}
	return ids
}

func lockedSessions(stateDir string) (ids []string) {
	locks, _ := filepath.Glob(filepath.Join(stateDir, "sessions*", "*.lock"))
	for _, path := range locks {
		ids = append(ids, strings.TrimSuffix(filepath.Base(path), ".lock"))
	}
	return ids
}

// cleanUp is every test's end: a server that still runs ends in order, and what a failed test may
// have left is removed.
func (s *server) cleanUp() {
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the server's log:\n%s", tail(s.stderr.String()))
		}
	}()
	ids := s.sessionIDs()
	_ = s.stdin.Close()
	if !s.endsIn(endTime) {
		s.t.Error("the server does not end when its input does")
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are then in the log
		if !s.endsIn(endTime) {
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
	}
	if !s.t.Failed() && !s.killed {
		wantNothingLeft(s.t, ids)
	}
	removeAll(s.t, ids)
	if s.killed { // what clears up after it has nothing to do any more, and no folder
		for _, pid := range keepers(s.stateDir) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	_ = s.stdout.Close()
}
