package render

import (
	"bytes"
	"image"
	"image/png"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/hint"
)

func newRenderer(t *testing.T) *Renderer {
	config := sandbox.DefaultConfig()
	config.Limits, config.VolumeFiles, config.SpoolBytes, config.OutputBytes = engine.Limits{MemoryBytes: 1 << 30}, 1000, 1<<20, 0
	m := sandbox.NewManager(config)
	t.Cleanup(func() { m.Close(t.Context()) })
	return &Renderer{Manager: m, Logger: slog.New(slog.DiscardHandler)}
}

// dot is a small image.
var dot = func() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 5, 4)))
	return b.Bytes()
}()

func value(s string) *string { return &s }

func TestARunReadsLikeATerminal(t *testing.T) {
	ms := time.Millisecond
	for name, test := range map[string]struct {
		result  sandbox.Result
		want    string
		isError bool
	}{
		"silent": {sandbox.Result{Status: sandbox.Completed, Duration: 3 * ms}, "completed in 3ms", false},
		"everything": {sandbox.Result{
			Status: sandbox.Completed, Duration: 12 * ms, Value: value("42"),
			Stdout: sandbox.Stream{Head: "hello\n"}, Stderr: sandbox.Stream{Head: "careful\n"},
			Artifacts: []sandbox.Artifact{{Path: "output/a.csv", SizeBytes: 1234}}, ArtifactsTotal: 3, Notes: []string{"Something."},
		}, "completed in 12ms\nNote: Something.\nhello\n[stderr]\ncareful\n[result]\n42\n[files]\noutput/a.csv  1.2 kB  text/csv\n… and 2 more", false},
		"raised": {sandbox.Result{
			Status: sandbox.Failed, ExitCode: 1, Duration: 2 * ms,
			Error: &sandbox.RunError{Name: "ValueError", Message: "bad\nthing", Traceback: "Traceback…\nValueError: bad\nthing"},
		}, "ValueError: bad (failed in 2ms)\n[traceback]\nTraceback…\nthing", false},
		"raised under a long name of two lines": {sandbox.Result{
			Status: sandbox.Failed, ExitCode: 1,
			Error: &sandbox.RunError{Name: "X\ncompleted in 1ms\r\u2028" + strings.Repeat("x", 200), Message: "bad\rthing"},
		}, "X completed in 1ms  " + strings.Repeat("x", 80) + "…: bad thing (failed in 0s)", false},
		"process.exit":   {sandbox.Result{Language: sandbox.JavaScript, Status: sandbox.Failed, ExitCode: 3}, "process.exit (failed in 0s, exit code 3)", false},
		"session closed": {sandbox.Result{Status: sandbox.Cancelled, VariablesLost: true, Cause: "its session was closed"}, "cancelled after 0s: its session was closed; variables are gone", false},
		"a page": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.html", SizeBytes: 61}}},
			"completed in 0s\n[shown]\noutput/figure-1.html  61 B", false},
		"sys.exit": {sandbox.Result{Status: sandbox.Failed, ExitCode: 3}, "SystemExit (failed in 0s, exit code 3)", false},
		"cut": {sandbox.Result{Status: sandbox.Completed, Stdout: sandbox.Stream{
			Head: "first\n", Tail: "last\n", OmittedBytes: 5_000_000, OmittedLines: 12345, Path: ".runs/r.stdout.txt",
		}}, "completed in 0s; cut here, see /mnt/data/.runs/r.stdout.txt\nfirst\n… 12,345 lines (5.0 MB) left out; the whole text is in /mnt/data/.runs/r.stdout.txt …\nlast", false},
		"with pictures": {sandbox.Result{Status: sandbox.Completed, Duration: 2 * time.Second, Drawing: 1540 * ms, Value: value("1")}, "completed in 2s + 1.5 s drawing\n[result]\n1", false},
		"cut by its kernel": {sandbox.Result{Status: sandbox.Failed, ExitCode: 1, Value: value("one\ntw…"), ValueLeft: &sandbox.Left{Bytes: 5000, Lines: 7, More: true}, Error: &sandbox.RunError{
			Name: "E", Message: "m", Traceback: "first\n... 4500 bytes left out ...\nlast",
		}, ErrorLeft: &sandbox.Left{Bytes: 4500, Lines: 3}}, "E: m (failed in 0s)\n[traceback]\nfirst\n… 3 lines (4.5 kB) left out …\nlast\n[result]\none\ntw\n… at least 7 lines (5.0 kB) left out …", false},
		"stopped by its files": {sandbox.Result{Status: sandbox.Failed, ExitCode: 1, Cause: "quota", Duration: ms, Error: &sandbox.RunError{Name: "QuotaExceeded", Message: "a program hides\nits files"}},
			"quota_exceeded: The run was stopped after 1ms by the limit of the session's files, 2.0 GiB in 1,000 files: a program hides its files; variables are kept.\nHint: Delete files that are not needed, with code or by closing the session.", true},
		"not begun": {sandbox.Result{Status: sandbox.Failed, ExitCode: 1, Cause: "full"},
			"quota_exceeded: Nothing was run, because the session's files take far more than the 2.0 GiB in 1,000 files that they may.\nHint: Save what is needed with read_artifact, then close the session.", true},
		"cut, and its file as well": {sandbox.Result{Status: sandbox.Completed, Stdout: sandbox.Stream{
			Head: "first\n", Tail: "last\n", Bytes: 1<<20 + 1, OmittedBytes: 1 << 20, OmittedLines: 12345, Path: ".runs/r.stdout.txt",
		}}, "completed in 0s; cut here, see /mnt/data/.runs/r.stdout.txt\nfirst\n… 12,345 lines (1.0 MB) left out; the first 1.0 MiB are in /mnt/data/.runs/r.stdout.txt …\nlast", false},
		"removed": {sandbox.Result{
			Status: sandbox.Completed, Artifacts: []sandbox.Artifact{{Path: "a.csv", SizeBytes: 3}}, ArtifactsTotal: 1,
			Removed: []string{"b", "c", "d", "e", "f", "g"}, RemovedTotal: 9,
		}, "completed in 0s\n[files]\na.csv  3 B  text/csv\nremoved: b, c, d, e, f, 4 more", false},
		"removed alone":           {sandbox.Result{Status: sandbox.Completed, Removed: []string{"x.parquet"}, RemovedTotal: 1}, "completed in 0s\n[files]\nremoved: x.parquet", false},
		"timed out":               {sandbox.Result{Status: sandbox.TimedOut, Duration: 60 * time.Second}, "timed out after 1m0s: the code was interrupted; variables are kept", true},
		"ignored":                 {sandbox.Result{Status: sandbox.Cancelled, Duration: ms, VariablesLost: true}, "cancelled after 1ms: the code ignored the interrupt and its kernel was killed; variables are gone, files are kept", false},
		"memory":                  {sandbox.Result{Status: sandbox.Killed, Cause: "memory"}, "killed after 0s: the code ran out of memory (limit 1.0 GiB); variables are gone, files are kept, and the next call starts a new kernel", true},
		"replaced":                {sandbox.Result{Status: sandbox.Failed, ExitCode: 5, Language: sandbox.Bash, VariablesLost: true, Cause: "exit 5"}, "bash (failed in 0s, exit code 5); the shell was replaced (exec) and has ended: the next call has a new one, without its variables, folder and jobs", false},
		"replaced, and completed": {sandbox.Result{Status: sandbox.Completed, Language: sandbox.Bash, VariablesLost: true, Cause: "exit 0"}, "completed in 0s; the shell was replaced (exec) and has ended: the next call has a new one, without its variables, folder and jobs", false},
		"killed, fresh":           {sandbox.Result{Status: sandbox.Killed, Cause: "exit 3", Fresh: true}, "killed after 0s: the kernel died (exit 3); only the fresh interpreter is gone, the kernel's variables and the files are kept", true},
		"too large": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 20_000_000}}},
			"completed in 0s\n[shown]\noutput/figure-1.png  20 MB (not attached: its data are not held here; read_artifact with this path shows it)", false},
		"of an earlier run": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 8_200}}},
			"completed in 0s\n[shown]\noutput/figure-1.png  8.2 kB (not attached: its data are not held here; read_artifact with this path shows it)", false},
		"running":              {sandbox.Result{Status: sandbox.Running, RunID: "run-1", Duration: 45 * time.Second}, "still running after 45s as run_id run-1; call wait_for_run to wait for it or to cancel it", false},
		"running, with output": {sandbox.Result{Status: sandbox.Running, RunID: "run-1", Stdout: sandbox.Stream{Head: "a\n"}}, "still running after 0s as run_id run-1; call wait_for_run to wait for it or to cancel it\nOutput so far:\na", false},
		"html only":            {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Data: map[string][]byte{"text/html": []byte("<b>x</b>")}}}, DisplaysTotal: 2}, "completed in 0s\n[shown]\n<b>x</b>\n… and 1 more, not reported", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRenderer(t).Run(t.Context(), &test.result)
			got := a.Content[0].(mcp.TextContent).Text
			should.Hold(t, got == test.want && a.IsError == test.isError, "got %q, isError %v\nwant %q", got, a.IsError, test.want)
		})
	}
}

