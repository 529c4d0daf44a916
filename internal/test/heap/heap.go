// Package heap is for tests of what something takes in memory.
package heap

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"
)

// PerSession is what one session may make the server's memory grow by.
const PerSession = 150 << 20

// Bound fails the test where the heap grows beyond PerSession while do runs, with the server's own limit for garbage.
func Bound(t testing.TB, do func()) {
	t.Helper()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(96 << 20))
	debug.FreeOSMemory()
	before := objects()
	var peak atomic.Int64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			peak.Store(max(peak.Load(), objects()))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	do()
	close(done)
	<-stopped
	if grown := peak.Load() - before; grown > PerSession {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB", grown>>20)
	}
}

// objects is what the heap has in use, garbage that was not swept included.
func objects() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
