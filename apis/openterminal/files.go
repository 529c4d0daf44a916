package openterminal

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func (c *call) folder() (any, error) {
	var held room.Growing
	answer, there := listed{absolute(c.below), true, []entry{}}, c.below == ""
	err := c.eachEntry(func(e sandbox.Entry) error {
		there = there || e.Path == c.below && e.Kind == 'd'
		if parent, name := path.Split(e.Path); path.Clean("/"+parent) == "/"+c.below {
			one := entryOf(e)
			one.Name = strings.Clone(name)
			answer.Entries = append(answer.Entries, one)
			return held.Add(c.r.Context(), apis.EntryRoom+rest.JSONRoom*int64(len(name)))
		}
		return nil
	})
	if err == nil && !there {
		err = errNoPath(c.below)
	}
	slices.SortFunc(answer.Entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return answer, err
}

// eachEntry visits all that is in the session's volume, while the client waits.
func (c *call) eachEntry(visit func(sandbox.Entry) error) error {
	ctx := c.r.Context()
	_, err := c.Sessions().WalkFiles(ctx, c.session, true, func(e sandbox.Entry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return visit(e)
	})
	return err
}

func entryOf(e sandbox.Entry) entry {
	kind := "file"
	if e.Kind == 'd' {
		kind = "directory"
	}
	return entry{Type: kind, Size: e.SizeBytes, Modified: float64(e.Modified.UnixMilli()) / 1000}
}

// textOf reads the file that is asked for, for an answer or for another file in its place.
func (c *call) textOf() (content string, isText bool, err error) {
	ctx := c.r.Context()
	file, err := c.Sessions().OpenFile(ctx, c.session, c.below, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return "", false, err
	}
	defer func() { _ = file.Close() }()
	if file.File().SizeBytes > maxText {
		return "", false, fault.New(fault.ArtifactTooLarge, "Read a part of it with run_command.", "%q has %d bytes, and %d are read at most.", absolute(c.below), file.File().SizeBytes, maxText)
	}
	if _, err := room.Take(ctx, apis.TextRoom(file.File().SizeBytes)); err != nil {
		return "", false, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, file.File().SizeBytes)) // it may be longer by now
	content = string(raw)
	return content, utf8.ValidString(content) && !strings.Contains(content, "\x00"), err
}

func (c *call) readText() (any, error) {
	first, err := c.count("start_line", 1)
	if err != nil {
		return nil, err
	}
	last, err := c.count("end_line", maxText)
	if err != nil {
		return nil, err
	}
	if slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".webp"}, strings.ToLower(path.Ext(c.below))) {
		return c.view()
	}
	content, isText, err := c.textOf()
	if err != nil {
		return nil, err
	}
	if !isText {
		return nil, web.NewRefusal(http.StatusUnsupportedMediaType, fault.InvalidContent, "Read it with a program and run_command.", "%q is no text.", absolute(c.below))
	}
	total := strings.Count(content, "\n")
	if content != "" && !strings.HasSuffix(content, "\n") {
		total++
	}
	from, to := linesOf(content, max(first, 1), last)
	return textLines{absolute(c.below), total, content[from:to]}, nil
}

// linesOf returns the offsets at which lines begin and end in a text, counted from 1.
func linesOf(content string, first, last int64) (from, to int) {
	for line := int64(1); line <= last && to < len(content); line++ {
		if line == first {
			from = to
		}
		if end := strings.IndexByte(content[to:], '\n'); end >= 0 {
			to += end + 1
		} else {
			to = len(content)
		}
		if line < first {
			from = to
		}
	}
	return from, to
}

func (c *call) display() (any, error) {
	file, err := c.Sessions().OpenFile(c.r.Context(), c.session, c.below, sandbox.ReadOptions{})
	exists := err == nil
	if exists {
		_ = file.Close()
	}
	return done{Path: absolute(c.below), Exists: &exists}, nil
}

func (c *call) view() (any, error) {
	return nil, c.SendFile(c.w, c.r, c.session, c.below)
}

// put puts a file.
func (c *call) put(below string, content io.Reader) (any, error) {
	put, _, err := c.Sessions().Upload(c.r.Context(), sandbox.Upload{SessionID: c.session, Path: below, Overwrite: true, Content: content})
	if err != nil {
		return nil, err
	}
	return done{Path: absolute(put.Path), Size: &put.SizeBytes}, nil
}

