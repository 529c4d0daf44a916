//go:build linux

// Earlier states of the work directory, by its versions.

package files

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

// fileBefore opens a file as it was before a run.
func (f Folder) fileBefore(run string, names []forms) (*os.File, string, error) {
	if f.Versions == nil {
		return nil, "", pastInWords(versions.ErrUnknown)
	}
	file, path, err := f.Versions.Read(run, pathsOf(names))
	return file, path, pastInWords(err)
}

// pathsOf returns the path in each of its forms.
func pathsOf(names []forms) []string {
	paths := make([]string, len(names[0]))
	for form := range paths {
		parts := make([]string, len(names))
		for at, name := range names {
			parts[at] = name[form]
		}
		paths[form] = strings.Join(parts, "/")
	}
	return paths
}

func pastInWords(err error) error {
	lost := new(versions.NotKeptError)
	switch {
	case errors.Is(err, versions.ErrUnknown):
		return refusal(filewire.UnknownRun, err.Error())
	case errors.As(err, &lost):
		return refusal(filewire.NotKept, lost.Why)
	}
	return err
}

// listBefore lists the files from before a run, as list does.
func (f Folder) listBefore(run string, to io.Writer) (filewire.Answer, error) {
	if f.Versions == nil {
		return filewire.Answer{}, pastInWords(versions.ErrUnknown)
	}
	list, err := f.Versions.List(run)
	if err != nil {
		return filewire.Answer{}, pastInWords(err)
	}
	b := &batch{to: to}
	answer := filewire.Answer{End: true, Complete: true}
	for _, file := range list {
		switch {
		case slices.ContainsFunc(strings.Split(file.Path, "/"), isPassedOver):
			continue
		case !filewire.IsName(file.Path) || len(file.Path) > maxPath:
			answer.Skipped++
			continue
		case file.Why != "":
			answer.Gone++
		}
		e := filewire.Entry{Path: file.Path, Kind: filewire.Regular, SizeBytes: file.Size, ModifiedMS: time.Unix(0, file.Mtime).UnixMilli(), Mode: file.Mode}
		if err := b.add(e); err != nil {
			return filewire.Answer{}, err
		}
	}
	return answer, b.flush()
}

// past lists the versions of a file.
func (f Folder) past(r filewire.Request) (filewire.Answer, error) {
	names, err := namesOf(r)
	if err != nil || f.Versions == nil {
		return filewire.Answer{}, err
	}
	var answer filewire.Answer
	for _, v := range f.Versions.Of(pathsOf(names)) {
		answer.Versions = append(answer.Versions, filewire.Version{
			Before: v.Before, How: v.How, SizeBytes: v.File.Size, ModifiedMS: time.Unix(0, v.File.Mtime).UnixMilli(), Why: v.File.Why,
		})
	}
	return answer, nil
}
