package tools

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

func TestGlobsChooseFiles(t *testing.T) {
	files := []string{"a.csv", "output/b.csv", "output/deep/c.csv", "output/plot.png", "output/logo.svg", "input/in.csv", "input/more/in.txt", "input.txt"}
	for pattern, want := range map[string]string{
		"":                       "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"*.csv":                  "a.csv output/b.csv output/deep/c.csv",
		"output/*.csv":           "output/b.csv",
		"output/**":              "output/b.csv output/deep/c.csv output/plot.png output/logo.svg",
		"output/":                "output/b.csv output/deep/c.csv output/plot.png output/logo.svg",
		"**":                     "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"**/c.csv":               "output/deep/c.csv",
		"*.{png,svg}":            "output/plot.png output/logo.svg",
		"[ab].csv":               "a.csv output/b.csv",
		"/mnt/data/output/*.png": "output/plot.png",
		"/mnt/data/":             "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"input/**":               "input/in.csv input/more/in.txt",
		"input/*.csv":            "input/in.csv",
		"in.*":                   "input/in.csv input/more/in.txt", // nothing else matches
		"{input,output}/*.csv":   "output/b.csv",
		"nothing":                "",
	} {
		g, err := newGlob(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		list := newListing(g)
		for i, file := range files {
			_ = list.visit(sandbox.Entry{Kind: 'f', File: sandbox.File{Path: file, Modified: time.Unix(int64(-i), 0)}})
		}
		var got []string
		for _, file := range list.found().sorted() {
			got = append(got, file.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", pattern, got, want)
		}
	}
}

func TestGlobsThatAreRefused(t *testing.T) {
	for _, pattern := range []string{"[", "{a", "/etc/*", strings.Repeat("x", 301), strings.Repeat("**/", 9) + "x", strings.Repeat("{a,b}", 9)} {
		_, err := newGlob(pattern)
		must.Code(t, err, fault.InvalidArgument, "The glob")
	}
}

func listText(a *render.Answer) string { return a.Content[0].(mcp.TextContent).Text }

func TestTheNewestFilesAreListed(t *testing.T) {
	const files = 10_000
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := &newest{most: listedArtifacts}
	for _, i := range rand.Perm(files) {
		found.add(sandbox.File{Path: fmt.Sprintf("output/%05d.csv", i), SizeBytes: 1000, Modified: start.Add(time.Duration(i/2) * time.Second)})
	}
	if len(found.files) > 2*listedArtifacts {
		t.Errorf("%d files are held", len(found.files))
	}
	a := renderList(nil, "", found, found.sorted(), sandbox.WalkEnd{Complete: true})
	fields := a.Fields.(listFields)
	lines := strings.Split(listText(a), "\n")
	if len(lines) != listedArtifacts+2 || fields.Total != files || len(fields.Artifacts) != listedArtifacts {
		t.Errorf("%d lines, %d of %d files", len(lines), len(fields.Artifacts), fields.Total)
	}
	// Equally new: by name.
	for i, want := range map[int]string{
		0:                   "10,000 files, 10 MB, newest first (times in UTC)",
		1:                   "output/09998.csv  1.0 kB  text/csv  2026-01-01 01:23:19",
		2:                   "output/09999.csv  1.0 kB  text/csv  2026-01-01 01:23:19",
		3:                   "output/09996.csv  1.0 kB  text/csv  2026-01-01 01:23:18",
		listedArtifacts + 1: "… and 9,800 older ones; narrow the list with glob, such as output/*.csv",
	} {
		should.Equal(t, lines[i], want, "line %d", i)
	}
}

func TestAListStaysSmall(t *testing.T) {
	found := &newest{most: listedArtifacts}
	for i := range listedArtifacts {
		found.add(sandbox.File{Path: fmt.Sprintf("%d/%s", i, strings.Repeat("x", 1000))})
	}
	m := sandbox.NewManager(sandbox.Config{OutputBytes: 16_000})
	defer m.Close(t.Context())
	files := found.sorted()
	a := (&Deps{Manager: m}).renderer().Fit(t.Context(), len(files), func(most int) *render.Answer {
		return renderList(nil, "", found, files[:most], sandbox.WalkEnd{Skipped: 1})
	})
	text := listText(a)
	if len(text) > 16_000 || !strings.Contains(text, "older ones") || !strings.Contains(text, "1 file with names") || !strings.Contains(text, "more files than are looked at") {
		t.Errorf("%d bytes: %s", len(text), text[len(text)-300:])
	}
}

func TestAnEmptyListSaysSo(t *testing.T) {
	should.Equal(t, listText(renderList(nil, "", &newest{most: 1}, nil, sandbox.WalkEnd{Complete: true})), "no files")
}
