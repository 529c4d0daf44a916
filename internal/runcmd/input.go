package runcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// Request is a command line.
type Request struct {
	Args       []string  // a file of code, or - for Stdin, and input files
	Given      []string  // the code's arguments
	Language   string    // empty: the language of the file's name
	Out        string    // the folder that files are saved to; empty: none
	Stdin      io.Reader // of the code
	Data       io.Reader // the code's own stdin; nil: none
	Forwards   []string  // PORT or LOCAL:PORT each
	CodeBytes  int64     // the longest code
	InputBytes int64     // the largest input file
	// Kernels are the languages that are on.
	Kernels map[sandbox.Language]sandbox.KernelConfig
}

// Job is the work that a command line asks for.
type Job struct {
	Language sandbox.Language
	Code     string
	Out      string
	file     string        // the file of the code; empty: it has none
	given    []string      // its arguments
	data     io.Reader     // its stdin; nil: none
	inputs   []string      // paths; their last names all differ
	dirs     *hostdir.Dirs // Out alone
	forwards []forward
}

// fromStdin, as the name of a file, means stdin.
const fromStdin = "-"

// Read checks a command line, reads its code and makes the folder that files are saved to. The error is a fault.
func Read(q Request) (*Job, error) {
	text, err := readCode(q.Args[0], q.Stdin, q.CodeBytes)
	if err != nil {
		return nil, err
	}
	job := &Job{Code: text, Out: q.Out, inputs: q.Args[1:], given: q.Given, data: q.Data, file: strings.TrimPrefix(q.Args[0], fromStdin)}
	if err := job.setLanguage(q, q.Args[0]); err != nil {
		return nil, err
	}
	if err := checkInputs(job.inputs, q.InputBytes); err != nil {
		return nil, err
	}
	for _, given := range q.Forwards {
		f, err := readForward(given)
		if err != nil {
			return nil, err
		}
		job.forwards = append(job.forwards, f)
	}
	return job, job.makeOut()
}

// setLanguage finds the language: the one that is named, the one that the file's name says, or, for stdin, the first.
func (j *Job) setLanguage(q Request, name string) error {
	language, known := kernel.LanguageOfFile(name)
	switch {
	case q.Language != "":
		if language, known = kernel.LanguageCalled(q.Language); !known {
			return fault.New(fault.InvalidArgument, "Use "+kernel.ListLanguages("or")+".", "There is no language %q.", q.Language)
		}
	case known:
	case name == fromStdin:
		language = kernel.Languages[0].Language
	default:
		return fault.New(fault.InvalidArgument,
			"Say --language "+kernel.ListLanguages("or")+", or use one of the endings "+kernel.JoinLanguages(" ", func(i kernel.LanguageInfo) string { return strings.Join(i.Extensions, " ") })+".",
			"The ending of %q is of no language that is known here.", name)
	}
	if _, on := q.Kernels[language]; !on {
		return fault.New(fault.InvalidArgument, "Leave --"+language.Info().ImageFlag()+" off out.", "%s is switched off.", language.Info().Title)
	}
	j.Language = language
	return nil
}

func readCode(name string, stdin io.Reader, limit int64) (string, error) {
	from := stdin
	if name != fromStdin {
		file, err := openRegular(name)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return "", cannotRead(name, err)
	case bytes.IndexByte(text, 0) >= 0:
		return "", notText(name)
	case int64(len(text)) > limit:
		return "", fault.New(fault.CodeTooLarge, "Give parts of it as input files that the code imports.",
			"The code in %q has more than %s.", name, units.HumanSize(float64(limit)))
	case !utf8.Valid(text):
		return "", notText(name)
	}
	return string(text), nil
}

func notText(name string) error {
	return fault.New(fault.InvalidContent, "Name a file of code, saved as UTF-8, first; files of data come behind it.", "%q is not text in UTF-8.", name)
}

// openRegular opens a file that is neither a folder nor a device. Its error is a fault.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, cannotRead(name, err)
	case info.IsDir():
		return nil, fault.New(fault.InvalidArgument, "Name the files in it.", "%q is a folder.", name)
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.InvalidArgument, "Name a file.", "%q is a device or a pipe.", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, cannotRead(name, err)
	}
	return file, nil
}

func cannotRead(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "Check the path: it is taken from the folder that you are in.", "There is no file %q.", name).Because(err)
	}
	return fault.New(fault.InvalidArgument, "Name a file that you may read.", "%q cannot be read: %v.", name, plainly(err)).Because(err)
}

func checkInputs(paths []string, limit int64) error {
	var names []string
	for _, path := range paths {
		file, err := openRegular(path)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		_ = file.Close()
		switch name := filepath.Base(path); {
		case err != nil:
			return cannotRead(path, err)
		case info.Size() > limit:
			return fault.New(fault.UploadTooLarge, "Raise --download-limit, or give a part of it.",
				"%q has %s, and an input file may have %s.", path, units.HumanSize(float64(info.Size())), units.HumanSize(float64(limit)))
		case slices.Contains(names, name):
			return fault.New(fault.InvalidArgument, "Rename one of them: they come into one folder.", "Two input files are called %q.", name)
		default:
			names = append(names, name)
		}
	}
	return nil
}

// uploadFile puts a file of the host into the session's working directory, under its own name.
func (r *Runner) uploadFile(ctx context.Context, path string) error {
	name, err := sandbox.CleanPath(filepath.Base(path))
	if err != nil {
		return err
	}
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, _, err = r.Manager.Upload(ctx, sandbox.Upload{SessionID: r.SessionID, Path: name, Overwrite: true, Content: file})
	return err
}

// makeOut makes the folder that files are saved to.
func (j *Job) makeOut() (err error) {
	if j.Out == "" {
		return nil
	}
	if err = os.MkdirAll(j.Out, 0o755); err == nil {
		j.dirs, err = hostdir.New([]string{j.Out})
	}
	if err != nil {
		return fault.New(fault.InvalidArgument, "Name a folder for --out that exists or can be made.", "Nothing can be saved to %q: %v.", j.Out, plainly(err)).Because(err)
	}
	return nil
}

// plainly drops the path from an error of the file system, because it is named already.
func plainly(err error) error {
	var because *fs.PathError
	if errors.As(err, &because) {
		return because.Err
	}
	return err
}
