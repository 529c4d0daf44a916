package upstream

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	// maxUnasked limits the bytes that a server may send, since its last answer, other than answers: notifications, requests, garbage.
	maxUnasked = 64 << 20
	// usualLine is the length up to which a message is read without checking the bytes held already.
	usualLine = 1 << 20
	// maxGreeting limits a message before the server named itself: these are decoded whole.
	maxGreeting = 1 << 20
	// stderrBytes is the part of one process's stderr that gets into the log.
	stderrBytes = 64 << 10
	// stderrLine bounds one line there.
	stderrLine = 500
	// drainTime is the time for which a process's output is still read after it ended while its children hold the pipe.
	drainTime = 500 * time.Millisecond
)

var errEnded = errors.New("the server has ended")

// process is a server that was started, as a transport of the protocol: a JSON message a line on stdin and stdout. Unlike the client
// library's own it bounds its reads, writes without holding up a caller, and ends the whole process group.
type process struct {
	command        *exec.Cmd
	stdin, stdout  *os.File
	gate           *gate
	maxAnswer      int
	greeted        *atomic.Bool
	log            *slog.Logger
	out            chan []byte
	exited         chan struct{}
	listChanged    func()
	unasked, noted int
	pings          atomic.Int64

	mu      sync.Mutex
	pending map[string]asking
	err     error         // why it is over
	done    chan struct{} // closed when it is
}

// asking is a request that waits for its answer. It may hold the answer's memory until ctx ends.
type asking struct {
	ctx      context.Context
	answered chan *transport.JSONRPCResponse
}

// passedOn are the variables that a server gets beside those of its definition: those that clients give, and those of a proxy. The rest of
// this process's environment is none of its business.
var passedOn = strings.Fields(`HOME LOGNAME PATH SHELL TERM USER LANG LC_ALL TMPDIR TZ XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
	XDG_RUNTIME_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
	APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME
	USERPROFILE WINDIR`)

