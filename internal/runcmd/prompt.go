package runcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/peterh/liner"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// prompt runs what is typed until the input ends, or ctx does.
func (r *Runner) prompt(ctx context.Context) int {
	editor := liner.NewLiner()
	defer func() { _ = editor.Close() }()
	editor.SetCtrlCAborts(true)
	if past, err := os.Open(r.Job.History); err == nil {
		_, _ = editor.ReadHistory(past)
		_ = past.Close()
	}
	defer r.keepHistory(editor)
	for {
		code, err := r.ask(ctx, editor)
		switch {
		case errors.Is(err, liner.ErrPromptAborted): // what was typed is dropped
		case errors.Is(err, io.EOF):
			return 0
		case err != nil:
			return r.notRun(ctx, err)
		case strings.TrimSpace(code) != "":
			r.runTyped(ctx, code)
		}
	}
}

// ask reads lines until they make code that is finished.
func (r *Runner) ask(ctx context.Context, editor *liner.State) (string, error) {
	var code string
	sign, next := ">>> ", "... "
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		sign, next = "", "" // nobody types
	}
	for ; ; sign = next {
		line, err := promptFor(ctx, editor, sign)
		if err != nil {
			if errors.Is(err, io.EOF) && code != "" {
				return code, nil
			}
			return "", err
		}
		if strings.TrimSpace(line) != "" {
			editor.AppendHistory(line)
		}
		if code += line + "\n"; !unfinished(r.Job.Language, code) {
			return code, nil
		}
	}
}

// promptFor reads one line, and returns when ctx ends too: its goroutine is left to the end of the program then.
func promptFor(ctx context.Context, editor *liner.State, sign string) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := editor.Prompt(sign)
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// keepHistory writes what was typed for the next time, for this user alone. Without it nothing is lost but convenience.
func (r *Runner) keepHistory(editor *liner.State) {
	file, err := os.OpenFile(r.Job.History, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	_, _ = editor.WriteHistory(file)
	_ = file.Close()
}

// unfinished reports whether the lines that were typed look as if more belonged to them. It is a guess that an empty line
// ends, but in a text of several lines.
func unfinished(language sandbox.Language, code string) bool {
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	last := lines[len(lines)-1]
	ends, depth, open := scan(language, code)
	switch {
	case open:
		return true
	case strings.TrimSpace(last) == "":
		return false
	case depth > 0, strings.HasSuffix(last, `\`), strings.HasPrefix(code, "%%"):
		return true
	}
	return language == sandbox.Python && (ends == ':' || strings.HasPrefix(last, "@") || strings.TrimLeft(last, " \t") != last)
}

// scan goes through code and returns what its last line ends with, comments and blanks aside, how many brackets are open,
// and whether a text or a comment of several lines is.
func scan(language sandbox.Language, code string) (ends byte, depth int, open bool) {
	comment, quotes := "//", []string{"`", "/*", `"`, `'`}
	if language == sandbox.Python {
		comment, quotes = "#", []string{`"""`, `'''`, `"`, `'`}
	}
	for i := 0; i < len(code); i++ {
		rest := code[i:]
		if strings.HasPrefix(rest, comment) {
			i += strings.IndexByte(rest, '\n') - 1 // every line has its end
			continue
		}
		if quote := beginning(rest, quotes); quote != "" {
			length, closed := quoted(rest, quote)
			if !closed {
				return 0, depth, true
			}
			i += length - 1
			ends = quote[0]
			continue
		}
		switch c := code[i]; c {
		case '(', '[', '{':
			depth++
			ends = c
		case ')', ']', '}':
			depth--
			ends = c
		case '\n':
			if i < len(code)-1 {
				ends = 0
			}
		case ' ', '\t', '\r':
		default:
			ends = c
		}
	}
	return ends, depth, false
}

func beginning(text string, of []string) string {
	for _, b := range of {
		if strings.HasPrefix(text, b) {
			return b
		}
	}
	return ""
}

// quoted returns how long the quoted text is that text begins with. One of a single line ends with the line.
func quoted(text, quote string) (length int, closed bool) {
	end, oneLine := quote, quote == `"` || quote == `'`
	if quote == "/*" {
		end = "*/"
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case oneLine && text[i] == '\n':
			return i, true
		case strings.HasPrefix(text[i:], end):
			return i + len(end), true
		}
	}
	return len(text), oneLine
}
