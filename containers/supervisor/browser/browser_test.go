//go:build linux

package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
					say(`{"method":"Network.requestWillBeSent","sessionId":"S","params":{"requestId":"%d","type":"%s","request":{"url":"https://tiles.example/%d"}}}`, n, what, n)
					say(`{"method":"Network.loadingFailed","sessionId":"S","params":{"requestId":"%d","type":"%s"}}`, n, what)
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
	self, err := os.Executable()
	must.OK(t, err)
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
			if !errors.Is(err, want) || err == nil && string(drawn.Data) != picture {
				t.Errorf("%q, %v; want %v", drawn.Data, err, want)
			}
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
	if !b.Stop() || b.Stop() || b.pid() != 0 {
		t.Error("it was not stopped once")
	}
	for gone := false; !gone; { // soon
		_, err := os.Stat(profile)
		gone = errors.Is(err, os.ErrNotExist)
	}
}

func TestAnImageWithoutABrowserSaysSo(t *testing.T) {
	b := fake(t, "good")
	programs = []string{"no-such-browser"}
	if _, err := b.Draw(aPage); !errors.Is(err, ErrNone) || Exists() {
		t.Errorf("%v", err)
	}
}

func TestAPageThatWaitsForItsTurnCanBeGivenUp(t *testing.T) {
	b := fake(t, "good")
	b.turn <- struct{}{}
	dropped := make(chan struct{})
	close(dropped)
	should.Be(t, should.ErrOf(b.Draw(Page{Dropped: dropped})), ErrDropped)
}
