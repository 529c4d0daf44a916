package e2b

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// switcher gives a context's variables to Python's kernel; a session has one kernel.
//
//go:embed context.py
var switcher string

// results has Python's kernel tell of values and figures what the SDKs have beside their text and picture.
//
//go:embed results.py
var results string

const (
	lookEvery   = 50 * time.Millisecond // at a run's output
	maxPiece    = 32 << 10              // bytes of a long output that are read at once
	maxContexts = 32                    // of one sandbox
)

// codeContext is a context. Each language has one by default; Python may have more, which share its kernel.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`

	order int // in which they were made
	runs  int
	clear bool                  // its variables go before the next run
	live  map[*sandbox.Run]bool // runs that were not seen to end
}

// stop interrupts a context's runs. The caller holds the sandbox's mu.
func (one *codeContext) stop() {
	for run := range one.live {
		run.Interrupt()
	}
}

func (s *server) interpreterRoutes(add router) {
	at := func(method, path, id, summary string, do func(c *call, b *box) error) {
		add(method, "/sandbox"+path, id, rest.RunTool, summary, func(c *call) error {
			b, err := c.awake(interpreterPort)
			if err != nil {
				return err
			}
			return do(c, b)
		})
	}
	add("GET", "/sandbox/health", "health", describe, "Tell whether a sandbox runs.", func(c *call) error {
		if _, err := c.awake(c.r.Header.Get(headerPort)); err != nil {
			return err
		}
		return c.answer(http.StatusNoContent, nil)
	})
	at("POST", "/execute", "execute", "Run code. The answer is lines of JSON.", (*call).execute)
	at("GET", "/contexts", "list_contexts", "List contexts.", func(c *call, b *box) error {
		b.mu.Lock()
		b.defaults(c)
		list := slices.Collect(maps.Values(b.contexts))
		b.mu.Unlock()
		slices.SortFunc(list, func(x, y *codeContext) int { return x.order - y.order })
		return c.answer(http.StatusOK, list)
	})
	at("POST", "/contexts", "create_context", "Make a context.", (*call).newContext)
	at("POST", "/contexts/{context}/restart", "restart_context", "Drop a context's variables.", func(c *call, b *box) error {
		one, err := b.context(c, c.r.PathValue("context"))
		if err != nil {
			return err
		}
		if one.Language != string(sandbox.Python) {
			return refuse(http.StatusNotImplemented, "contexts of %s cannot be restarted", one.Language)
		}
		b.mu.Lock()
		one.clear, one.runs = true, 0
		one.stop()
		b.mu.Unlock()
		return c.answer(http.StatusOK, nil)
	})
	at("DELETE", "/contexts/{context}", "remove_context", "Remove a context.", func(c *call, b *box) error {
		one, err := b.context(c, c.r.PathValue("context"))
		if err != nil {
			return err
		}
		err = c.update(b, func(of *record) { of.Contexts = slices.DeleteFunc(slices.Clone(of.Contexts), one.is) })
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, nil)
	})
}

// is reports whether another one is the same context.
func (one *codeContext) is(other codeContext) bool { return one.ID == other.ID }

// defaults makes the contexts of each language that runs here. The caller holds b.mu.
func (b *box) defaults(c *call) {
	if b.defaulted {
		return
	}
	b.defaulted = true
	for i, name := range []sandbox.Language{sandbox.Python, sandbox.JavaScript, sandbox.Bash} {
		if l, err := c.Language(string(name)); err == nil && l.Language == name {
			b.contexts[string(name)] = &codeContext{ID: string(name), Language: string(name), Dir: home, order: i}
		}
	}
}

// context finds a sandbox's context.
func (b *box) context(c *call, id string) (*codeContext, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.defaults(c)
	if one := b.contexts[id]; one != nil {
		return one, nil
	}
	return nil, refuse(http.StatusNotFound, "Context %s not found", text.Shorten(id, maxQuoted))
}

// language finds a language by the vendor's names.
func (c *call) language(name string) (kernel.LanguageInfo, error) {
	switch name = strings.ToLower(name); name {
	case "":
		name = string(sandbox.Python)
	case "ts", "typescript":
		name = string(sandbox.JavaScript)
	}
	l, err := c.Language(name)
	if err != nil {
		return l, refuse(http.StatusBadRequest, "there is no kernel of %q here", text.Shorten(name, maxQuoted))
	}
	return l, nil
}

