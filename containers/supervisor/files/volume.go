//go:build linux

// The whole of a work directory, sent and taken as one stream.

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

// export sends everything in the work directory, folders before their content. Links come in a walk of their own, behind
// everything else, so that an import writes nothing through one, and none has to be remembered.
func (w *workDir) export(to io.Writer) (filewire.Answer, error) {
	var answer filewire.Answer
	var piece filewire.Piece
	links := false
	l := &lister{everything: true, report: func(folder int, name string, e filewire.Entry) error {
		switch {
		case (e.Kind == filewire.Link) != links:
			return nil
		case e.Kind != filewire.Regular:
			return filewire.Write(to, filewire.Answer{Entries: []filewire.Entry{e}})
		}
		gone, err := sendFile(folder, name, e, to, &piece)
		if gone {
			answer.Gone++
		}
		if err != nil {
			answer.Path = e.Path
		}
		return err
	}}
	parts := []*workDir{w}
	if s, err := openWorkDir(w.state); err == nil {
		defer s.close()
		parts = append(parts, s)
		if err := filewire.Write(to, filewire.Answer{Entries: []filewire.Entry{{Path: filewire.StateFolder, Kind: filewire.Folder, Mode: 0o700}}}); err != nil {
			return answer, err
		}
	}
	for _, links = range []bool{false, true} {
		for _, part := range parts {
			l.state = part != w
			complete, err := l.run(part)
			if links {
				answer.Skipped += l.skipped
			}
			if err != nil || !complete {
				return filewire.Answer{Path: answer.Path, End: true}, err
			}
		}
	}
	answer.End, answer.Complete = true, true
	return answer, nil
}

// sendFile sends a file of a folder: its entry, its content and how that was read.
func sendFile(folder int, name string, e filewire.Entry, to io.Writer, piece *filewire.Piece) (gone bool, err error) {
	place, err := openAt(folder, name, placeOnly|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	file, err := openRegular(place, e.Path)
	if other := new(filewire.Error); errors.As(err, &other) { // something else replaced it
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	s, err := newSource(file, to, piece)
	if err != nil {
		return false, err
	}
	e.SizeBytes, e.ModifiedMS = s.size, milliseconds(&s.was)
	if err := filewire.Write(to, filewire.Answer{Entries: []filewire.Entry{e}}); err != nil {
		return false, err
	}
	told, err := s.end(s.sendBytes(0, -1))
	if err != nil {
		return false, err
	}
	return false, filewire.Write(to, told)
}

// takeAll takes an export's entries and the content of files.
func (w *workDir) takeAll(r filewire.Request, from io.Reader) (filewire.Answer, error) {
	w.removeStaleParts()
	l := &limit{dir: w, bytes: r.LimitBytes, files: r.LimitFiles, versionsToo: true}
	var state *workDir
	for {
		text, err := filewire.ReadText(from, filewire.MaxRequest)
		if err != nil {
			return filewire.Answer{}, err
		}
		var e filewire.Entry
		if err := json.Unmarshal(text, &e); err != nil {
			return filewire.Answer{}, err
		}
		if e.Kind == "" {
			return filewire.Answer{}, nil
		}
		part, path := w, e.Path
		switch inState, ok := strings.CutPrefix(path, filewire.StateFolder+"/"); {
		case path == filewire.StateFolder:
			continue
		case ok:
			if strings.HasPrefix(inState, filewire.VersionsFolder) && w.giveUp != nil {
				w.giveUp()
				w.giveUp = nil
			}
			if state == nil {
				_ = unix.Mkdir(w.state, 0o700)
				if state, err = openWorkDir(w.state); err != nil {
					return filewire.Answer{Path: path}, err
				}
				defer state.close()
			}
			part, e.Path = state, inState
		}
		if err := part.takeEntry(e, &filewire.Content{From: from}, l); err != nil {
			return filewire.Answer{Path: path}, err
		}
	}
}

func (w *workDir) takeEntry(e filewire.Entry, content io.Reader, l *limit) error {
	names, err := namesOf(filewire.Request{Path: e.Path})
	if err != nil {
		return err
	}
	switch e.Kind {
	case filewire.Regular:
		_, size, err := w.take(names, e, false, content, l)
		if err == nil {
			l.add(size)
		}
		return err
	case filewire.Folder, filewire.Link:
		if err := l.begin(1); err != nil {
			return err
		}
		defer l.add(0)
		if e.Kind == filewire.Folder {
			return w.makeFolder(names)
		}
		return w.makeLink(names, e.Target)
	}
	return refusal(filewire.Failed, fmt.Sprintf("there is no kind %q", e.Kind))
}

func (w *workDir) makeFolder(names []forms) error {
	fd, _, err := w.folder(names, true)
	if errors.Is(err, unix.ENOTDIR) {
		return refusal(filewire.FileExists, "there is a file where a folder should be")
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func (w *workDir) makeLink(names []forms, target string) error {
	if target == "" || len(target) > maxPath || !filewire.IsName(target) {
		return refusal(filewire.InvalidPath, "the target of a link is empty, too long, or no text")
	}
	last := len(names) - 1
	folder, _, err := w.folder(names[:last], true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }()
	return unix.Symlinkat(target, folder, names[last].in(folder))
}
