package render

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	"image/png"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// clientBytes is how long the answer is for a client.
func clientBytes(r *Renderer, a *Answer) int {
	n := jsonBytes(a.Content) + jsonBytes(map[string]any{"code-sandbox-mcp/result": a.Meta()})
	if r.StructuredContent {
		n += jsonBytes(a.Fields)
	}
	return n
}

func TestNoAnswerOfARunIsOverAMegabyte(t *testing.T) {
	long := func(part string) string { return strings.Repeat(part, 200_000/len(part)) }
	stream := func(part string) sandbox.Stream { return sandbox.Stream{Head: long(part)} }
	cut := func(part string) sandbox.Stream {
		return sandbox.Stream{Head: long(part), Tail: long(part), Bytes: 1 << 30, OmittedBytes: 1 << 29, OmittedLines: 1 << 20, Path: ".runs/r.stdout.txt"}
	}
	files := func(path string) []sandbox.Artifact {
		return slices.Repeat([]sandbox.Artifact{{Path: path + strings.Repeat("f", 3000)}}, 100)
	}
	for name, res := range map[string]*sandbox.Result{
		"plain":              {Status: sandbox.Completed, Stdout: stream("abc"), Stderr: stream("def"), Value: value(long("ghi"))},
		"quotes":             {Status: sandbox.Completed, Stdout: stream(`"`), Value: value(long(`\`))},
		"pictures":           {Status: sandbox.Completed, Stdout: stream("␀"), Stderr: stream("é")},
		"lines":              {Status: sandbox.Completed, Stdout: cut("line\n"), Stderr: cut("\n")},
		"an error":           {Status: sandbox.Failed, Error: &sandbox.RunError{Name: "E", Message: long("m"), Traceback: long("t")}, Stdout: cut("␁")},
		"many long names":    {Status: sandbox.Completed, Stdout: stream("abc"), Artifacts: files(strings.Repeat("d/", 1000))},
		"names of quotes":    {Status: sandbox.Completed, Stdout: stream("abc"), Artifacts: files(strings.Repeat(`"`, 1000))},
		"little, and images": {Status: sandbox.Completed, Stdout: sandbox.Stream{Head: "x"}, Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 1}}},
	} {
		for _, structured := range []bool{false, true} {
			r := newRenderer(t)
			r.StructuredContent = structured
			before := *res
			a := r.Run(t.Context(), res)
			if n := clientBytes(r, a); n > 1_000_000 {
				t.Errorf("%s, structured %v: %d bytes", name, structured, n)
			} else if n < 200_000 && len(res.Stdout.Head) > 1 {
				t.Errorf("%s, structured %v: only %d bytes are left", name, structured, n)
			}
			should.Hold(t, res.Stdout == before.Stdout && res.Value == before.Value, "%s: the result itself was changed", name)
		}
	}
}

func TestWhatIsCutToFitIsCounted(t *testing.T) {
	whole := sandbox.Stream{Head: strings.Repeat("zeile ü\n", 1000)}
	s := shortenedStream(whole, 100)
	if got := int64(len(s.Head)+len(s.Tail)) + s.OmittedBytes; got != int64(len(whole.Head)) || len(s.Head)+len(s.Tail) > 100 {
		t.Errorf("%d bytes are kept of %d, and %d are said to be left out", len(s.Head)+len(s.Tail), len(whole.Head), s.OmittedBytes)
	}
	should.Equal(t, int64(strings.Count(s.Head+s.Tail, "\n"))+s.OmittedLines, 1000, "lines of 1000")
	should.Hold(t, strings.ToValidUTF8(s.Head+s.Tail, "") == s.Head+s.Tail, "half a character is left: %q", s.Head+s.Tail)
	again := shortenedStream(s, 50)
	got := int64(len(again.Head)+len(again.Tail)) + again.OmittedBytes
	should.Hold(t, got == int64(len(whole.Head)), "cut again, it has %d bytes of %d", got, len(whole.Head))
}

// named is a client that says what it is called.
type named struct {
	server.SessionWithClientInfo
	name string
}

func (n named) GetClientInfo() mcp.Implementation { return mcp.Implementation{Name: n.name} }

func from(t *testing.T, name string) context.Context {
	return server.NewMCPServer("t", "1").WithContext(t.Context(), named{name: name})
}

func TestImagesComeWhereTheyAreWanted(t *testing.T) {
	res := &sandbox.Result{
		Status:   sandbox.Completed,
		Displays: []sandbox.Display{{Path: "output/figure-1.png", SizeBytes: 10, Data: map[string][]byte{"image/png": dot}}, {Data: map[string][]byte{"text/plain": []byte("shown")}}}, DisplaysTotal: 2,
		Artifacts: []sandbox.Artifact{{Path: "output/figure-1.png", SizeBytes: 10}},
	}
	for _, test := range []struct {
		setting, client string
		images          int
		want            string
	}{
		{"", "", 1, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "continue-client", 0, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "mcp", 1, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "google-adk", 0, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "ai-sdk-mcp-client", 0, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "@n8n/n8n-nodes-langchain.mcpClientTool", 0, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"", "@n8n/n8n-nodes-langchain.mcpClient", 1, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"on", "continue-client", 1, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"path", "claude-code", 0, "[shown]\noutput/figure-1.png  10 B\nshown"},
		{"off", "claude-code", 0, "[shown]\nshown\n[files]\noutput/figure-1.png  10 B  image/png"},
	} {
		r := newRenderer(t)
		r.Images, r.Logger = test.setting, slog.New(slog.DiscardHandler)
		ctx := from(t, test.client)
		a := r.Finish(ctx, r.Run(ctx, res))
		if text := a.Content[0].(mcp.TextContent).Text; len(a.Content)-1 != test.images || !strings.HasSuffix(text, test.want) {
			t.Errorf("%+v: %d images, %s", test, len(a.Content)-1, text)
		}
		file := &Answer{Content: []mcp.Content{mcp.NewTextContent("[a.png]"), mcp.NewImageContent("aaaa", "image/png")}}
		last, isNote := r.Finish(ctx, file).Content[1].(mcp.TextContent)
		should.Hold(t, isNote == (test.images == 0) && (!isNote || strings.HasPrefix(last.Text, "Note: the image is left out")),
			"%+v: of a file that is read: %+v", test, file.Content)
	}
}

// noise is a picture of so many pixels each way, of which PNG saves nothing.
func noise(side int) []byte {
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	source := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = uint8(source.Uint32()) | 0xff*uint8(i%4/3)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}

func TestAnAnswerIsNoLongerThanAnEventMayBe(t *testing.T) {
	event := rpc.WithCall(t.Context(), &rpc.Call{Begin: func() {}})
	img := func(data []byte) mcp.Content {
		return mcp.NewImageContent(base64.StdEncoding.EncodeToString(data), "image/png")
	}
	medium, large := img(noise(300)), img(noise(420))
	said := strings.Repeat(`"`, 200_000)
	for name, test := range map[string]struct {
		parts []mcp.Content
		whole int // images at the beginning that stay as they are
		all   int
	}{
		"little":           {[]mcp.Content{img(dot), img(dot)}, 2, 2},
		"the last smaller": {[]mcp.Content{medium, medium}, 1, 2},
		"too many":         {[]mcp.Content{medium, large, large, large}, 1, 2},
		"a large one":      {[]mcp.Content{large}, 0, 1},
		"after much text":  {[]mcp.Content{mcp.NewTextContent(said), medium}, 0, 1},
		"a sound":          {[]mcp.Content{mcp.NewAudioContent(strings.Repeat("aaaa", 200_000), "audio/wav"), img(dot)}, 0, 1},
	} {
		a := newRenderer(t).Finish(event, &Answer{Content: append([]mcp.Content{mcp.NewTextContent("first")}, test.parts...)})
		n := jsonBytes(a.Content)
		should.Hold(t, n <= streamBytes+1000 && a.Content[0].(mcp.TextContent).Text == "first", "%s: %d bytes", name, n)
		images := slices.DeleteFunc(slices.Clone(a.Content), func(c mcp.Content) bool { return encoded(c) == "" })
		given := slices.DeleteFunc(slices.Clone(test.parts), func(c mcp.Content) bool { return encoded(c) == "" })
		whole := 0
		for whole < len(images) && images[whole] == given[whole] {
			whole++
		}
		if last, _ := a.Content[len(a.Content)-1].(mcp.TextContent); len(images) != test.all || whole != test.whole || strings.HasPrefix(last.Text, "Note: ") != (len(given) > test.all) {
			t.Errorf("%s: %d images, of which %d are whole, then %q", name, len(images), whole, last.Text)
		}
		should.Equal(t, len(newRenderer(t).Finish(t.Context(), &Answer{Content: test.parts}).Content), len(test.parts), "%s: an answer that is no event was cut", name)
	}
}

func TestWhatMayBecomeTextHasAThirdOfItsBytes(t *testing.T) {
	data := noise(400)
	for client, most := range map[string]int{"mcp": len(data) / 3, "mcp-use": len(data)} {
		got, err := newRenderer(t).FitImage(from(t, client), "image/png", data)
		should.Hold(t, err == nil && len(got.Data) <= most && (client == "mcp" || bytes.Equal(got.Data, data)),
			"%d bytes of %d for %s: %v", len(got.Data), len(data), client, err)
	}
}

func TestAModelReadsTheWordsOfAnErrorOnce(t *testing.T) {
	f := fault.New(fault.NotFound, "Look there.", "No such file.").With("limit", 3)
	for client, words := range map[string]bool{"google-adk": false, "cline": false, "mcp": true, "": true} {
		fields := FaultFields(from(t, client), f)
		_, has := fields["message"]
		should.Hold(t, has == words && fields["code"] == fault.NotFound && fields["limit"] == 3, "%q has %v", client, fields)
	}
}

func TestAnAnswerFitsTheClientThatAsks(t *testing.T) {
	long := func(part string) string { return "begin " + strings.Repeat(part, 15_900/len(part)) + " end" }
	for name, res := range map[string]*sandbox.Result{
		"stdout":    {Status: sandbox.Completed, Stdout: sandbox.Stream{Head: long("abc ")}},
		"lines":     {Status: sandbox.Completed, Stdout: sandbox.Stream{Head: long("\n")}},
		"quotes":    {Status: sandbox.Completed, Stdout: sandbox.Stream{Head: long(`"`)}},
		"all texts": {Status: sandbox.Failed, Error: &sandbox.RunError{Name: "E", Message: "bad", Traceback: long("t\n")}, Stdout: sandbox.Stream{Head: long("o")}, Stderr: sandbox.Stream{Head: long("e")}, Value: value(long("v"))},
		"files": {Status: sandbox.Completed, Stdout: sandbox.Stream{Head: long("o")},
			Artifacts: slices.Repeat([]sandbox.Artifact{{Path: strings.Repeat("f", 4000)}}, 100)},
	} {
		for client, most := range map[string]int{
			"": 0, "somebody": 0, "claude-code": 0, "@cline/core": 8_000, "codex-mcp-client": 12_000, "github-copilot-developer": 20_500, "qwen-cli-mcp-client-sandbox": 27_000,
		} {
			m := sandbox.NewManager(sandbox.DefaultConfig())
			defer m.Close(t.Context())
			r := &Renderer{Manager: m, Logger: slog.New(slog.DiscardHandler)}
			ctx := from(t, client)
			a := r.Fit(ctx, 20_000, func(each int) *Answer { return r.renderTexts(res, partsOf(res), "", "", each) })
			text := a.Content[0].(mcp.TextContent).Text
			if n := clientBytes(r, a); len(text) > 16_000 || most > 0 && n > most {
				t.Errorf("%s for %q: %d bytes of text, %d as JSON", name, client, len(text), n)
			} else if len(text) < 3_000 {
				t.Errorf("%s for %q: only %d bytes are left", name, client, len(text))
			}
			should.Hold(t, strings.Count(text, "begin ") == strings.Count(text, " end") && strings.Contains(text, "begin "),
				"%s for %q: an end of a text is missing:\n%.300s", name, client, text)
		}
	}
}