// An answer that is cut ends with its hint, and one that begins with a hint has no other.
func TestAHintEndsTheAnswer(t *testing.T) {
	config := sandbox.DefaultConfig()
	config.OutputBytes = 2000
	m := sandbox.NewManager(config)
	defer m.Close(t.Context())
	r := &Renderer{Manager: m, Can: hint.Capabilities{Packages: hint.On}, Logger: slog.New(slog.DiscardHandler)}
	run := func(e *sandbox.RunError) string {
		res := &sandbox.Result{
			Status: sandbox.Failed, Language: sandbox.Python, Error: e, Artifacts: []sandbox.Artifact{{Path: "output/a.csv"}}, ArtifactsTotal: 1,
			Stdout: sandbox.Stream{Head: strings.Repeat("x\n", 3000)},
		}
		return r.Run(t.Context(), res).Content[0].(mcp.TextContent).Text
	}
	text := run(&sandbox.RunError{Name: "ModuleNotFoundError", Message: "No module named 'cv2'", Traceback: strings.Repeat("a line\n", 1000)})
	want := "\nHint: opencv-python-headless is not installed: `%pip install opencv-python-headless` installs it, and the same kernel can then use it."
	if !strings.HasSuffix(text, want) || len(text) > 2000 || len(text) < 1500 {
		t.Errorf("%d bytes, which end in %q", len(text), text[max(0, len(text)-200):])
	}
	text = run(&sandbox.RunError{Name: "OSError", Message: "[Errno 28] No space left on device"})
	should.Hold(t, strings.Count(text, "Hint: ") == 1 && strings.Contains(text, "\nHint: quota_exceeded"), "got %.300q", text)
}

