package tools

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

func TestALongArgumentIsNotDecodedBeforeItIsAskedFor(t *testing.T) {
	text := strings.Repeat("line\n", longFrom)
	raw, _ := json.Marshal(map[string]any{"filename": "x", "text": text, "overwrite": true})
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: raw}})
	given := readContent(p)
	name, overwrite := p.required("filename"), p.flag("overwrite")
	if err := p.check(); err != nil || name != "x" || !overwrite {
		t.Fatalf("got %q, %v, %v", name, overwrite, err)
	}
	if _, lazy := given.text.(content.LongText); !lazy {
		t.Errorf("the text is a %T", given.text)
	}
	if got, err := io.ReadAll(given.text.Reader()); err != nil || string(got) != text {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestContentIsGivenInOneWay(t *testing.T) {
	for name, test := range map[string]struct {
		arguments map[string]any
		words     string
	}{
		"none":     {map[string]any{}, "this call has none"},
		"only nil": {map[string]any{"text": nil}, "this call has none"},
		"two":      {map[string]any{"text": "x", "url": "https://x"}, "this call has text, url"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.arguments}})
			given := readContent(p)
			must.Code(t, given.one(), fault.InvalidArgument, test.words)
		})
	}
}

func TestFetchingCanBeSwitchedOff(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{url: "https://example.com", given: []string{"url"}})
	must.Code(t, err, fault.DownloadFailed, "fetches no addresses")
	definition := d.uploadFile().definition
	if _, offered := definition.InputSchema.Properties["url"]; offered || *definition.Annotations.OpenWorldHint {
		t.Errorf("offered all the same: %+v", definition)
	}
}

func TestHostFilesNeedAnAllowedFolder(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{hostPath: "/etc/passwd", given: []string{"host_path"}})
	must.Code(t, err, fault.InvalidPath, "No folder of the host is allowed")
}

func TestHostFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	dirs, err := hostdir.New([]string{dir})
	must.OK(t, err)
	out, err := dirs.Create("twelve.txt", "", false)
	must.OK(t, err)
	_, _ = io.WriteString(out, "twelve bytes")
	must.OK(t, out.Commit())
	given := uploadContent{hostPath: "twelve.txt", given: []string{"host_path"}}
	_, err = (&Deps{DownloadBytes: 11, HostDirs: dirs}).open(t.Context(), given)
	must.Code(t, err, fault.UploadTooLarge, "more than 11 B")
	from, err := (&Deps{DownloadBytes: 12, HostDirs: dirs}).open(t.Context(), given)
	must.OK(t, err)
	defer from.Close()
	if from.name != "twelve.txt" || from.size != 12 {
		t.Errorf("got %+v", from)
	}
}
