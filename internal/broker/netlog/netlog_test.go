package netlog_test

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestNoTextOfAnEntryIsKeptInFull(t *testing.T) {
	long := strings.Repeat("ä", 100_000) + "\xff"
	var added netlog.Entry
	log := &netlog.Log{Added: func(e netlog.Entry) { added = e }}
	log.Add(netlog.Entry{Session: "s", Run: long, Kind: long, Method: long, Host: long, Path: long, Rule: long})
	newest, _ := log.Of("s")
	should.Hold(t, newest[0] == added, "%+v is kept, and %+v was passed on", newest[0], added)
	for i, said := range []string{added.Run, added.Kind, added.Method, added.Host, added.Path, added.Rule} {
		if n := utf8.RuneCountInString(said); n != 201 || !strings.HasSuffix(said, "ä…") {
			t.Errorf("text %d has %d characters and ends with %q", i, n, said[len(said)-4:])
		}
	}
}

// What is kept of a request must not keep all of it.
func TestEntriesAreSmall(t *testing.T) {
	log := &netlog.Log{}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 1000 {
		request := strings.Repeat("x", 64<<10)
		log.Add(netlog.Entry{Session: "s", Method: request[:10], Host: request[10:20], Path: request[20:]})
	}
	grown := heap() - before
	should.Hold(t, grown <= 4<<20, "1,000 entries take %d bytes", grown)
	runtime.KeepAlive(log)
}
