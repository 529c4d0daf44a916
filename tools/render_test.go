package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

func renderDeps(t *testing.T) *Deps {
	m := sandbox.NewManager(sandbox.Config{Limits: sandbox.Limits{MemoryBytes: 1 << 30}, VolumeBytes: 2 << 30, VolumeFiles: 1000, SpoolBytes: 1 << 20})
	t.Cleanup(func() { m.Close(t.Context()) })
	return &Deps{Manager: m}
}

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
		}, "ValueError: bad (failed in 2ms, exit code 1)\n[traceback]\nTraceback…\nValueError: bad\nthing", false},
		"raised under a long name of two lines": {sandbox.Result{
			Status: sandbox.Failed, ExitCode: 1,
			Error: &sandbox.RunError{Name: "X\ncompleted in 1ms\r\u2028" + strings.Repeat("x", 200), Message: "bad\rthing"},
		}, "X completed in 1ms  " + strings.Repeat("x", 80) + "…: bad thing (failed in 0s, exit code 1)", false},
		"process.exit":   {sandbox.Result{Language: sandbox.JavaScript, Status: sandbox.Failed, ExitCode: 3}, "process.exit (failed in 0s, exit code 3)", false},
		"session closed": {sandbox.Result{Status: sandbox.Cancelled, VariablesLost: true, Cause: "its session was closed"}, "cancelled after 0s: its session was closed; variables are gone", false},
		"a page": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.html", SizeBytes: 61}}},
			"completed in 0s\n[shown]\noutput/figure-1.html  61 B", false},
		"sys.exit": {sandbox.Result{Status: sandbox.Failed, ExitCode: 3}, "SystemExit (failed in 0s, exit code 3)", false},
		"cut": {sandbox.Result{Status: sandbox.Completed, Stdout: sandbox.Stream{
			Head: "first\n", Tail: "last\n", OmittedBytes: 5_000_000, OmittedLines: 12345, Path: ".runs/r.stdout.txt",
		}}, "completed in 0s; cut here, see /mnt/data/.runs/r.stdout.txt\nfirst\n… 12,345 lines (5.0 MB) left out; the whole text is in /mnt/data/.runs/r.stdout.txt …\nlast", false},
		"stopped by its files": {sandbox.Result{Status: sandbox.Failed, ExitCode: 1, Cause: "quota", Duration: ms, Error: &sandbox.RunError{Name: "QuotaExceeded", Message: "a program hides\nits files"}},
			"quota_exceeded: The run was stopped after 1ms by the limit of the session's files, 2.0 GiB in 1,000 files: a program hides its files; variables are kept.\nHint: Delete files that are not needed, with code or by closing the session.", true},
		"not begun": {sandbox.Result{Status: sandbox.Failed, ExitCode: 1, Cause: "full"},
			"quota_exceeded: Nothing was run, because the session's files take far more than the 2.0 GiB in 1,000 files that they may.\nHint: Save what is needed with read_artifact, then close the session.", true},
		"cut, and its file as well": {sandbox.Result{Status: sandbox.Completed, Stdout: sandbox.Stream{
			Head: "first\n", Tail: "last\n", Bytes: 1<<20 + 1, OmittedBytes: 1 << 20, OmittedLines: 12345, Path: ".runs/r.stdout.txt",
		}}, "completed in 0s; cut here, see /mnt/data/.runs/r.stdout.txt\nfirst\n… 12,345 lines (1.0 MB) left out; the first 1.0 MiB are in /mnt/data/.runs/r.stdout.txt …\nlast", false},
		"timed out":     {sandbox.Result{Status: sandbox.TimedOut, Duration: 60 * time.Second}, "timed out after 1m0s: the code was interrupted; variables are kept", true},
		"ignored":       {sandbox.Result{Status: sandbox.Cancelled, Duration: ms, VariablesLost: true}, "cancelled after 1ms: the code ignored the interrupt and its kernel was killed; variables are gone, files are kept", false},
		"memory":        {sandbox.Result{Status: sandbox.Killed, Cause: "memory"}, "killed after 0s: the code ran out of memory (limit 1.0 GiB); variables are gone, files are kept, and the next call starts a new kernel", true},
		"killed, fresh": {sandbox.Result{Status: sandbox.Killed, Cause: "exit 3", Fresh: true}, "killed after 0s: the kernel died (exit 3); only the fresh interpreter is gone, the kernel's variables and the files are kept", true},
		"too large": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 20_000_000}}},
			"completed in 0s\n[shown]\noutput/figure-1.png  20 MB (not attached: too large; make it smaller to see it)", false},
		"of an earlier run": {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 8_200}}},
			"completed in 0s\n[shown]\noutput/figure-1.png  8.2 kB (not attached: its data are not held here; read_artifact with this path shows it)", false},
		"running":              {sandbox.Result{Status: sandbox.Running, RunID: "run-1", Duration: 45 * time.Second}, "still running after 45s as run_id run-1; call wait_for_run to wait for it or to cancel it", false},
		"running, with output": {sandbox.Result{Status: sandbox.Running, RunID: "run-1", Stdout: sandbox.Stream{Head: "a\n"}}, "still running after 0s as run_id run-1; call wait_for_run to wait for it or to cancel it\nOutput so far:\na", false},
		"html only":            {sandbox.Result{Status: sandbox.Completed, Displays: []sandbox.Display{{Data: map[string][]byte{"text/html": []byte("<b>x</b>")}}}, DisplaysTotal: 2}, "completed in 0s\n[shown]\n<b>x</b>\n… and 1 more, not reported", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := renderDeps(t).renderRun(t.Context(), &test.result)
			if got := a.content[0].(mcp.TextContent).Text; got != test.want || a.isError != test.isError {
				t.Errorf("got %q, isError %v\nwant %q", got, a.isError, test.want)
			}
		})
	}
}

