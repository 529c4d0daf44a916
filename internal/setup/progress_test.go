package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
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
	file := must.Get(os.Create(t.TempDir() + "/log"))(t)
	defer file.Close()
	if _, ok := NewReporter(file).(plain); !ok {
		t.Errorf("a file gets %T", NewReporter(file))
	}
	_, ok := NewReporter(&bytes.Buffer{}).(plain)
	should.Hold(t, ok, "a buffer does not get plain lines")
}

func TestABuildsOutputBecomesSteps(t *testing.T) {
	task := &recordedTask{}
	s := &steps{log: newLog(task.Line), task: task}
	out := &lines{emit: s.read}
	_, _ = out.Write([]byte(`[1/2] STEP 1/2: FROM localhost/debian:trixie-slim AS packages
[1/2] STEP 2/2: RUN --mount=type=bind,source=host,target=/run/host . /run/host/env && export DEBIAN_FRONTEND=noninteractive  && apt-get update
Get:1 http://deb.debian.org/debian trixie InRelease
[2/2] STEP 1/3: FROM localhost/debian:trixie-slim
[2/2] STEP 2/3: ENV LANG=C.UTF-8
[2/2] STEP 3/3: COPY --from=packages /opt /opt
[2/2] COMMIT
`))
	want := []string{
		"step 0/4 FROM localhost/debian:trixie-slim AS packages",
		"step 1/4 RUN apt-get update",
		"line Get:1 http://deb.debian.org/debian trixie InRelease",
		"step 3/6 FROM localhost/debian:trixie-slim",
		"step 5/6 COPY --from=packages /opt /opt",
		"line [2/2] COMMIT",
	}
	should.Hold(t, reflect.DeepEqual(task.calls, want), "got:\n%s", strings.Join(task.calls, "\n"))
}

func TestOutputThatOnlyLooksLikeStepsDoesNoHarm(t *testing.T) {
	task := &recordedTask{}
	s := &steps{log: newLog(task.Line), task: task}
	for _, line := range []string{
		"STEP 0/0: RUN x", "STEP 99999999999999999999/1: RUN x", "[9/0] STEP 3/2: RUN x",
		"STEP one/two: RUN x",
	} {
		s.read(line)
	}
	for _, call := range task.calls {
		should.Hold(t, !strings.Contains(call, "/0 "), "no progress can be drawn of %q", call)
	}
}

func TestABuildsErrorIsCutToWhatAPersonReads(t *testing.T) {
	long := `building at STEP "RUN --mount=type=bind,source=host,target=/run/host . /run/host/env  && apt-get update  && apt-get install ` +
		strings.Repeat("package ", 50) + `": while running runtime: exit status 100` + "\n"
	want := "RUN apt-get update && apt-get install package package packa…: while running runtime: exit status 100"
	should.Equal(t, shortBuildError(errors.New(long)).Error(), want)
	other := errors.New("server probably quit: unexpected EOF")
	should.Equal(t, shortBuildError(other).Error(), other.Error(), "an error of another kind is changed")
}

func TestOutputIsCutIntoHarmlessLines(t *testing.T) {
	for name, test := range map[string]struct {
		writes []string
		want   []string
	}{
		"a line in pieces":             {[]string{"ab", "c\nd", "\n"}, []string{"abc", "d"}},
		"progress drawn with returns":  {[]string{"10%\r20%\r\n"}, []string{"10%", "20%"}},
		"empty lines are left out":     {[]string{"\n \n\t\na\n"}, []string{"a"}},
		"escape sequences are defused": {[]string{"\x1b[31mred\x1b]0;title\a\x00\n"}, []string{"[31mred]0;title"}},
		"direction marks are removed":  {[]string{"a\u202eb\n"}, []string{"ab"}},
		"bytes that are not text":      {[]string{"a\xff\xfeb\n"}, []string{"a��b"}},
		"an unfinished line waits":     {[]string{"a\nb"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			w := &lines{emit: func(line string) { got = append(got, line) }}
			for _, text := range test.writes {
				n, err := w.Write([]byte(text))
				must.Hold(t, n == len(text) && err == nil, "%v %v", n, err)
			}
			should.Hold(t, reflect.DeepEqual(got, test.want), "got %q, want %q", got, test.want)
		})
	}
}

func TestALineWithoutAnEndDoesNotGrowForEver(t *testing.T) {
	shown := 0
	log := newLog(func(line string) {
		n := len([]rune(line))
		must.Hold(t, n <= maxLine, "a line of %d characters", n)
		shown++
	})
	for range 1000 {
		_, _ = log.Write([]byte(strings.Repeat("é", 1000)))
		must.Hold(t, len(log.pending) <= 16*maxLine+2000, "%d bytes are held", len(log.pending))
	}
	should.Hold(t, shown != 0, "nothing was shown")
}

func TestAnErrorShowsTheEndOfTheLogAndWhatToDo(t *testing.T) {
	log := newLog(func(string) {})
	for i := range 40 {
		_, _ = log.Write([]byte("line " + strconv.Itoa(i) + "\n"))
	}
	_, _ = log.Write([]byte("no newline at the end"))
	reason := errors.New("exit status 1")
	err := log.failure("build the Python image", reason, "Try again.")
	text := err.Error()
	if !strings.HasPrefix(text, "build the Python image: exit status 1\n  | line 26\n") ||
		!strings.HasSuffix(text, "\n  | line 39\n  | no newline at the end\nNext: Try again.") {
		t.Errorf("got %s", text)
	}
	should.Hold(t, len(err.Log) == maxTail && errors.Is(err, reason), "%d lines, %v", len(err.Log), err.Err)
	should.Contain(t, nextStep("Try again.", "Write error - write (28: No space left on device)"), "A disk is full", "of a full disk")
	should.Equal(t, nextStep("Try again.", err.Log...), "Try again.", "of another reason")
}