func (c *call) newContext(b *box) error {
	var wanted struct {
		Language string `json:"language"`
		Dir      string `json:"cwd"`
	}
	if err := c.decode(&wanted); err != nil {
		return err
	}
	l, err := c.language(wanted.Language)
	if err != nil {
		return err
	}
	if l.Language != sandbox.Python {
		return refuse(http.StatusNotImplemented, "a sandbox has one context of %s: leave the context out", l.Language)
	}
	if len(wanted.Dir) > maxText {
		return refuse(http.StatusBadRequest, "cwd has over %d bytes", maxText)
	}
	one := &codeContext{ID: state.NewID("context-"), Language: string(l.Language), Dir: home}
	if wanted.Dir != "" {
		one.Dir = wanted.Dir
	}
	b.mu.Lock()
	b.defaults(c)
	isFull := len(b.contexts) >= maxContexts
	b.mu.Unlock()
	if isFull {
		return refuse(http.StatusTooManyRequests, "a sandbox may have %d contexts", maxContexts)
	}
	if err := c.update(b, func(of *record) { of.Contexts = append(slices.Clip(of.Contexts), *one) }); err != nil {
		return err
	}
	return c.answer(http.StatusOK, one)
}

type execution struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

func (c *call) execute(b *box) error {
	var wanted execution
	if err := c.decode(&wanted); err != nil {
		return err
	}
	if wanted.Context != "" && wanted.Language != "" {
		return refuse(http.StatusBadRequest, "Only one of context_id or language can be provided")
	}
	id := wanted.Context
	if id == "" {
		l, err := c.language(wanted.Language)
		if err != nil {
			return err
		}
		id = string(l.Language)
	}
	one, err := b.context(c, id)
	if err != nil {
		return err
	}
	out := &lineWriter{w: c.w, control: http.NewResponseController(c.w)}
	b.mu.Lock()
	if err := b.mayRun(); err != nil {
		b.mu.Unlock()
		return err
	}
	one.runs++
	count := one.runs
	options := sandbox.RunOptions{
		SessionID: b.record.ID, Language: sandbox.Language(one.Language), Code: wanted.Code, Before: b.before(one, wanted.Env), Caller: c.r.Context(),
		Timeout: c.Sessions().Config().MaxRunTimeout,
	}
	var run *sandbox.Run
	if strings.TrimSpace(wanted.Code) != "" { // in the calls' order
		if run, err = c.Sessions().Run(options); err == nil {
			if one.live == nil {
				one.live = make(map[*sandbox.Run]bool)
			}
			one.live[run] = true
		}
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	out.send(object{"type": "number_of_executions", "execution_count": count})
	if run != nil {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(one.live, run)
		}()
		c.followRun(run, out)
	}
	out.send(object{"type": "end_of_execution"})
	return nil
}

// lineWriter sends JSON lines.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (l *lineWriter) send(line object) {
	if l.err != nil {
		return
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(web.WriteTime))
	l.w.Header().Set("Content-Type", "application/x-ndjson")
	if _, l.err = l.w.Write(append(web.Encode(line), '\n')); l.err == nil {
		l.err = l.control.Flush()
	}
}

