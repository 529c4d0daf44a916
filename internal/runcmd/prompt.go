package runcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/peterh/liner"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// prompt runs the typed code until the input ends, or ctx does.
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
		case errors.Is(err, liner.ErrPromptAborted): // the typed text is dropped
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

// keepHistory writes the history for the next time, readable by this user alone. Without it nothing is lost but convenience.
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
	return language == sandbox.Bash && ends == '|' || language == sandbox.Python && (ends == ':' || strings.HasPrefix(last, "@") || strings.TrimLeft(last, " \t") != last)
}

// scan goes through code and returns the end of its last line, without comments and blanks, the number of open brackets, and whether a text
// or a comment of several lines is open.
func scan(language sandbox.Language, code string) (ends byte, depth int, open bool) {
	if language == sandbox.Bash {
		return scanBash(code)
	}
	comment, quotes := "//", []string{"`", "/*", `"`, `'`}
	if language == sandbox.Python {
		comment, quotes = "#", []string{`"""`, `'''`, `"`, `'`}
	}
	for i := 0; i < len(code); i++ {
		rest := code[i:]
		if strings.HasPrefix(rest, comment) {
			i += strings.IndexByte(rest, '\n') - 1 // every line is ended
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

var (
	bashToken = regexp.MustCompile("^(?:#[^\n]*|\\\\(?s:.)|\\$?'|\"|`|<<<|<<-?[ \t]*[^\\s;&|<>()]+|\\$?\\(\\(|\\$\\{|\\(\\)|\\$?\\(|\\)|&&|[|]+&?|[;&\n]|[ \t]+|[^\\s\"'`\\\\$();&|<>]+)")
	bashEnds  = map[string]string{"if": "fi", "case": "esac", "for": "done", "while": "done", "until": "done", "select": "done", "{": "}", "(": ")", "$(": ")"}
	bashGoOn  = []string{"if", "then", "else", "elif", "while", "until", "do", "{", "!", "time", "(", "$(", ";", "&", "&&", "||", "|", "|&", "\n", "()"}
	bashQuote = map[string]string{"'": "'", `"`: `"`, "`": "`", "$'": "'", "((": "))", "$((": "))", "${": "}"}
)

// scanBash is scan for bash: words count as keywords where a command may begin. It ends with | where a command must follow.
func scanBash(code string) (ends byte, depth int, open bool) {
	var closers, documents []string
	begins := true // a command, here
	for at, boundary := 0, true; at < len(code); {
		token := cmp.Or(bashToken.FindString(code[at:]), code[at:at+1])
		if token[0] == '#' && !boundary {
			token = "#"
		}
		at += len(token)
		boundary = strings.ContainsAny(token[len(token)-1:], " \t\n;&|()")
		if quote := bashQuote[token]; quote != "" {
			end := endOfQuote(code[at:], quote, token != "'")
			if end < 0 {
				return 0, len(closers), true
			}
			at += end
		}
		switch last := len(closers) - 1; {
		case token[0] == '#' || strings.Trim(token, " \t") == "":
			continue
		case strings.HasPrefix(token, "<<") && token != "<<<":
			documents = append(documents, strings.Map(unquoted, token[2:]))
		case token == "\n":
			for _, word := range documents {
				end := endOfDocument(code[at:], word)
				if end < 0 {
					return 0, len(closers), true
				}
				at += end
			}
			documents = nil
		case last >= 0 && token == closers[last] && (begins || token == ")"):
			closers = closers[:last]
		case bashEnds[token] != "" && (begins || strings.HasSuffix(token, "(")):
			closers = append(closers, bashEnds[token])
		}
		if token != "\n" {
			ends = 0
			if token == "()" || strings.HasPrefix(token, "|") || token == "&&" {
				ends = '|'
			}
		}
		begins = slices.Contains(bashGoOn, token) && (begins || boundary) || token == ")"
	}
	return ends, len(closers), false
}

// endOfQuote is how far a quoted text goes, its end included.
func endOfQuote(text, end string, escapes bool) int {
	for i := 0; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], end):
			return i + len(end)
		}
	}
	return -1
}

// endOfDocument is how far a here-document goes that word ends, with a hyphen before it where tabs do not count.
func endOfDocument(text, word string) int {
	end, tabs := strings.CutPrefix(word, "-")
	at := 0
	for line := range strings.Lines(text) {
		at += len(line)
		line = strings.TrimSuffix(line, "\n")
		if tabs {
			line = strings.TrimLeft(line, "\t")
		}
		if line == end {
			return at
		}
	}
	return -1
}

// unquoted drops the quotes of the word of a here-document.
func unquoted(r rune) rune {
	if strings.ContainsRune("\"'\\ \t", r) {
		return -1
	}
	return r
}