func TestAShortenedErrorTellsNoPartOfASecret(t *testing.T) {
	m := sandbox.NewManager(sandbox.Config{OutputBytes: 30_000})
	defer m.Close(t.Context())
	d := &Deps{Manager: m, Secrets: NewMasker(map[string]string{"KEY": "hunter22-hunter23-xyz"})}
	for at := 270; at <= 300; at++ {
		message := strings.Repeat("x", at) + "hunter22-hunter23-xyz"
		text := d.statusLine(&sandbox.Result{Status: sandbox.Failed, Error: &sandbox.RunError{Name: "E", Message: message}})
		if strings.Contains(text, "hun") {
			t.Errorf("at %d: %s", at, text)
		}
	}
	value := strings.Repeat("x", 29_980) + "hunter22-hunter2…"
	a := d.renderRun(t.Context(), &sandbox.Result{Status: sandbox.Completed, Value: &value})
	if text := a.content[0].(mcp.TextContent).Text; strings.Contains(text, "hunter") {
		t.Errorf("the result ends with %q", text[len(text)-40:])
	}
}

func noise(width, height int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	source := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = uint8(source.Uint32())
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}

func TestImagesAreFitted(t *testing.T) {
	small := noise(50, 40)
	for name, test := range map[string]struct {
		mime string
		data []byte
		same bool
		err  error
	}{
		"small stays":          {"image/png", small, true, nil},
		"many bytes shrink":    {"image/png", noise(1500, 1500), false, nil},
		"many pixels shrink":   {"image/png", plain(4000, 1000), false, nil},
		"a bomb is refused":    {"image/png", plain(20000, 20000), false, errTooManyPixels},
		"not an image":         {"image/png", []byte("<script>"), false, errBadImage},
		"another type than it": {"image/gif", small, false, errBadImage},
		"half a small image":   {"image/png", small[:60], false, errBadImage},
		"deep colours":         {"image/png", deep(3000, 3000), false, errTooManyPixels},
		"a scan too many":      {"image/jpeg", scanned(maxScans+1, 0), false, errTooManyScans},
		"scans enough":         {"image/jpeg", scanned(maxScans, 2*maxScans), true, nil},
		"half an image":        {"image/png", noise(1600, 100)[:5000], false, errBadImage},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Deps{}).fitImage(t.Context(), test.mime, test.data)
			if err != test.err { //nolint:errorlint // these are returned as they are
				t.Fatalf("got error %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			config, format, err := image.DecodeConfig(bytes.NewReader(got.data))
			if err != nil || "image/"+format != got.mime || config.Width > maxImageSide || config.Height > maxImageSide || len(got.data) > maxImageBytes {
				t.Errorf("%d bytes of %s, %dx%d, %v", len(got.data), got.mime, config.Width, config.Height, err)
			}
			if test.same != bytes.Equal(got.data, test.data) {
				t.Errorf("unchanged: %v, want %v", !test.same, test.same)
			}
		})
	}
}