// followRun sends what a run prints, shows and comes to. It is interrupted when its client goes.
func (c *call) followRun(run *sandbox.Run, out *lineWriter) {
	ctx := c.r.Context()
	mask := c.Sessions().Config().Mask
	stdout, stderr := &printed{kind: "stdout", out: out, mask: mask}, &printed{kind: "stderr", out: out, mask: mask}
	open := func(path string, from sandbox.ReadOptions) (io.ReadCloser, error) {
		return c.Sessions().OpenFile(ctx, run.SessionID, path, from)
	}
	tell := func(res *sandbox.Result, last bool) error {
		if err := stdout.follow(ctx, res.Stdout, open, last); err != nil {
			return err
		}
		return stderr.follow(ctx, res.Stderr, open, last)
	}
	fail := func(err error) {
		run.Interrupt()
		out.send(errorLine("ExecutionError", apis.Sentence(fault.From(err).JSON()), ""))
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for over := false; !over; {
		select {
		case <-run.Done():
			over = true
		case <-look.C:
			if res := run.SoFar(ctx); res.Status == sandbox.Running {
				if err := tell(res, false); err != nil {
					fail(err)
					return
				}
			}
			if out.err != nil {
				run.Interrupt()
			}
		case <-ctx.Done():
			run.Interrupt()
			return
		}
	}
	res, err := run.Result()
	if _, missing := c.find(run.SessionID); missing != nil {
		panic(http.ErrAbortHandler) // as the vendor's connection breaks with the sandbox
	}
	if err != nil {
		out.send(errorLine("ExecutionError", apis.Sentence(map[string]any{"message": err.Error()}), ""))
		return
	}
	if err := tell(res, true); err != nil {
		fail(err)
		return
	}
	figures := 0
	for _, display := range res.Displays {
		for _, data := range display.Data {
			figures += len(data)
		}
	}
	if _, err := room.Take(ctx, apis.FigureRoom(figures)); err != nil {
		fail(err)
		return
	}
	for _, line := range linesOf(res, mask) {
		out.send(line)
	}
	switch {
	case res.Error != nil:
		out.send(errorLine(res.Error.Name, res.Error.Message, res.Error.Traceback))
	case res.Status != sandbox.Completed && res.Status != sandbox.Failed:
		out.send(errorLine("ExecutionError", "the run was "+res.Status.Words(), ""))
	case res.Status == sandbox.Failed:
		out.send(errorLine("ExitCode", fmt.Sprintf("the code ended with %d", res.ExitCode), ""))
	}
}

// printed sends a run's output as it comes, in whole characters and without secrets.
type printed struct {
	kind string // stdout or stderr
	out  *lineWriter
	mask *secrets.Masker

	sent  int             // bytes in a short output
	long  *secrets.Stream // of one that its result holds no longer as a whole, from its beginning on
	read  int64           // bytes of it
	skip  int             // bytes of it that were sent as a short one
	begun []byte          // bytes per character
}

// follow sends what is new in an output. The error is that there is no room.
func (p *printed) follow(ctx context.Context, now sandbox.Stream, open func(path string, from sandbox.ReadOptions) (io.ReadCloser, error), last bool) error {
	release, err := room.Take(ctx, apis.TextRoom(int64(max(maxPiece, len(now.Head)))))
	if err != nil {
		return err
	}
	defer release()
	if !now.Truncated() && p.long == nil {
		p.short(now.Head, last)
		return nil
	}
	if p.long == nil {
		p.long, p.skip = p.mask.Stream(p), p.sent
	}
	if file, err := open(now.Path, sandbox.ReadOptions{Offset: p.read, Limit: now.Bytes - p.read}); err == nil {
		n, _ := io.CopyBuffer(struct{ io.Writer }{p.long}, struct{ io.Reader }{file}, make([]byte, maxPiece))
		_ = file.Close()
		p.read += n
	}
	if last {
		_ = p.long.Close()
		p.say(p.begun)
		if p.read < now.Bytes { // the file is gone
			p.say([]byte("\n…\n" + now.Tail))
		}
	}
	return nil
}

// short sends the new part of a complete output, and holds back a tail that may begin a secret.
func (p *printed) short(head string, last bool) {
	var safe bytes.Buffer
	stream := p.mask.Stream(&safe)
	_, _ = io.WriteString(stream, head)
	if last {
		_ = stream.Close()
	}
	if safe.Len() > p.sent {
		p.say(safe.Bytes()[p.sent:])
		p.sent = safe.Len()
	}
}

// Write takes a piece from a long output.
func (p *printed) Write(data []byte) (int, error) {
	known := min(p.skip, len(data))
	p.skip -= known
	text := slices.Concat(p.begun, data[known:])
	whole := len(text)
	for i := 1; i <= min(utf8.UTFMax, len(text)); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	p.say(text[:whole])
	p.begun = bytes.Clone(text[whole:])
	return len(data), p.out.err
}

func (p *printed) say(text []byte) {
	if len(text) > 0 {
		p.out.send(object{"type": p.kind, "text": strings.ToValidUTF8(string(text), "\ufffd"), "timestamp": time.Now().UTC().Format(time.RFC3339Nano)})
	}
}

func errorLine(name, value, traceback string) object {
	return object{"type": "error", "name": name, "value": value, "traceback": traceback}
}

// unquoted is a text's value as the vendor shows it.
func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '\'' || value[0] == '"') {
		return value[1 : n-1]
	}
	return value
}

// formats are the fields of a result that the SDKs know, by MIME type: with others their to_json fails.
var formats = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "text/latex": "latex", "image/svg+xml": "svg", "image/png": "png",
	"image/jpeg": "jpeg", "application/pdf": "pdf", "application/json": "json", "application/javascript": "javascript",
}

// data is the type of a display that results.py makes: fields of a result.
const data = "application/vnd.code-sandbox.data+json"

// fields are those that it may have, and how their JSON begins.
var fields = map[string]byte{"text": '"', "html": '"', "markdown": '"', "latex": '"', "json": '{', "data": '{', "chart": '{'}

// tell adds what results.py tells. Numbers stay as they are: the SDKs tell 1.0 from 1.
func tell(line object, told []byte) (isMain bool) {
	var found map[string]json.RawMessage
	_ = json.Unmarshal(told, &found)
	for field, begins := range fields {
		if value := found[field]; len(value) > 0 && value[0] == begins {
			line[field] = value
		}
	}
	return string(found["main"]) == "true"
}

