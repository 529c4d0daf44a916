// What Open WebUI asks Open Terminal for about files.

package rest

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func (s *Server) terminalFolder(w http.ResponseWriter, r *http.Request) error {
	t, below, err := s.terminalAt(r, r.URL.Query().Get("directory"))
	if err != nil {
		return err
	}
	var held room.Growing
	answer, there := terminalListed{absolute(below), true, []terminalEntry{}}, below == ""
	err = s.eachEntry(r.Context(), t.session, func(e sandbox.Entry) error {
		there = there || e.Path == below && e.Kind == 'd'
		if parent, name := path.Split(e.Path); path.Clean("/"+parent) == "/"+below {
			one := entryOf(e)
			one.Name = strings.Clone(name)
			answer.Entries = append(answer.Entries, one)
			return held.Add(r.Context(), entryRoom+jsonRoom*int64(len(name)))
		}
		return nil
	})
	if err == nil && !there {
		err = errNoPath(below)
	}
	if err == nil {
		slices.SortFunc(answer.Entries, func(a, b terminalEntry) int { return strings.Compare(a.Name, b.Name) })
		web.JSON(w, http.StatusOK, answer)
	}
	return err
}

// eachEntry visits all that is in a session's volume, while ctx lasts.
func (s *Server) eachEntry(ctx context.Context, session string, visit func(sandbox.Entry) error) error {
	_, err := s.manager.WalkFiles(ctx, session, true, func(e sandbox.Entry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return visit(e)
	})
	return err
}

func entryOf(e sandbox.Entry) terminalEntry {
	kind := "file"
	if e.Kind == 'd' {
		kind = "directory"
	}
	return terminalEntry{Type: kind, Size: e.SizeBytes, Modified: float64(e.Modified.UnixMilli()) / 1000}
}

// textOf reads a file that is text, for an answer or for another file in its place.
func (s *Server) textOf(ctx context.Context, session, below string) (content string, isText bool, err error) {
	file, err := s.manager.OpenFile(ctx, session, below, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return "", false, err
	}
	defer func() { _ = file.Close() }()
	if file.File().SizeBytes > maxTerminalText {
		return "", false, fault.New(fault.ArtifactTooLarge, "Read a part of it with run_command.", "%q has %d bytes, and %d are read at most.", absolute(below), file.File().SizeBytes, maxTerminalText)
	}
	if _, err := room.Take(ctx, textRoom(file.File().SizeBytes)); err != nil {
		return "", false, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, file.File().SizeBytes)) // it may have grown
	content = string(raw)
	return content, utf8.ValidString(content) && !strings.Contains(content, "\x00"), err
}

func (s *Server) terminalRead(w http.ResponseWriter, r *http.Request) error {
	t, below, err := s.terminalAt(r, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	first, err := countOf(r, "start_line", 1)
	if err != nil {
		return err
	}
	last, err := countOf(r, "end_line", maxTerminalText)
	if err != nil {
		return err
	}
	if slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".webp"}, strings.ToLower(path.Ext(below))) {
		return s.links.Send(w, r, t.session, below)
	}
	content, isText, err := s.textOf(r.Context(), t.session, below)
	if err != nil {
		return err
	}
	if !isText {
		return web.NewRefusal(http.StatusUnsupportedMediaType, fault.InvalidContent, "Read it with a program and run_command.", "%q is no text.", absolute(below))
	}
	total := strings.Count(content, "\n")
	if content != "" && !strings.HasSuffix(content, "\n") {
		total++
	}
	from, to := linesOf(content, max(first, 1), last)
	web.JSON(w, http.StatusOK, terminalText{absolute(below), total, content[from:to]})
	return nil
}

// linesOf is where lines begin in a text, and where they end, counted from 1.
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

