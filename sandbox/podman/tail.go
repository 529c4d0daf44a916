package podman

import (
	"strings"
	"sync"
)

// tail is a writer that keeps the last bytes it was given. It is safe for use by
// several goroutines.
type tail struct {
	limit int

	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n > t.limit {
		p = p[n-t.limit:]
	}
	if over := len(t.kept) + len(p) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// String is what was kept, with what is not UTF-8, such as a character that the limit
// split, replaced.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