func environment(own map[string]string) []string {
	var env []string
	for _, name := range passedOn {
		if value, is := os.LookupEnv(name); is {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range own { // the last of a name is the one that counts
		env = append(env, name+"="+value)
	}
	return env
}

// program returns the path of a server's command: in the PATH that its definition sets, as clients look for it, or in this process's.
func program(d Definition) string {
	if !strings.ContainsAny(d.Command, `/\`) {
		for _, folder := range filepath.SplitList(d.Env["PATH"]) {
			if found, err := exec.LookPath(filepath.Join(folder, d.Command)); err == nil && filepath.IsAbs(found) {
				return found
			}
		}
	}
	found, err := exec.LookPath(d.Command)
	if err != nil {
		return d.Command
	}
	return found
}

// startProcess starts a server; read takes its messages. The error quotes no value of its definition. greeted is set once it named itself.
func startProcess(d Definition, gate *gate, maxAnswer int, greeted *atomic.Bool, log *slog.Logger) (*process, error) {
	command := exec.Command(program(d), d.Args...)
	command.Env, command.Dir = environment(d.Env), d.Dir
	apart(command)
	theirIn, stdin, err := os.Pipe()
	stdout, theirOut, err1 := os.Pipe()
	stderr, theirErr, err2 := os.Pipe()
	err = cmp.Or(err, err1, err2)
	if err == nil {
		command.Stdin, command.Stdout, command.Stderr = theirIn, theirOut, theirErr
		err = command.Start()
	}
	closeAll(theirIn, theirOut, theirErr)
	if err != nil {
		closeAll(stdin, stdout, stderr)
		log.Warn("server of tools not started", "server", d.Name, "error", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return nil, errors.New("its command, or its folder, does not exist on the server's machine")
		}
		return nil, errors.New("its command cannot be started")
	}
	p := &process{
		command: command, stdin: stdin, stdout: stdout, gate: gate, maxAnswer: maxAnswer, greeted: greeted, log: log.With("server", d.Name),
		out: make(chan []byte, 16), exited: make(chan struct{}), done: make(chan struct{}), pending: make(map[string]asking),
	}
	go p.readStderr(stderr)
	go p.write()
	go func() {
		err := command.Wait()
		p.log.Info("server of tools ended", "status", fmt.Sprint(err))
		killRest(command)
		close(p.exited)
		time.AfterFunc(drainTime, func() { closeAll(stdout, stderr) })
	}()
	return p, nil
}

// closeAll closes files; nil ones are no files.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// fail ends the requests under way and those to come, and closes the stdin of the process. The first reason counts.
func (p *process) fail(reason error) {
	p.mu.Lock()
	if p.err == nil {
		p.err = reason
		close(p.done)
		_ = p.stdin.Close()
	}
	p.mu.Unlock()
}

// stop ends the process at once, for something that it must not do.
func (p *process) stop(reason error) {
	p.fail(reason)
	select {
	case <-p.exited: // and its children as well
	default:
		killGroup(p.command)
	}
}

// reason is why it is over.
func (p *process) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *process) readStderr(from *os.File) {
	lines := bufio.NewReaderSize(from, stderrLine)
	left := stderrBytes
	for {
		line, err := lines.ReadSlice('\n') // of a longer one the parts
		if len(line) > 0 && left > 0 {
			left -= len(line)
			p.log.Info("server of tools says", "stderr", strings.TrimSpace(text.Safe(string(line), stderrLine)))
			if left <= 0 {
				p.log.Info("server of tools says more than is logged")
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// read takes messages until there are no more.
func (p *process) read() {
	from := bufio.NewReaderSize(p.stdout, 64<<10)
	var line []byte
	release := func() {}
	defer func() { release() }()
	for {
		part, err := from.ReadSlice('\n')
		most := p.maxAnswer
		if !p.greeted.Load() {
			most = min(most, maxGreeting)
		}
		if len(line)+len(part) > most {
			p.stop(&misbehavedError{fmt.Sprintf("it sent a message of more than %d bytes", most)})
			return
		}
		if before := len(line); before <= usualLine && before+len(part) > usualLine {
			release = p.gate.wait(p.done, p.maxAnswer)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil {
			p.take(line, release)
			release = func() {}
			if p.unasked > maxUnasked {
				p.stop(&misbehavedError{fmt.Sprintf("it sent more than %d bytes that were no answer", maxUnasked)})
				return
			}
		}
		if err != nil {
			p.fail(errEnded)
			return
		}
		if line = line[:0]; cap(line) > usualLine {
			line = nil
		}
	}
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result part            `json:"result"`
	Error  *rpcError       `json:"error"`
}

// part is JSON within the text that it is read from: a copy of a long answer would take as much again.
type part []byte

// UnmarshalJSON keeps a part of the text that json.Unmarshal was given.
func (p *part) UnmarshalJSON(text []byte) error {
	*p = text
	return nil
}

// take handles a line, and calls release when its memory is no longer needed. A line that answers no request counts as unasked.
func (p *process) take(line []byte, release func()) {
	var until context.Context // of who asked for it; nil: nobody did
	defer func() {
		if until == nil {
			release()
		} else {
			context.AfterFunc(until, release)
		}
	}()
	p.unasked += len(line)
	var m message
	if json.Unmarshal(line, &m) != nil {
		if p.noted++; p.noted <= 3 {
			p.log.Info("server of tools wrote to stdout what is no message", "bytes", len(line))
		}
		return
	}
	if !p.greeted.Load() {
		if err := jsonbound.Request.Check(line); err != nil {
			p.stop(&misbehavedError{fmt.Sprintf("it sent %v before it was known who it is", err)})
			return
		}
	}
	isRequest := len(m.ID) > 0 && string(m.ID) != "null"
	switch {
	case m.Method == string(mcp.MethodNotificationToolsListChanged) && !isRequest:
		if p.listChanged != nil {
			p.listChanged()
		}
	case m.Method != "" && isRequest:
		p.decline(m)
	case m.Method == "" && isRequest:
		p.mu.Lock()
		waiting, is := p.pending[string(m.ID)]
		delete(p.pending, string(m.ID))
		p.mu.Unlock()
		if is {
			p.unasked, until = 0, waiting.ctx
			result := json.RawMessage(m.Result)
			if cap(line) <= usualLine { // it is read into again
				result = slices.Clone(result)
			}
			response := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, Result: result}
			if m.Error != nil {
				response.Error = &mcp.JSONRPCErrorDetails{Code: m.Error.Code, Message: m.Error.Message}
			}
			waiting.answered <- response
		}
	}
}

// decline answers a request of the server's: a ping is all that it may ask for. An answer that finds no room is dropped.
func (p *process) decline(m message) {
	if len(m.ID) > 200 {
		return
	}
	answer := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": m.ID}
	if m.Method == string(mcp.MethodPing) {
		answer["result"] = struct{}{}
	} else {
		answer["error"] = map[string]any{"code": mcp.METHOD_NOT_FOUND, "message": "This client answers no requests."}
	}
	line, _ := json.Marshal(answer) // texts and raw JSON that was read
	select {
	case p.out <- append(line, '\n'):
	default:
	}
}

func (p *process) write() {
	for {
		select {
		case line := <-p.out:
			if _, err := p.stdin.Write(line); err != nil {
				return // reading ends as well, and says why
			}
		case <-p.done:
			return
		}
	}
}

// send puts a message behind those that wait to be written.
func (p *process) send(ctx context.Context, what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	select {
	case p.out <- append(line, '\n'):
		return nil
	case <-p.done:
		return p.reason()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start implements transport.Interface: the process runs already.
func (p *process) Start(context.Context) error { return nil }

// SendRequest implements transport.Interface.
func (p *process) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, err := json.Marshal(request.ID)
	if err != nil {
		return nil, err
	}
	answered := make(chan *transport.JSONRPCResponse, 1)
	p.mu.Lock()
	p.pending[string(id)] = asking{ctx, answered}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, string(id))
		p.mu.Unlock()
	}()
	if err := p.send(ctx, request); err != nil {
		return nil, err
	}
	select {
	case response := <-answered:
		return captured(ctx, response), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
	}
	select { // it may have answered before it ended
	case response := <-answered:
		return captured(ctx, response), nil
	default:
		return nil, p.reason()
	}
}

// ping asks for a sign of life, which any answer is.
func (p *process) ping(ctx context.Context) error {
	id := mcp.NewRequestId(fmt.Sprintf("ping-%d", p.pings.Add(1))) // the library's own are numbers
	_, err := p.SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Method: string(mcp.MethodPing)})
	return err
}

// SendNotification implements transport.Interface.
func (p *process) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	return p.send(ctx, n)
}

// SetNotificationHandler implements transport.Interface: the only notification that matters is that of listChanged.
func (p *process) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// GetSessionId implements transport.Interface.
func (p *process) GetSessionId() string { //nolint:revive // the interface demands that name
	return ""
}

// Close implements transport.Interface.
func (p *process) Close() error {
	p.end(context.Background(), closeGrace)
	return nil
}

const (
	// closeGrace is the time in which a process must end after its stdin is closed, before it gets a signal.
	closeGrace = 500 * time.Millisecond
	// signalGrace is the time after the signal, before it is killed.
	signalGrace = 100 * time.Millisecond
	// killGrace is the time in which it must be gone then.
	killGrace = 300 * time.Millisecond
)

// end ends the process and its group: its stdin is closed, then it is asked to end, then killed. It returns when it is gone.
// When ctx ends, it is killed at once.
func (p *process) end(ctx context.Context, grace time.Duration) {
	p.fail(errEnded)
	if p.hasExited(ctx, grace) {
		return
	}
	askGroup(p.command)
	if p.hasExited(ctx, signalGrace) {
		return
	}
	killGroup(p.command)
	p.hasExited(context.Background(), killGrace)
}

func (p *process) hasExited(ctx context.Context, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
