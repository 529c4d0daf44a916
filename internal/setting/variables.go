package setting

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joho/godotenv"
)

// Variables looks variables up in the process's environment, and then in files of variables. The zero value knows the process's alone. It
// is constant once the settings are loaded.
type Variables struct {
	own   func(name string) (string, bool)
	files []variableFile // the stronger first
}

type variableFile struct {
	path   string
	values map[string]string
}

// find returns a variable and its file; no file: the process's environment.
func (e *Variables) find(name string) (value, file string, ok bool) {
	own := e.own
	if own == nil {
		own = os.LookupEnv
	}
	if value, ok := own(name); ok {
		return value, "", true
	}
	for _, f := range e.files {
		if value, ok := f.values[name]; ok {
			return value, f.path, true
		}
	}
	return "", "", false
}

// Lookup returns a variable.
func (e *Variables) Lookup(name string) (string, bool) {
	value, _, ok := e.find(name)
	return value, ok
}

// Environ returns all variables as os.Environ does. The process's own stand last, where they count.
func (e *Variables) Environ() []string {
	var all []string
	for _, f := range slices.Backward(e.files) {
		for name, value := range f.values {
			all = append(all, name+"="+value)
		}
	}
	return append(all, os.Environ()...)
}

// PassThrough returns the values of the named variables; it leaves out unset ones.
func (e *Variables) PassThrough(names []string, log *slog.Logger) map[string]string {
	values := make(map[string]string)
	for _, name := range names {
		value, ok := e.Lookup(name)
		if !ok {
			log.Warn("variable to pass through is not set", "name", name)
			continue
		}
		values[name] = value
	}
	return values
}

// read adds a file, weaker than those before it. The errors name no line: a line may hold a secret.
func (e *Variables) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	values, err := godotenv.UnmarshalBytes(text)
	if err != nil {
		return fmt.Errorf("%s: a line of it does not have the form NAME=value; a value with spaces, quotes, # or $ stands in 'single quotes'", path)
	}
	e.files = append(e.files, variableFile{path, values})
	return nil
}

// readFiles reads the files of --env-file. Later files are stronger.
func (e *Variables) readFiles(paths []string) error {
	var problems []error
	for _, path := range slices.Backward(paths) {
		if err := e.read(path); err != nil {
			problems = append(problems, fmt.Errorf("--env-file: %w", err))
		}
	}
	return errors.Join(problems...)
}

// readBeside reads the .env in the folder of the configuration file, if there is one. It does not look in the working directory: clients
// start servers in any open folder, and its .env belongs to a stranger or another program.
func (e *Variables) readBeside(config string) error {
	err := e.read(filepath.Join(filepath.Dir(config), ".env"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

type fileList []string

func (l *fileList) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

// Append, Replace and GetSlice are pflag.SliceValue.
func (l *fileList) Append(text string) error { return l.Set(text) }

// Replace begins the list anew.
func (l *fileList) Replace(texts []string) error {
	*l = texts
	return nil
}

// GetSlice returns the files.
func (l *fileList) GetSlice() []string { return slices.Clone(*l) }

func (l *fileList) String() string { return strings.Join(*l, ",") }

// Type names the value in a flag's help.
func (l *fileList) Type() string { return "files" }