// linesOf returns the lines of a run's displays, and behind them that of its value, which has what is told or drawn of the value: a picture with
// its text is one.
func linesOf(res *sandbox.Result, mask *secrets.Masker) (lines []object) {
	var value object
	for _, display := range res.Displays {
		line := resultLine(display, mask)
		var text string
		if told, is := line["text"].(json.RawMessage); is && res.Value != nil && line["png"] != nil {
			_ = json.Unmarshal(told, &text)
		}
		switch {
		case line == nil:
		case line["is_main_result"] == true, text != "" && text == unquoted(*res.Value) && value == nil:
			value = line
		default:
			lines = append(lines, line)
		}
	}
	if res.Value != nil {
		if value == nil {
			value = object{"type": "result"}
		}
		value["text"] = unquoted(*res.Value)
	}
	if value != nil {
		value["is_main_result"] = true
		lines = append(lines, value)
	}
	return lines
}

func resultLine(display sandbox.Display, mask *secrets.Masker) object {
	line := object{"type": "result", "is_main_result": false}
	for mime, content := range display.Data {
		field, known := formats[mime]
		switch {
		case mime == data:
			line["is_main_result"] = tell(line, content)
		case !known:
		case field == "png":
			picture, text := takeChart(content)
			line[field] = base64.StdEncoding.EncodeToString(picture)
			tell(line, []byte(mask.Mask(string(text))))
		case field == "jpeg" || field == "pdf":
			line[field] = base64.StdEncoding.EncodeToString(content)
		case field == "json":
			var value map[string]json.RawMessage
			if json.Unmarshal(content, &value) == nil {
				line[field] = value
			}
		default:
			line[field] = string(content)
		}
	}
	if len(line) == 2 {
		return nil
	}
	return line
}

// nameFolder has JavaScript call the work folder by the vendor's name, as results.py has Python do it.
const nameFolder = `if (!process.cwd.real) { const real = process.cwd, {realpathSync} = require('fs'); ` +
	`try { if (realpathSync('` + home + `') === '` + engine.WorkDir + `') ` +
	`process.cwd = Object.assign(() => real().replace(/^\/mnt\/data(?![^/])/, '` + home + `'), {real}); } catch {} }`

// before is the server's own code before a run: it sets the sandbox's variables and the run's, takes back the previous run's, and
// changes to the context. The caller holds b.mu.
func (b *box) before(one *codeContext, env map[string]string) string {
	all := map[string]string{"HOME": engine.WorkDir} // as commands have it
	maps.Copy(all, b.record.Env)
	maps.Copy(all, env)
	var taken []string
	for _, name := range b.runEnv[one.Language] {
		if _, set := all[name]; !set {
			taken = append(taken, name)
		}
	}
	b.runEnv[one.Language] = slices.Sorted(maps.Keys(env))
	set, names := web.Encode(all), web.Encode(append([]string{}, taken...))
	switch sandbox.Language(one.Language) {
	case sandbox.Python:
		b.plain = b.plain && !one.clear && one.ID == string(sandbox.Python)
		request := web.Encode(object{
			"env": all, "taken": append([]string{}, taken...), "context": one.ID, "dir": realPath(one.Dir), "clear": one.clear,
			"contexts": slices.Sorted(maps.Keys(b.contexts)), "plain": b.plain, "home": engine.WorkDir,
		})
		one.clear = false
		return "exec(" + quotePython(switcher) + ", {'request': " + quotePython(string(request)) + "}); " +
			"hasattr(__import__('sys'), '_results') or exec(" + quotePython(results) + ", {'__name__': '_results', 'kernel': kernel})"
	case sandbox.JavaScript:
		return fmt.Sprintf("Object.assign(process.env, %s); for (const name of %s) delete process.env[name]; %s", set, names, nameFolder)
	case sandbox.Bash:
		var line strings.Builder
		for _, name := range slices.Sorted(maps.Keys(all)) {
			line.WriteString("export " + apis.Quote(name+"="+all[name]) + "; ")
		}
		for _, name := range taken {
			line.WriteString("unset " + apis.Quote(name) + "; ")
		}
		line.WriteString(`[ "$PWD" != ` + engine.WorkDir + " ] || cd " + home + " 2>/dev/null || :; ")
		return line.String()
	}
	return ""
}

// quotePython makes a Python literal, in one line. JSON's escapes are Python's too.
func quotePython(value string) string {
	return strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(web.Encode(value)))
}
