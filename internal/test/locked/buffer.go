// Package locked is for tests that read what is still being written.
package locked

import (
	"bytes"
	"sync"
)

// Buffer keeps what is written, such as a process's log, and may be read meanwhile. Its zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