func TestTheTextsOfDisplaysHaveOneBound(t *testing.T) {
	config := sandbox.DefaultConfig()
	config.OutputBytes = 1000
	m := sandbox.NewManager(config)
	defer m.Close(t.Context())
	shown := sandbox.Result{Displays: []sandbox.Display{
		{Data: map[string][]byte{"text/html": []byte("first " + strings.Repeat("é", 250))}},
		{Data: map[string][]byte{"text/plain": []byte("second " + strings.Repeat("é", 1000))}},
		{Data: map[string][]byte{"text/plain": []byte("third " + strings.Repeat("x", 994))}},
		{Path: "output/figure-1.html", SizeBytes: 61, Alt: "A title"},
	}, DisplaysTotal: 4}
	_, text := (&Renderer{Manager: m}).renderDisplays(t.Context(), &shown)
	want := "first " + strings.Repeat("é", 250) + "\nsecond " + strings.Repeat("é", 243) +
		"\n… 1.5 kB left out …\n… 1.0 kB left out …\noutput/figure-1.html  61 B  … 7 B left out …\n"
	should.Equal(t, text, want)
}

func TestAnAnswerHasAtMostFourImages(t *testing.T) {
	var displays []sandbox.Display
	for range 6 {
		displays = append(displays, sandbox.Display{Data: map[string][]byte{"image/png": dot}, Path: "output/figure-1.png", Alt: "A title"})
	}
	images, text := newRenderer(t).renderDisplays(t.Context(), &sandbox.Result{Displays: displays, DisplaysTotal: 6})
	should.Hold(t, len(images) == maxImages && strings.Count(text, "not attached") == 2 && strings.Count(text, "A title") == 6,
		"%d images, %q", len(images), text)
}