func (c *call) writeText(wanted content) (any, error) {
	return c.put(c.below, strings.NewReader(wanted.Content))
}

// replaceRoom is the memory for a file's text, its replacement, and the parts in between.
const replaceRoom = 4 * maxText

func (c *call) replace(wanted edits) (any, error) {
	content, isText, err := c.textOf()
	if err != nil {
		return nil, err
	}
	if !isText {
		return nil, fault.New(fault.InvalidContent, "Change it with a program and run_command.", "%q is no text.", absolute(c.below))
	}
	if _, err := room.Take(c.r.Context(), replaceRoom); err != nil {
		return nil, err
	}
	for _, edit := range wanted.Edits {
		if c.r.Context().Err() != nil {
			return nil, context.Cause(c.r.Context())
		}
		last := int64(maxText)
		if edit.EndLine > 0 {
			last = int64(edit.EndLine)
		}
		first, end := linesOf(content, max(int64(edit.StartLine), 1), last)
		part := content[first:end]
		n := strings.Count(part, edit.Target)
		switch {
		case edit.Target == "" || n == 0:
			return nil, fault.New(fault.InvalidArgument, "Read the file, and copy the target from there.", "The target %q is not in the file.", text.Shorten(edit.Target, 100))
		case n > 1 && !edit.Multiple:
			return nil, fault.New(fault.InvalidArgument, "Make it longer, or set allow_multiple.", "The target %q is there %d times.", text.Shorten(edit.Target, 100), n)
		case len(content)+n*(len(edit.Replacement)-len(edit.Target)) > maxText:
			return nil, fault.New(fault.ArtifactTooLarge, "Change it with run_command.", "The file would have more than %d bytes.", maxText)
		}
		content = content[:first] + strings.ReplaceAll(part, edit.Target, edit.Replacement) + content[end:]
	}
	return c.put(c.below, strings.NewReader(content))
}

func (c *call) upload() (value any, err error) {
	err = apis.EachFile(c, c.w, c.r, func(name string, content io.Reader) (err error) {
		if value == nil { // it sends one
			value, err = c.put(path.Join(c.below, path.Base(name)), content)
		}
		return err
	})
	if err == nil && value == nil {
		err = apis.ErrNoPart()
	}
	if err != nil {
		web.Refuse(c.w)
	}
	return value, err
}

func (c *call) tellCwd() (any, error) {
	return done{Cwd: absolute(c.cwd), Home: engine.WorkDir, Root: object{"path": engine.WorkDir, "label": "Home"}}, nil
}

func (c *call) setCwd(named) (any, error) {
	there := c.below == ""
	if err := c.eachEntry(func(e sandbox.Entry) error {
		there = there || e.Path == c.below && e.Kind == 'd'
		return nil
	}); err != nil {
		return nil, err
	}
	if !there {
		return nil, errNoPath(c.below)
	}
	c.cwd = c.below
	c.mu.Lock()
	for chat := range c.folders {
		if len(c.folders) >= maxKept {
			delete(c.folders, chat) // any: it begins at home again
		}
	}
	c.folders[c.chat] = c.below
	c.mu.Unlock()
	return c.tellCwd()
}

func (c *call) mkdir(named) (any, error) {
	if _, err := c.shell(`mkdir -p -- "$1"`, []string{"./" + c.below}); err != nil {
		return nil, err
	}
	return done{Path: absolute(c.below)}, nil
}

// Scripts of our own, and the exit codes that they end with.
const (
	isFolder = 40
	isNone   = 41
	isThere  = 42
	noFolder = 43

	removing = `code=0; [ -L "$1" ] || [ ! -d "$1" ] || code=40; [ -L "$1" ] || [ -e "$1" ] || exit 41; rm -rf -- "$1" && exit $code`
	moving   = `[ -e "$1" ] || [ -L "$1" ] || exit 41; [ -d "$(dirname -- "$2")" ] || exit 43; [ ! -e "$2" ] || exit 42; mv -T -- "$1" "$2"`
)

