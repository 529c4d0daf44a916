package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	home        = "/home/user" // the vendor's name of engine.WorkDir
	workspace   = "/workspace" // that of OpenAI's Agents SDK
	user        = "user"
	maxPrograms = 64      // that run in one sandbox at once
	maxText     = 4 << 10 // bytes of a tag or a folder that is kept
	maxClients  = 16      // that follow one program
	queued      = 16      // pieces of output for a client, before the program waits for it
	maxArgument = 16 << 10
	maxListed   = 64 << 10 // bytes of a program's arguments and environment that the list of programs shows
	maxCommand  = 1 << 20  // bytes of a shell's command, which is no argument then
	// readCommand has a shell run the command in a file as if it were this one.
	readCommand = "c=$(cat -- \"$1\"); rm -f -- \"$1\"; shift; eval \"unset c\n$c\""
)

// program is a running program with the clients that follow it.
type program struct {
	*sandbox.Program
	config processConfig
	tag    *string
	pty    bool
	closed atomic.Bool   // its input
	ended  chan struct{} // is closed with its end

	mu      sync.Mutex
	clients map[*client]bool
	over    bool
}

// client is one that follows a program. gone is closed when it no longer does.
type client struct {
	events chan processEvent
	gone   chan struct{}
}

// Messages in process.proto, by their fields' JSON names.
type (
	processConfig struct {
		Command string            `json:"cmd"`
		Args    []string          `json:"args,omitempty"`
		Env     map[string]string `json:"envs,omitempty"`
		Dir     *string           `json:"cwd,omitempty"`
	}
	ptySize struct {
		Size struct {
			Cols uint16 `json:"cols"`
			Rows uint16 `json:"rows"`
		} `json:"size"`
	}
	startRequest struct {
		Process processConfig `json:"process"`
		PTY     *ptySize      `json:"pty"`
		Tag     *string       `json:"tag"`
		Stdin   *bool         `json:"stdin"`
	}
	selector struct {
		PID int    `json:"pid"`
		Tag string `json:"tag"`
	}
	input struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}
	processRequest struct {
		Process selector `json:"process"`
		Input   input    `json:"input"`
		Signal  string   `json:"signal"`
		PTY     *ptySize `json:"pty"`
	}
	inputEvent struct {
		Start *struct {
			Process selector `json:"process"`
		} `json:"start"`
		Data *struct {
			Input input `json:"input"`
		} `json:"data"`
	}
	processEvent struct {
		Start     *startEvent       `json:"start,omitempty"`
		Data      map[string][]byte `json:"data,omitempty"` // by stdout, stderr or pty
		End       *endEvent         `json:"end,omitempty"`
		KeepAlive *struct{}         `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID int `json:"pid"`
	}
	endEvent struct {
		Code   int     `json:"exitCode"`
		Exited bool    `json:"exited"`
		Status string  `json:"status"`
		Error  *string `json:"error,omitempty"`
		lost   error
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    int           `json:"pid"`
		Tag    *string       `json:"tag,omitempty"`
	}
)

// listed returns the part of a program's start that is kept while it runs.
func (p processConfig) listed() processConfig {
	if len(web.Encode(p)) > maxListed {
		return processConfig{Command: text.Shorten(p.Command, maxText), Dir: p.Dir}
	}
	return p
}

// realPath is the path in the container that a client means: relative ones are of its home.
func realPath(given string) string {
	if given == "~" {
		given = ""
	}
	full := path.Clean(strings.TrimPrefix(given, "~/"))
	if !path.IsAbs(full) {
		full = path.Join(home, full)
	}
	for _, name := range []string{home, workspace} {
		if below, is := strings.CutPrefix(full+"/", name+"/"); is {
			return path.Join(engine.WorkDir, below)
		}
	}
	return full
}

// checkUser refuses users that a sandbox does not have.
func (c *call) checkUser(name string) error {
	if name != "" && name != user {
		return &rpcError{Code: "unauthenticated", Message: "invalid username: there is one user, " + user + ", and not " + text.Shorten(name, maxQuoted)}
	}
	return nil
}

// environment is that of a sandbox's programs.
func (b *box) environment(more map[string]string) map[string]string {
	env := map[string]string{
		"HOME": engine.WorkDir, "USER": user, "LOGNAME": user, "E2B_SANDBOX": "true", "E2B_SANDBOX_ID": b.record.ID,
		// Bash's functions: the work folder's other names are links, which these would show and not follow.
		"BASH_FUNC_ls%%":   `() { case "${!#}" in ` + home + "|" + workspace + `) set -- -H "$@";; esac; command ls "$@"; }`,
		"BASH_FUNC_find%%": `() { command find -H "$@"; }`,
	}
	for _, from := range []map[string]string{b.record.Env, more} {
		for name, value := range from {
			env[name] = value
		}
	}
	return env
}

func (c *call) start(ctx context.Context, b *box, r startRequest) (*program, *client, error) {
	if err := c.checkUser(c.r.Header.Get(headerUser)); err != nil {
		return nil, nil, err
	}
	if r.Tag != nil && len(*r.Tag) > maxText {
		return nil, nil, &rpcError{Code: codeInvalid, Message: fmt.Sprintf("the tag has over %d bytes", maxText)}
	}
	b.mu.Lock()
	full := len(b.programs)+b.starting >= maxPrograms
	if !full {
		b.starting++
	}
	b.mu.Unlock()
	if full {
		return nil, nil, &rpcError{Code: "resource_exhausted", Message: "too many processes run in this sandbox"}
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.starting--
	}()
	argv := append([]string{r.Process.Command}, r.Process.Args...)
	short, err := c.withoutLongCommand(b, argv)
	if err != nil {
		return nil, nil, err
	}
	spec := sandbox.ProgramSpec{
		SessionID: b.record.ID, Argv: short, Title: text.Shorten(strings.Join(argv, " "), 2*maxArgument), Env: b.environment(r.Process.Env), Timeout: c.timeout(),
	}
	if r.Process.Dir != nil {
		spec.Dir = realPath(*r.Process.Dir)
	}
	if below, is := strings.CutPrefix(spec.Dir+"/", engine.WorkDir+"/"); is || spec.Dir == "" {
		name := home
		if r.Process.Dir != nil && strings.HasPrefix(*r.Process.Dir+"/", workspace+"/") {
			name = workspace
		}
		spec.Env["PWD"] = path.Join(name, below) // a shell goes by that name, if the image has it
	}
	if r.PTY != nil {
		spec.Terminal = &sandbox.TerminalSize{Rows: r.PTY.Size.Rows, Cols: r.PTY.Size.Cols}
	}
	started, err := c.program(ctx, b, spec)
	if err != nil {
		return nil, nil, err
	}
	p := &program{Program: started, config: r.Process.listed(), tag: r.Tag, pty: r.PTY != nil, ended: make(chan struct{}), clients: make(map[*client]bool)}
	if r.PTY == nil && r.Stdin != nil && !*r.Stdin {
		p.closed.Store(true)
		go func() { _ = started.CloseInput(context.WithoutCancel(ctx)) }() // which is not known before what is printed was received
	}
	first := p.join()
	b.mu.Lock()
	b.programs[p.PID] = p
	b.mu.Unlock()
	go p.tell(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.programs[p.PID] == p {
			delete(b.programs, p.PID)
		}
	})
	return p, first, nil
}

// withoutLongCommand has a shell read a long command from a file: Linux bounds an argument.
func (c *call) withoutLongCommand(b *box, argv []string) ([]string, error) {
	at := slices.IndexFunc(argv, func(argument string) bool { return len(argument) > maxArgument })
	if at < 0 {
		return argv, nil
	}
	if length := len(argv[at]); at < 2 || argv[at-1] != "-c" || length > maxCommand {
		return nil, &rpcError{Code: codeInvalid, Message: fmt.Sprintf("argument %d has %d bytes: a shell's command (-c) may have %d, others %d", at, length, maxCommand, maxArgument)}
	}
	name := "/tmp/.e2b-command-" + rand.Text()
	if err := c.operate(b, "write", pathRequest{Path: name}, strings.NewReader(argv[at]), func([]byte) error { return nil }); err != nil {
		return nil, err
	}
	rest := argv[at+1:]
	if len(rest) == 0 {
		rest = argv[:1] // a shell's own name
	}
	return slices.Concat(argv[:at], []string{readCommand, rest[0], name}, rest[1:]), nil
}

// join makes a client; nil: there are too many, or the program is over.
func (p *program) join() *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.clients) >= maxClients {
		return nil
	}
	one := &client{make(chan processEvent, queued), make(chan struct{})}
	p.clients[one] = true
	return one
}

func (p *program) leave(one *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients[one] {
		delete(p.clients, one)
		close(one.gone)
	}
}

// tell passes a program's output to its clients, and waits for slow ones; without any it is dropped.
func (p *program) tell(over func()) {
	pass := func(event processEvent) {
		p.mu.Lock()
		clients := make([]*client, 0, len(p.clients))
		for one := range p.clients {
			clients = append(clients, one)
		}
		p.mu.Unlock()
		for _, one := range clients {
			select {
			case one.events <- event:
			case <-one.gone:
			}
		}
	}
	for out := range p.Output {
		if out.Exit == nil {
			pass(processEvent{Data: map[string][]byte{out.Stream: out.Data}})
			continue
		}
		over()
		p.mu.Lock()
		p.over = true
		close(p.ended)
		p.mu.Unlock()
		pass(processEvent{End: endOf(out.Exit)})
	}
}

func endOf(exit *sandbox.ProgramExit) *endEvent {
	end := &endEvent{Code: exit.Code, Exited: exit.Signal == 0, Status: "exit status " + strconv.Itoa(exit.Code), lost: exit.Lost}
	if exit.Signal != 0 {
		end.Code, end.Status = -1, "signal: "+exit.Signal.String()
	}
	if exit.ForMemory {
		end.Status += ": the sandbox's memory was nearly full"
	}
	if end.Code != 0 {
		end.Error = &end.Status
	}
	return end
}

// follow sends a program's events to a client, until the program ends or ctx does.
func (c *call) follow(ctx context.Context, p *program, one *client, out *stream) error {
	defer p.leave(one)
	send := func(event processEvent) error { return out.send(0, object{"event": event}) }
	if err := send(processEvent{Start: &startEvent{p.PID}}); err != nil {
		return err
	}
	pings := c.pings()
	defer pings.Stop()
	for {
		var event processEvent
		select {
		case event = <-one.events:
		case <-pings.C:
			event.KeepAlive = &struct{}{}
		case <-ctx.Done():
			return ctx.Err()
		}
		if event.End != nil && event.End.lost != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			panic(http.ErrAbortHandler) // the SDKs ask whether the sandbox is there when a connection breaks
		}
		if err := send(event); err != nil || event.End != nil {
			return err
		}
	}
}

func (c *call) startProcess(ctx context.Context, b *box, r startRequest, out *stream) error {
	// Its start is for this request, and its life is not.
	p, first, err := c.start(ctx, b, r)
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.Kill()
		}
	}()
	return c.follow(ctx, p, first, out)
}

func (c *call) connectProcess(ctx context.Context, b *box, r processRequest, out *stream) error {
	p, err := b.program(r.Process)
	if err != nil {
		return err
	}
	one := p.join()
	if one == nil {
		return &rpcError{Code: codeNotFound, Message: "the process has ended, or has too many clients"}
	}
	return c.follow(ctx, p, one, out)
}

// program finds a sandbox's program. Process 1 and programs that the API did not start are none.
func (b *box) program(s selector) (*program, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.programs[s.PID]; p != nil {
		return p, nil
	}
	for _, p := range b.programs {
		if s.Tag != "" && p.tag != nil && *p.tag == s.Tag {
			return p, nil
		}
	}
	return nil, &rpcError{Code: codeNotFound, Message: "process with pid " + strconv.Itoa(s.PID) + " not found"}
}

func (c *call) listProcesses(b *box, _ struct{}) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []processInfo{}
	for _, p := range b.programs {
		list = append(list, processInfo{p.config, p.PID, p.tag})
	}
	slices.SortFunc(list, func(x, y processInfo) int { return x.PID - y.PID })
	return object{"processes": list}, nil
}

func (p *program) write(ctx context.Context, in input) error {
	data := in.Stdin
	if p.pty {
		data = in.PTY
	}
	if p.pty == (in.Stdin != nil) {
		return &rpcError{Code: codePrecondition, Message: "the process has the other kind of input"}
	}
	if p.closed.Load() {
		return &rpcError{Code: codePrecondition, Message: "the process's input is closed: start it with stdin"}
	}
	return overOr(p.Write(ctx, data))
}

func overOr(err error) error {
	if errors.Is(err, sandbox.ErrProgramOver) {
		return &rpcError{Code: codeNotFound, Message: "the process has ended"}
	}
	return err
}

var signals = map[string]syscall.Signal{"SIGNAL_SIGTERM": syscall.SIGTERM, "SIGNAL_SIGKILL": syscall.SIGKILL}

// onProcess serves a call about one program.
func onProcess(do func(ctx context.Context, p *program, r processRequest) error) func(*call, *box) error {
	return unary(func(c *call, b *box, r processRequest) (any, error) {
		p, err := b.program(r.Process)
		if err != nil {
			return nil, err
		}
		ctx := c.r.Context()
		if limit := c.timeout(); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return object{}, do(ctx, p, r)
	})
}

func resizeProcess(_ context.Context, p *program, r processRequest) error {
	if !p.pty || r.PTY == nil {
		return &rpcError{Code: codePrecondition, Message: "the process has no terminal"}
	}
	return overOr(p.Resize(sandbox.TerminalSize{Rows: r.PTY.Size.Rows, Cols: r.PTY.Size.Cols}))
}

func signalProcess(_ context.Context, p *program, r processRequest) error {
	signal, known := signals[r.Signal]
	if !known {
		return &rpcError{Code: codeInvalid, Message: "the signals are SIGNAL_SIGTERM and SIGNAL_SIGKILL"}
	}
	return overOr(p.Signal(signal))
}

func closeInput(ctx context.Context, p *program, _ processRequest) error {
	if p.pty {
		return &rpcError{Code: codePrecondition, Message: "the process has a terminal: send it Ctrl+D"}
	}
	p.closed.Store(true)
	if err := p.CloseInput(ctx); !errors.Is(err, sandbox.ErrProgramOver) { // by which it may end before that is answered
		return err
	}
	return nil
}

// streamInput writes an input stream as it comes, which may take as long as the program.
func (c *call) streamInput(ctx context.Context, b *box, first inputEvent, out *stream) error {
	if first.Start == nil {
		return &rpcError{Code: codeInvalid, Message: "the first message must be start"}
	}
	p, err := b.program(first.Start.Process)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := func() { _ = c.in.control.SetReadDeadline(time.Now()) }
	ended := context.AfterFunc(ctx, stop)
	defer stop() // else the answer would wait for a body's rest that stays open
	defer cancel()
	defer ended()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		_ = c.in.control.SetReadDeadline(time.Time{})
		var next inputEvent
		err := ctx.Err() // from behind that deadline on, another ends the reading
		if err == nil {
			err = c.in.next(ctx, &next)
		}
		if errors.Is(err, io.EOF) {
			return out.send(0, object{})
		}
		select {
		case <-p.ended:
			return overOr(sandbox.ErrProgramOver)
		default:
		}
		if err = cmp.Or(ctx.Err(), err); err == nil && next.Data != nil {
			err = p.write(ctx, next.Data.Input)
		}
		if err != nil {
			return err
		}
	}
}

const helperTime = 10 * time.Minute // of an operation on files
