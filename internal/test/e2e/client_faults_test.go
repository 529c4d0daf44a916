//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const sessions, calls = 5, 100
	var runs []*request
	for i := range calls {
		runs = append(runs, s.beginCall(javascript, object{
			"session_id": fmt.Sprintf("e2e-crowd-%d", i%sessions), "timeout_seconds": 300,
			"code": "globalThis.n = (globalThis.n ?? 0) + 1; n",
		}))
	}
	s.ping()
	for i, r := range runs {
		res := r.result()
		if run := res.Meta.Run; run != nil && run.Status == "running" {
			res = s.wait(run.RunID)
		}
		if got, want := res.Meta.Run.value(), fmt.Sprint(i/sessions+1); got != want {
			t.Errorf("call %d has %s, want %s: %s", i, got, want, res.text())
		}
	}
	var closing []*request
	for i := range sessions {
		closing = append(closing, s.beginCall("close_session", object{"session_id": fmt.Sprintf("e2e-crowd-%d", i)}))
	}
	for _, r := range closing {
		r.result().wantText(t, "closed")
	}
}

// An answer is made for the client that asks.
func TestAnAnswerIsMadeForItsClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ most, images int }{
		"@cline/core": {8_000, 0}, "codex-mcp-client": {12_000, 1},
	} {
		t.Run(strings.TrimPrefix(name, "@"), func(t *testing.T) {
			s := start(t, setup{silent: true, asShipped: true})
			s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{}, "clientInfo": object{"name": name, "version": "1"}})
			s.notify("notifications/initialized", nil)
			for _, call := range []struct {
				tool      string
				arguments object
			}{
				{python, object{"code": `for i in range(9000): print('"line"', i); open(f'output/{i:0200}.txt', 'w').close() if i < 200 else 0
open('output/x.csv', 'w').write('a,"b"\n' * 9000)`}},
				{"read_artifact", object{"path": "output/x.csv", "limit": 9000}},
				{"list_artifacts", object{}}, {"list_sessions", object{}}, {"session_info", object{"packages": true}},
			} {
				res := s.call(call.tool, call.arguments)
				if n := len(res.line); res.IsError || n > test.most || len(res.text()) > 16_001 {
					t.Errorf("%s: %d bytes: %.300s", call.tool, n, res.line)
				}
			}
			res := s.call(python, object{"code": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"})
			res.wantText(t, "output/figure-1.png")
			if n := len(res.images()); n != test.images {
				t.Errorf("%d images", n)
			}
		})
	}
}

// stopsReading lets the driver read no more, has the server asked for more than a pipe holds, and gives
// what lets it read again.
func (s *server) stopsReading(calls int) (requests []*request, readOn func()) {
	s.t.Helper()
	s.py("open('big.txt', 'w').write('a line of text\\n' * 40_000); kept = 7")
	s.hold.Lock()
	for i := range calls {
		requests = append(requests, s.beginCall("read_artifact", object{"path": "big.txt", "limit": 20_000, "offset": i}))
	}
	eventually(s.t, "the pipe is full", func() (bool, string) {
		waiting := 0
		raw, err := s.stdout.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		}
		return waiting >= 60<<10, fmt.Sprint(waiting, err)
	})
	return requests, s.hold.Unlock
}

// A client that reads nothing for a while costs the server no memory for all that it did not read.
func TestAClientThatStopsReading(t *testing.T) {
	t.Parallel()
	const calls, most = 200, 150 << 20
	s := start(t, setup{program: shipped, args: []string{"--output-limit", "200000"}})
	s.py("1")
	s.peakMemory()
	before := s.peakMemory()
	requests, readOn := s.stopsReading(calls)
	readOn()
	for _, r := range requests {
		r.result().wantText(t, "a line of text")
	}
	if raised := s.peakMemory() - before; raised > most {
		t.Errorf("%d answers of 300 kB raised the server's memory by %d MB", calls, raised>>20)
	} else {
		t.Logf("%d answers of 300 kB raised the server's memory by %d MB", calls, raised>>20)
	}
	if got := s.py("kept").Meta.Run.value(); got != "7" {
		t.Errorf("got %s", got)
	}
}