func (c *call) remove() (any, error) {
	if c.r.URL.Query().Get("path") == "" { // which is the chat's working directory elsewhere
		return nil, fault.New(fault.InvalidPath, "Name the path.", "path is missing.")
	}
	if c.below == "" {
		return nil, fault.New(fault.InvalidPath, "Name what is in it.", "%s stays.", engine.WorkDir)
	}
	res, err := c.shell(removing, []string{"./" + c.below}, isFolder, isNone)
	switch {
	case err != nil:
		return nil, err
	case res.ExitCode == isNone:
		return nil, errNoPath(c.below)
	case res.ExitCode == isFolder:
		return done{Path: absolute(c.below), Type: "directory"}, nil
	}
	return done{Path: absolute(c.below), Type: "file"}, nil
}

func (c *call) move(wanted moved) (any, error) {
	if wanted.Source == "" {
		return nil, fault.New(fault.InvalidPath, "Name the source.", "source is missing.")
	}
	to, err := c.resolve(wanted.Destination)
	if err != nil {
		return nil, err
	}
	res, err := c.shell(moving, []string{"./" + c.below, "./" + to}, isNone, isThere, noFolder)
	switch {
	case err != nil:
		return nil, err
	case res.ExitCode == isNone:
		return nil, errNoPath(c.below)
	case res.ExitCode == noFolder:
		return nil, fault.New(fault.InvalidPath, "Make it first.", "There is no folder %q.", absolute(path.Dir(to)))
	case res.ExitCode == isThere:
		return nil, fault.New(fault.FileExists, "Remove it first, or take another name.", "There is a %q.", absolute(to))
	}
	return done{Source: absolute(c.below), Destination: absolute(to)}, nil
}

// grepping searches the pattern $1 below $2, and prints $3 lines. The rest are options.
const grepping = `pattern=$1; at=$2; lines=$3; shift 3; set -o pipefail; LC_ALL=C.UTF-8 grep -rIHZ "$@" -e "$pattern" -- "$at" | tr '\0' '\n' | head -n "$lines"`

const (
	grepNothing = 1
	pipeClosed  = 141
)

func (c *call) grep() (any, error) {
	query := c.r.URL.Query()
	most, err := c.results()
	if err != nil {
		return nil, err
	}
	byLine, lines := c.is("match_per_line", true), most+1
	listing, form := "-l", "-F"
	if byLine { // a line for the file's name, and one for the match
		listing, lines = "-n", 2*lines
	}
	if c.is("regex", true) {
		form = "-P"
	}
	words := []string{query.Get("query"), "./" + c.below, strconv.Itoa(lines), listing, form}
	if c.below == "" {
		words[1] = "."
	}
	if c.is("case_insensitive", false) {
		words = append(words, "-i")
	}
	for _, name := range query["include"] {
		words = append(words, "--include="+name)
	}
	res, err := c.shell(grepping, words, grepNothing, pipeClosed)
	if err != nil {
		return nil, err
	}
	part, err := apis.Part(c.r.Context(), c, c.session, res.Stdout, 0, maxText)
	if err != nil {
		return nil, err
	}
	answer := matches{Query: words[0], Path: absolute(c.below), Matches: []any{}}
	for printed := part.Text; printed != ""; {
		var m match
		m.File, printed, _ = strings.Cut(printed, "\n")
		m.File = absolute(m.File)
		if byLine {
			var line, number string
			line, printed, _ = strings.Cut(printed, "\n")
			number, m.Content, _ = strings.Cut(line, ":")
			m.Line, _ = strconv.Atoi(number)
		}
		if answer.Truncated = len(answer.Matches) == most; answer.Truncated {
			break
		}
		answer.Matches = append(answer.Matches, m)
	}
	return answer, nil
}

var errStop = errors.New("stop")

// The limits of a search.
const (
	maxGlob     = 300 // bytes of a pattern
	maxPatterns = 20
)

// patternOf compiles a pattern of Python's fnmatch: * matches folders, too.
func patternOf(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxGlob {
		return nil, fault.New(fault.InvalidArgument, "Such as *.py.", "The pattern %q has %d bytes, and may have %d.", text.Shorten(pattern, 80), len(pattern), maxGlob)
	}
	expression := strings.NewReplacer(`\*`, ".*", `\?`, ".", `\[!`, "[^", `\[`, "[", `\]`, "]").Replace(regexp.QuoteMeta(pattern))
	found, err := regexp.Compile("(?s)^" + expression + "$")
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "Such as *.py.", "%q is no pattern.", text.Shorten(pattern, 80))
	}
	return found, nil
}

