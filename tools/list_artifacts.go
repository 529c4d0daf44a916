// The tool list_artifacts: a pattern, the newest files.

package tools

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const (
	listedArtifacts  = 200
	linkedArtifacts  = 10  // of them with a link in the text
	maxGlob          = 300 // bytes
	maxGlobBranching = 8   // of ** and of { in a pattern: each multiplies the work
)

type listedArtifact struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"size_bytes"`
	MIMEType  string    `json:"mime_type"`
	Modified  time.Time `json:"modified"`
	Download  string    `json:"download_url,omitempty"`
}

type listMeta struct {
	Total     int   `json:"total"`
	SizeBytes int64 `json:"total_size_bytes"`
	Complete  bool  `json:"complete"`
}

type listFields struct {
	listMeta
	Artifacts []listedArtifact `json:"artifacts"`
	Notes     []string         `json:"notes,omitempty"`
}

func (f listFields) Meta() any { return f.listMeta }

func (d *Deps) listArtifacts() tool {
	return tool{
		output: mcp.WithOutputSchema[listFields](),
		definition: mcp.NewTool("list_artifacts",
			mcp.WithToolTitle("List files"),
			mcp.WithDescription(fmt.Sprintf("List the code sandbox's files below %s, newest first; at most %d, "+
				"none hidden; %s/ only where no others match.", engine.WorkDir, listedArtifacts, content.InputDir)),
			mcp.WithString("glob", mcp.Description("Such as *.csv (in any folder) or output/*.{png,svg}.")),
			mcp.WithString("before", mcp.Description("run_id: before that run.")),
			sessionParam(), hints(true),
		),
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			session, glob, before := p.session(), p.text("glob"), p.text("before")
			if err := p.check(); err != nil {
				return nil, err
			}
			wanted, err := newGlob(glob)
			if err != nil {
				return nil, err
			}
			list := newListing(wanted)
			var end sandbox.WalkEnd
			if before != "" {
				session, end, err = d.Manager.WalkBefore(ctx, session, before, list.visit)
			} else {
				end, err = d.Manager.WalkFiles(ctx, session, false, list.visit)
			}
			if session == "" && err != nil && fault.From(err).Code == fault.SessionNotFound {
				end, err = sandbox.WalkEnd{Complete: true}, nil // it begins with the first run, and is empty until then
			}
			if err != nil {
				return nil, err
			}
			found := list.found()
			files := found.sorted()
			return d.renderer().Fit(ctx, len(files), func(most int) *render.Answer { return renderList(d.Links, session, found, files[:most], end) }), nil
		},
	}
}

// listing keeps the files that a walk meets and a glob matches, those of input/ apart.
type listing struct {
	glob
	own, uploads *newest
}

func newListing(g glob) *listing {
	return &listing{g, &newest{most: listedArtifacts}, &newest{most: listedArtifacts}}
}

func (l *listing) visit(e sandbox.Entry) error {
	switch {
	case e.Kind != 'f' || !l.matches(e.Path):
	case strings.HasPrefix(e.Path, content.InputDir+"/"):
		l.uploads.add(e.File)
	default:
		l.own.add(e.File)
	}
	return nil
}

// found returns the files to list.
func (l *listing) found() *newest {
	if l.own.total > 0 {
		return l.own
	}
	return l.uploads
}

// glob chooses files by their paths below WorkDir.
type glob struct {
	pattern string
	byName  bool // a pattern without a slash is for names in any folder
}

func newGlob(pattern string) (glob, error) {
	short := strings.TrimPrefix(strings.TrimPrefix(pattern, engine.WorkDir+"/"), "./")
	if pattern != "" && short == "" {
		short = "**"
	}
	if strings.HasSuffix(short, "/") {
		short += "**"
	}
	branching := strings.Count(short, "**") + strings.Count(short, "{")
	if len(short) > maxGlob || branching > maxGlobBranching || !doublestar.ValidatePattern(short) || path.IsAbs(short) {
		return glob{}, fault.New(fault.InvalidArgument, "Use a pattern relative to "+engine.WorkDir+", such as *.csv, output/*.png or models/**.",
			"The glob %q is no pattern that can be used.", text.Shorten(pattern, 80))
	}
	return glob{pattern: short, byName: !strings.Contains(short, "/") && short != "**"}, nil
}

func (g glob) matches(file string) bool {
	if g.pattern == "" {
		return true
	}
	if g.byName {
		file = path.Base(file)
	}
	return doublestar.MatchUnvalidated(g.pattern, file)
}

// newest keeps the files that were changed last, twice as many as are wanted at the most.
type newest struct {
	most  int
	files []sandbox.File
	total int
	bytes int64
}

// order sorts newer files first, and files of one age by name.
func order(a, b sandbox.File) int {
	return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.Path, b.Path))
}

func (n *newest) add(f sandbox.File) {
	n.total++
	n.bytes += f.SizeBytes
	if n.files = append(n.files, f); len(n.files) == 2*n.most {
		n.files = n.sorted()
	}
}

// sorted returns the files, newest first.
func (n *newest) sorted() []sandbox.File {
	slices.SortFunc(n.files, order)
	return n.files[:min(len(n.files), n.most)]
}

// renderList describes these files, the first of those that were found.
func renderList(links *filelinks.Links, session string, found *newest, files []sandbox.File, end sandbox.WalkEnd) *render.Answer {
	fields := listFields{listMeta: listMeta{found.total, found.bytes, end.Complete}, Artifacts: []listedArtifact{}}
	var b strings.Builder
	for _, f := range files {
		a := listedArtifact{Path: f.Name(), SizeBytes: f.SizeBytes, MIMEType: content.TypeByName(f.Path), Modified: f.Modified.UTC(), Download: links.Download(session, f.Name())}
		fields.Artifacts = append(fields.Artifacts, a)
		fmt.Fprintf(&b, "\n%s  %s  %s  %s", a.Path, humanize.Bytes(uint64(max(a.SizeBytes, 0))), a.MIMEType, a.Modified.Format("2006-01-02 15:04:05"))
		if a.Download != "" && len(fields.Artifacts) <= linkedArtifacts {
			b.WriteString("  " + a.Download)
		}
	}
	if more := found.total - len(fields.Artifacts); more > 0 {
		fmt.Fprintf(&b, "\n… and %s older ones; narrow the list with glob, such as output/*.csv", humanize.Comma(int64(more)))
	}
	if !end.Complete {
		fields.Notes = append(fields.Notes, "there are more files than are looked at; these need not be the newest. List a folder with code instead.")
	}
	if end.Skipped > 0 {
		fields.Notes = append(fields.Notes, render.Count(end.Skipped, "file")+" with names that are not text, or have control characters, are left out; rename them with code.")
	}
	if end.NotKept > 0 {
		fields.Notes = append(fields.Notes, "the content of "+render.Count(end.NotKept, "file")+" from then is not kept: too large, too many, or changed too soon.")
	}
	for _, note := range fields.Notes {
		b.WriteString("\nNote: " + note)
	}
	return render.Text(listHead(found)+b.String(), fields)
}

func listHead(found *newest) string {
	if found.total == 0 {
		return "no files"
	}
	return fmt.Sprintf("%s, %s, newest first (times in UTC)", render.Count(int64(found.total), "file"), humanize.Bytes(uint64(max(found.bytes, 0))))
}
