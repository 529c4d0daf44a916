package engine

import (
	"cmp"
	"io"
	"strings"
	"sync"
)

const tailBytes = 4 << 10

// Tail is a writer that keeps the last bytes written to it, for a Process's Stderr: Limit bytes, or 4 KiB if that is zero. It is
// safe for use by several goroutines.
type Tail struct {
	Limit int

	mu   sync.Mutex
	kept []byte
}

// ReadFrom implements io.ReaderFrom: rare output needs no large buffer.
func (t *Tail) ReadFrom(r io.Reader) (n int64, err error) {
	return io.CopyBuffer(struct{ io.Writer }{t}, struct{ io.Reader }{r}, make([]byte, 1<<10))
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, limit := len(p), cmp.Or(t.Limit, tailBytes)
	if n > limit {
		p = p[n-limit:]
	}
	if over := len(t.kept) + len(p) - limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// String returns the kept bytes. It replaces invalid UTF-8, such as a character that the limit split.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