func (c *call) glob() (any, error) {
	query := c.r.URL.Query()
	most, err := c.results()
	if err != nil {
		return nil, err
	}
	if len(query["exclude"]) > maxPatterns {
		return nil, fault.New(fault.InvalidArgument, "Exclude less.", "%d patterns are excluded, and there may be %d.", len(query["exclude"]), maxPatterns)
	}
	var patterns []*regexp.Regexp // the first is the one that is wanted
	for _, pattern := range append([]string{query.Get("pattern")}, query["exclude"]...) {
		found, err := patternOf(pattern)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, found)
	}
	answer := matches{Pattern: query.Get("pattern"), Path: absolute(c.below), Matches: []any{}}
	kind := query.Get("type")
	err = c.eachEntry(func(e sandbox.Entry) error {
		one := entryOf(e)
		relative, inside := e.Path, true
		if c.below != "" {
			relative, inside = strings.CutPrefix(e.Path, c.below+"/")
		}
		is := func(p *regexp.Regexp) bool { return p.MatchString(relative) || p.MatchString(path.Base(relative)) }
		if !inside || kind != "" && kind != "any" && kind != one.Type || !is(patterns[0]) || slices.ContainsFunc(patterns[1:], is) {
			return nil
		}
		if answer.Truncated = len(answer.Matches) == most; answer.Truncated {
			return errStop
		}
		one.Path = relative
		answer.Matches = append(answer.Matches, one)
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return answer, err
}

const (
	// archiveTime is the time in which a client must read an archive.
	archiveTime = 10 * time.Minute
	// maxArchived is the most paths for one.
	maxArchived = 1000
)

func (c *call) archive(wanted paths) (any, error) {
	if len(wanted.Paths) > maxArchived {
		return nil, fault.New(fault.InvalidArgument, "Name the folder that they are in.", "%d paths are wanted, and there may be %d.", len(wanted.Paths), maxArchived)
	}
	missing := make(map[string]bool)
	for _, given := range wanted.Paths {
		below, err := c.resolve(given)
		if err != nil {
			return nil, err
		}
		missing[below] = below != ""
	}
	if err := c.eachEntry(func(e sandbox.Entry) error {
		delete(missing, e.Path)
		return nil
	}); err != nil {
		return nil, err
	}
	name := "download"
	var wantedPaths []string
	for _, given := range wanted.Paths {
		below, _ := c.resolve(given)
		if missing[below] {
			return nil, errNoPath(below)
		}
		wantedPaths = append(wantedPaths, below)
		name = path.Base(absolute(below))
	}
	if len(wantedPaths) == 0 {
		return nil, fault.New(fault.InvalidArgument, `Such as {"paths": ["/mnt/data/output"]}.`, "paths is empty.")
	}
	if len(wantedPaths) > 1 {
		name = "download"
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(archiveTime))
	c.w.Header().Set("Content-Type", "application/zip")
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + ".zip"}))
	packed := zip.NewWriter(c.w)
	var directory room.Growing // which a ZIP ends with
	_, err := c.Sessions().ExportFiles(c.r.Context(), c.session, func(e sandbox.Entry, content io.Reader) error {
		if strings.HasPrefix(e.Path, sandbox.StateFolder+"/") {
			return nil
		}
		for _, below := range wantedPaths {
			inside := below == "" || e.Path == below || strings.HasPrefix(e.Path, below+"/")
			if !inside || e.Kind != 'f' {
				continue
			}
			if err := directory.Add(c.r.Context(), apis.EntryRoom+int64(len(e.Path))); err != nil {
				return err
			}
			to, err := packed.CreateHeader(&zip.FileHeader{Name: strings.TrimPrefix(strings.TrimPrefix(e.Path, strings.TrimSuffix(path.Dir(below), ".")), "/"), Method: zip.Deflate, Modified: e.Modified})
			if err == nil {
				_, err = io.Copy(to, content)
			}
			return err
		}
		return nil
	})
	if err != nil { // a part was sent, which is not to look whole
		panic(http.ErrAbortHandler)
	}
	return nil, packed.Close()
}
