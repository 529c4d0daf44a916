package setup

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// recorder is a Reporter that keeps what it is told.
type recorder struct {
	mu    sync.Mutex
	tasks []*recordedTask
}

func (r *recorder) Begin(title string) Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, &recordedTask{calls: []string{"begin " + title}})
	return r.tasks[len(r.tasks)-1]
}

// said is every call, task by task.
func (r *recorder) said() string {
	var all []string
	for _, task := range r.tasks {
		all = append(all, task.calls...)
	}
	return strings.Join(all, "\n")
}

type recordedTask struct{ calls []string }

func (t *recordedTask) note(format string, args ...any) {
	t.calls = append(t.calls, fmt.Sprintf(format, args...))
}

func (t *recordedTask) Step(done, total int, what string) { t.note("step %d/%d %s", done, total, what) }
func (t *recordedTask) Line(line string)                  { t.note("line %s", line) }
func (t *recordedTask) End(outcome string)                { t.note("end %s", outcome) }
func (t *recordedTask) Fail()                             { t.note("fail") }

func TestHowMuchOfADownloadIsThere(t *testing.T) {
	const mb = 1_000_000
	for want, test := range map[string]struct {
		done, total int64
		took        time.Duration
	}{
		"12MB so far":                       {12 * mb, 0, time.Minute},
		"10MB of 640MB":                     {10 * mb, 640 * mb, time.Second}, // too early for a rate
		"0B of 640MB":                       {0, 640 * mb, time.Minute},
		"160MB of 640MB, about 2 min left":  {160 * mb, 640 * mb, 40 * time.Second},
		"320MB of 640MB, about 40 s left":   {320 * mb, 640 * mb, 40 * time.Second},
		"600MB of 640MB, some seconds left": {600 * mb, 640 * mb, 60 * time.Second},
		"640MB of 640MB, some seconds left": {640 * mb, 640 * mb, 60 * time.Second},
		"1MB of 1GB, about 999 min left":    {mb, 1000 * mb, time.Minute},
	} {
		should.Equal(t, progressOf(test.done, test.total, test.took), want)
	}
	began := time.Now()
	p := pulled{layers: make(map[string]libpod.Layer), began: began}
	p.add(libpod.Layer{ID: "a", Current: 10 * mb, Total: 20 * mb}, began)
	p.add(libpod.Layer{ID: "b", Current: mb, Total: -1}, began)
	should.Equal(t, p.add(libpod.Layer{ID: "a", Current: 20 * mb, Total: 20 * mb}, began), "21MB of 21MB")
}

func TestPlainProgressSpeaksEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		task := plain{w: &out, every: 3 * time.Second}.Begin("Image")
		task.Step(0, 2, "RUN apt-get update")
		task.Line("Get:1")
		task.Line("Get:2")
		sleep(3 * time.Second)
		sleep(3 * time.Second)
		task.Step(1, 2, "COPY a b")
		sleep(3 * time.Second)
		task.End("built")
		want := `Image: step 1/2: RUN apt-get update
Image: 3s: Get:2
Image: 6s: still at it: Get:2
Image: step 2/2: COPY a b
Image: 9s: still at it
Image: built
`
		should.Equal(t, out.String(), want)
	})
}

// sleep moves the bubble's clock, and lets what was due then happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestPlainProgressOfAFailureEndsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails where a goroutine stays behind
		var out bytes.Buffer
		plain{w: &out, every: time.Second}.Begin("Image").Fail()
		should.Equal(t, out.String(), "Image: failed\n")
	})
}

func TestAFileIsNotATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	must.OK(t, err)
	defer file.Close()
	if _, ok := NewReporter(file).(plain); !ok {
		t.Errorf("a file gets %T", NewReporter(file))
	}
	if _, ok := NewReporter(&bytes.Buffer{}).(plain); !ok {
		t.Error("a buffer does not get plain lines")
	}
}