func (s *Server) terminalDisplay(w http.ResponseWriter, r *http.Request) error {
	t, below, err := s.terminalAt(r, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	file, err := s.manager.OpenFile(r.Context(), t.session, below, sandbox.ReadOptions{})
	exists := err == nil
	if exists {
		_ = file.Close()
	}
	web.JSON(w, http.StatusOK, terminalDone{Path: absolute(below), Exists: &exists})
	return nil
}

func (s *Server) terminalView(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query().Get("path")
	if served := r.PathValue("path"); served != "" {
		given = "/" + served
	}
	t, below, err := s.terminalAt(r, given)
	if err != nil {
		return err
	}
	return s.links.Send(w, r, t.session, below)
}

// written answers when a file has been put.
func (s *Server) written(w http.ResponseWriter, r *http.Request, t terminal, below string, content io.Reader) error {
	put, _, err := s.manager.Upload(r.Context(), sandbox.Upload{SessionID: t.session, Path: below, Overwrite: true, Content: content})
	if err == nil {
		web.JSON(w, http.StatusOK, terminalDone{Path: absolute(put.Path), Size: &put.SizeBytes})
	}
	return err
}

func (s *Server) terminalWrite(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalContent
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, below, err := s.terminalAt(r, wanted.Path)
	if err != nil {
		return err
	}
	return s.written(w, r, t, below, strings.NewReader(wanted.Content))
}

func (s *Server) terminalReplace(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalEdits
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, below, err := s.terminalAt(r, wanted.Path)
	if err != nil {
		return err
	}
	content, isText, err := s.textOf(r.Context(), t.session, below)
	if err != nil {
		return err
	}
	if !isText {
		return fault.New(fault.InvalidContent, "Change it with a program and run_command.", "%q is no text.", absolute(below))
	}
	if _, err := room.Take(r.Context(), replaceRoom); err != nil {
		return err
	}
	for _, edit := range wanted.Edits {
		if r.Context().Err() != nil {
			return context.Cause(r.Context())
		}
		last := int64(maxTerminalText)
		if edit.EndLine > 0 {
			last = int64(edit.EndLine)
		}
		first, end := linesOf(content, max(int64(edit.StartLine), 1), last)
		part := content[first:end]
		n := strings.Count(part, edit.Target)
		switch {
		case edit.Target == "" || n == 0:
			return fault.New(fault.InvalidArgument, "Read the file, and copy the target from there.", "The target %q is not in the file.", text.Shorten(edit.Target, 100))
		case n > 1 && !edit.Multiple:
			return fault.New(fault.InvalidArgument, "Make it longer, or set allow_multiple.", "The target %q is there %d times.", text.Shorten(edit.Target, 100), n)
		case len(content)+n*(len(edit.Replacement)-len(edit.Target)) > maxTerminalText:
			return fault.New(fault.ArtifactTooLarge, "Change it with run_command.", "The file would have more than %d bytes.", maxTerminalText)
		}
		content = content[:first] + strings.ReplaceAll(part, edit.Target, edit.Replacement) + content[end:]
	}
	return s.written(w, r, t, below, strings.NewReader(content))
}

func (s *Server) terminalUpload(w http.ResponseWriter, r *http.Request) error {
	t, below, err := s.terminalAt(r, r.URL.Query().Get("directory"))
	if err != nil {
		return err
	}
	done := false
	err = s.eachFile(w, r, func(name string, content io.Reader) error {
		if done {
			return nil // it sends one
		}
		done = true
		return s.written(w, r, t, path.Join(below, path.Base(name)), content)
	})
	if err == nil && !done {
		err = fault.New(fault.InvalidContent, "Send a form (multipart/form-data) with a part of the name file.", "The form has no file.")
	}
	if err != nil {
		web.Refuse(w)
	}
	return err
}

func (s *Server) terminalCwd(w http.ResponseWriter, r *http.Request) error {
	t, err := s.terminalOf(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		var wanted terminalNamed
		if _, err := decode(r, &wanted); err != nil {
			return err
		}
		below, err := t.resolve(wanted.Path)
		if err != nil {
			return err
		}
		there := below == ""
		if err := s.eachEntry(r.Context(), t.session, func(e sandbox.Entry) error {
			there = there || e.Path == below && e.Kind == 'd'
			return nil
		}); err != nil {
			return err
		}
		if !there {
			return errNoPath(below)
		}
		t.folder = below
		s.terminals.mu.Lock()
		for chat := range s.terminals.folders {
			if len(s.terminals.folders) >= maxTerminalKept {
				delete(s.terminals.folders, chat) // any: it begins at home again
			}
		}
		s.terminals.folders[t.chat] = below
		s.terminals.mu.Unlock()
	}
	web.JSON(w, http.StatusOK, terminalDone{Cwd: absolute(t.folder), Home: engine.WorkDir, Root: object{"path": engine.WorkDir, "label": "Home"}})
	return nil
}

func (s *Server) terminalMkdir(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalNamed
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, below, err := s.terminalAt(r, wanted.Path)
	if err == nil {
		_, err = s.shell(r.Context(), t.session, "mkdir -p -- "+quoted("./"+below))
	}
	if err == nil {
		web.JSON(w, http.StatusOK, terminalDone{Path: absolute(below)})
	}
	return err
}

// Exit codes of commands of our own.
const (
	isFolder = 40
	isNone   = 41
	isThere  = 42
	noFolder = 43
)

func (s *Server) terminalDelete(w http.ResponseWriter, r *http.Request) error {
	t, below, err := s.terminalAt(r, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	if below == "" {
		return fault.New(fault.InvalidPath, "Name what is in it.", "%s stays.", engine.WorkDir)
	}
	p := quoted("./" + below)
	res, err := s.shell(r.Context(), t.session, fmt.Sprintf("code=0; [ -L %[1]s ] || [ ! -d %[1]s ] || code=%[2]d; [ -L %[1]s ] || [ -e %[1]s ] || exit %[3]d; rm -rf -- %[1]s && exit $code", p, isFolder, isNone), isFolder, isNone)
	switch {
	case err != nil:
		return err
	case res.ExitCode == isNone:
		return errNoPath(below)
	}
	answer := terminalDone{Path: absolute(below), Type: "file"}
	if res.ExitCode == isFolder {
		answer.Type = "directory"
	}
	web.JSON(w, http.StatusOK, answer)
	return nil
}

func (s *Server) terminalMove(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalMoved
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, from, err := s.terminalAt(r, wanted.Source)
	if err != nil {
		return err
	}
	to, err := t.resolve(wanted.Destination)
	if err != nil {
		return err
	}
	a, b := quoted("./"+from), quoted("./"+to)
	res, err := s.shell(r.Context(), t.session, fmt.Sprintf("[ -e %[1]s ] || [ -L %[1]s ] || exit %[4]d; [ -d \"$(dirname -- %[2]s)\" ] || exit %[5]d; [ ! -e %[2]s ] || exit %[3]d; mv -T -- %[1]s %[2]s", a, b, isThere, isNone, noFolder), isNone, isThere, noFolder)
	switch {
	case err != nil:
		return err
	case res.ExitCode == isNone:
		return errNoPath(from)
	case res.ExitCode == noFolder:
		return fault.New(fault.InvalidPath, "Make it first.", "There is no folder %q.", absolute(path.Dir(to)))
	case res.ExitCode == isThere:
		return fault.New(fault.FileExists, "Remove it first, or take another name.", "There is a %q.", absolute(to))
	}
	web.JSON(w, http.StatusOK, terminalDone{Source: absolute(from), Destination: absolute(to)})
	return nil
}

const (
	grepNothing = 1
	pipeClosed  = 141
)

// given reads true or false.
func given(r *http.Request, name string, standard bool) bool {
	given, err := strconv.ParseBool(r.URL.Query().Get(name))
	if err != nil {
		return standard
	}
	return given
}

func (s *Server) terminalGrep(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query().Get("query")
	t, below, err := s.terminalAt(r, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	most, err := countOf(r, "max_results", 50)
	if err != nil {
		return err
	}
	most = max(1, min(most, 500))
	command := "set -o pipefail; LC_ALL=C.UTF-8 grep -rIHZ"
	for option, on := range map[string]bool{" -n": given(r, "match_per_line", true), " -l": !given(r, "match_per_line", true), " -P": given(r, "regex", true), " -F": !given(r, "regex", true), " -i": given(r, "case_insensitive", false)} {
		if on {
			command += option
		}
	}
	for _, name := range r.URL.Query()["include"] {
		command += " --include=" + quoted(name)
	}
	if below != "" {
		below = "/" + below
	}
	command += " -e " + quoted(query) + " -- " + quoted("."+below)
	lines := most + 1
	if given(r, "match_per_line", true) { // of the file, and of what is in it
		lines *= 2
	}
	command += ` | tr '\0' '\n' | head -n ` + strconv.FormatInt(lines, 10)
	res, err := s.shell(r.Context(), t.session, command, grepNothing, pipeClosed)
	if err != nil {
		return err
	}
	printed, _, err := s.part(r.Context(), t.session, res.Stdout, 0, maxTerminalText)
	if err != nil {
		return err
	}
	answer := terminalMatches{Query: query, Path: absolute(below), Matches: []any{}}
	for printed != "" {
		var m terminalMatch
		m.File, printed, _ = strings.Cut(printed, "\n")
		m.File = absolute(m.File)
		if given(r, "match_per_line", true) {
			var line, number string
			line, printed, _ = strings.Cut(printed, "\n")
			number, m.Content, _ = strings.Cut(line, ":")
			m.Line, _ = strconv.Atoi(number)
		}
		if answer.Truncated = len(answer.Matches) == int(most); answer.Truncated {
			break
		}
		answer.Matches = append(answer.Matches, m)
	}
	web.JSON(w, http.StatusOK, answer)
	return nil
}

// What a search may have.
const (
	maxGlob     = 300 // bytes of a pattern
	maxPatterns = 20
)

// glob makes an expression of a pattern as Python's fnmatch has them: * is for folders, too.
func glob(pattern string) (*regexp.Regexp, error) {
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

func (s *Server) terminalGlob(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	t, below, err := s.terminalAt(r, query.Get("path"))
	if err != nil {
		return err
	}
	most, err := countOf(r, "max_results", 50)
	if err != nil {
		return err
	}
	most = max(1, min(most, 500))
	if len(query["exclude"]) > maxPatterns {
		return fault.New(fault.InvalidArgument, "Exclude less.", "%d patterns are excluded, and there may be %d.", len(query["exclude"]), maxPatterns)
	}
	var patterns []*regexp.Regexp // the first is the one that is wanted
	for _, pattern := range append([]string{query.Get("pattern")}, query["exclude"]...) {
		found, err := glob(pattern)
		if err != nil {
			return err
		}
		patterns = append(patterns, found)
	}
	answer := terminalMatches{Pattern: query.Get("pattern"), Path: absolute(below), Matches: []any{}}
	kind := query.Get("type")
	err = s.eachEntry(r.Context(), t.session, func(e sandbox.Entry) error {
		one := entryOf(e)
		relative, inside := e.Path, true
		if below != "" {
			relative, inside = strings.CutPrefix(e.Path, below+"/")
		}
		is := func(p *regexp.Regexp) bool { return p.MatchString(relative) || p.MatchString(path.Base(relative)) }
		if !inside || kind != "" && kind != "any" && kind != one.Type || !is(patterns[0]) || slices.ContainsFunc(patterns[1:], is) {
			return nil
		}
		if answer.Truncated = len(answer.Matches) == int(most); answer.Truncated {
			return errFound
		}
		one.Path = relative
		answer.Matches = append(answer.Matches, one)
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	if err == nil {
		web.JSON(w, http.StatusOK, answer)
	}
	return err
}

const (
	// archiveTime is how long a client may take to read an archive.
	archiveTime = 10 * time.Minute
	// maxArchived is how many paths may be named for one.
	maxArchived = 1000
)

func (s *Server) terminalArchive(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalPaths
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, err := s.terminalOf(r)
	if err != nil {
		return err
	}
	if len(wanted.Paths) > maxArchived {
		return fault.New(fault.InvalidArgument, "Name the folder that they are in.", "%d paths are wanted, and there may be %d.", len(wanted.Paths), maxArchived)
	}
	missing := make(map[string]bool)
	for _, given := range wanted.Paths {
		below, err := t.resolve(given)
		if err != nil {
			return err
		}
		missing[below] = below != ""
	}
	if err := s.eachEntry(r.Context(), t.session, func(e sandbox.Entry) error {
		delete(missing, e.Path)
		return nil
	}); err != nil {
		return err
	}
	name := "download"
	var wantedPaths []string
	for _, given := range wanted.Paths {
		below, _ := t.resolve(given)
		if missing[below] {
			return errNoPath(below)
		}
		wantedPaths = append(wantedPaths, below)
		name = path.Base(absolute(below))
	}
	if len(wantedPaths) == 0 {
		return fault.New(fault.InvalidArgument, `Such as {"paths": ["/mnt/data/output"]}.`, "paths is empty.")
	}
	if len(wantedPaths) > 1 {
		name = "download"
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(archiveTime))
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + ".zip"}))
	packed := zip.NewWriter(w)
	var directory room.Growing // which a ZIP has at its end
	_, err = s.manager.ExportFiles(r.Context(), t.session, func(e sandbox.Entry, content io.Reader) error {
		for _, below := range wantedPaths {
			inside := below == "" || e.Path == below || strings.HasPrefix(e.Path, below+"/")
			if !inside || e.Kind != 'f' {
				continue
			}
			if err := directory.Add(r.Context(), entryRoom+int64(len(e.Path))); err != nil {
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
	return packed.Close()
}