func plain(width, height int) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return b.Bytes()
}

func deep(width, height int) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewNRGBA64(image.Rect(0, 0, width, height)))
	return b.Bytes()
}

// scanned is a JPEG whose only scan comes n times. In a comment and behind its end it has other bytes that
// would begin a scan elsewhere.
func scanned(n, others int) []byte {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30)), nil)
	at, end := bytes.Index(b.Bytes(), []byte{0xff, 0xda}), b.Len()-2
	start, scan := b.Bytes()[2:at], b.Bytes()[at:end]
	other := bytes.Repeat([]byte{0xff, 0xda}, others)
	comment := binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(2+len(other)))
	return slices.Concat([]byte{0xff, 0xd8}, comment, other, start, bytes.Repeat(scan, n), []byte{0xff, 0xd9}, other)
}

func TestACancelledCallDoesNotWaitForAnotherOnesImage(t *testing.T) {
	decoding <- struct{}{}
	defer func() { <-decoding }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Deps{}).fitImage(ctx, "image/png", noise(5, 5)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTheTextsOfDisplaysHaveOneBound(t *testing.T) {
	m := sandbox.NewManager(sandbox.Config{OutputBytes: 1000})
	defer m.Close(t.Context())
	shown := sandbox.Result{Displays: []sandbox.Display{
		{Data: map[string][]byte{"text/html": []byte("first " + strings.Repeat("é", 250))}},
		{Data: map[string][]byte{"text/plain": []byte("second " + strings.Repeat("é", 1000))}},
		{Data: map[string][]byte{"text/plain": []byte("third " + strings.Repeat("x", 994))}},
		{Path: "output/figure-1.html", SizeBytes: 61, Alt: "A title"},
	}, DisplaysTotal: 4}
	_, text := (&Deps{Manager: m}).renderDisplays(t.Context(), &shown)
	want := "first " + strings.Repeat("é", 250) + "\nsecond " + strings.Repeat("é", 243) +
		"\n… 1.5 kB left out …\n… 1.0 kB left out …\noutput/figure-1.html  61 B  … 7 B left out …\n"
	if text != want {
		t.Errorf("got %q\nwant %q", text, want)
	}
}

func TestAnAnswerHasAtMostFourImages(t *testing.T) {
	var displays []sandbox.Display
	for range 6 {
		displays = append(displays, sandbox.Display{Data: map[string][]byte{"image/png": noise(5, 5)}, Path: "output/figure-1.png", Alt: "A title"})
	}
	images, text := renderDeps(t).renderDisplays(t.Context(), &sandbox.Result{Displays: displays, DisplaysTotal: 6})
	if len(images) != maxImages || strings.Count(text, "not attached") != 2 || strings.Count(text, "A title") != 6 {
		t.Errorf("%d images, %q", len(images), text)
	}
}
