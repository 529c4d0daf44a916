package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	// stderrBytes is the part of one process's stderr that gets into the log.
	stderrBytes = 64 << 10
	// stderrLine bounds one line there.
	stderrLine = 500
	// closeGrace is the time in which a process must end after its stdin is closed, before it and its children are asked to.
	closeGrace = 500 * time.Millisecond
	// killGrace is the time after that until they are killed, and in which output is read of a process that ended.
	killGrace = 200 * time.Millisecond
)

var errEnded = errors.New("the server has ended")

// process is a server that was started: the client library's transport over its stdin and stdout. The process is ended with its children.
type process struct {
	*transport.Stdio
	command *exec.Cmd
	ask     context.CancelFunc // asks it to end, and kills it soon
	stdin   *os.File
	exited  chan struct{}
	within  time.Duration // in which it must read what is written

	life context.Context // ends when it is over, with the reason as cause
	stop context.CancelCauseFunc
}

// passedOn are the variables that a server gets beside its definition: those that clients give, and the proxy variables. The rest of
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

// startProcess starts a server. The error quotes no value of its definition. greeted is set once it named itself.
func startProcess(d Definition, bound bound, within time.Duration, log *slog.Logger) (*process, error) {
	ctx, ask := context.WithCancel(context.Background())
	p := &process{command: exec.CommandContext(ctx, program(d), d.Args...), ask: ask, within: within, exited: make(chan struct{})}
	p.life, p.stop = context.WithCancelCause(context.Background())
	p.command.Env, p.command.Dir = environment(d.Env), d.Dir
	log = log.With("server", d.Name)
	p.command.Stderr = &stderrLog{log: log, left: stderrBytes}
	p.command.Cancel, p.command.WaitDelay = func() error { askGroup(p.command); return nil }, killGrace
	apart(p.command)
	theirIn, stdin, err := os.Pipe()
	stdout, theirOut, err1 := os.Pipe()
	if err = cmp.Or(err, err1); err == nil {
		p.command.Stdin, p.command.Stdout = theirIn, theirOut
		err = p.command.Start()
	}
	closeAll(theirIn, theirOut)
	if err != nil {
		closeAll(stdin, stdout)
		ask()
		log.Warn("server of tools not started", "error", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return nil, errors.New("its command, or its folder, does not exist on the server's machine")
		}
		return nil, errors.New("its command cannot be started")
	}
	p.stdin = stdin
	p.Stdio = transport.NewIO(&incoming{ReadCloser: stdout, bound: bound, lines: true, until: p.life, refuse: p.fail}, promptly{p}, nil)
	go func() {
		err := p.command.Wait()
		log.Info("server of tools ended", "status", fmt.Sprint(err))
		killRest(p.command)
		close(p.exited)
		time.AfterFunc(killGrace, func() { closeAll(stdout) })
	}()
	return p, nil
}

// closeAll closes files; nil ones are no files.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// fail ends the requests under way and those to come. The first reason counts; with one that is no end, the process is killed.
func (p *process) fail(reason error) {
	p.stop(reason)
	_ = p.stdin.Close()
	select {
	case <-p.exited: // and its children as well
	default:
		if !errors.Is(reason, errEnded) {
			killGroup(p.command)
		}
	}
}

// promptly writes to a process, which must read in time.
type promptly struct{ p *process }

func (w promptly) Write(line []byte) (int, error) {
	_ = w.p.stdin.SetWriteDeadline(time.Now().Add(w.p.within))
	n, err := w.p.stdin.Write(line)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.p.fail(&misbehavedError{"it does not read what it is sent"})
	}
	return n, err
}

func (w promptly) Close() error { return w.p.stdin.Close() }

// stderrLog logs the beginning of what a process writes to stderr.
type stderrLog struct {
	log  *slog.Logger
	left int // bytes
}

func (l *stderrLog) Write(part []byte) (int, error) {
	for line := range bytes.Lines(part) {
		if l.left > 0 {
			l.log.Info("server of tools says", "stderr", strings.TrimSpace(text.Safe(string(line[:min(len(line), stderrLine)]), stderrLine)))
			if l.left -= len(line); l.left <= 0 {
				l.log.Info("server of tools says more than is logged")
			}
		}
	}
	return len(part), nil
}

// SendRequest implements transport.Interface.
func (p *process) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := p.Stdio.SendRequest(ctx, request)
	if err == nil {
		return captured(ctx, response)
	}
	if ctx.Err() == nil { // the process is over, or will be: the library does not say why
		select {
		case <-p.life.Done():
		case <-p.exited:
			p.fail(errEnded)
		case <-ctx.Done():
		}
		err = cmp.Or(context.Cause(p.life), err)
	}
	return nil, err
}

func (p *process) over() <-chan struct{} { return p.life.Done() }

// end ends the process and its group: its stdin is closed, then it is asked to end, then killed. It returns when it is gone.
// When ctx ends, it is asked at once.
func (p *process) end(ctx context.Context) {
	p.fail(errEnded)
	_ = p.Close()
	select {
	case <-p.exited:
	case <-time.After(closeGrace):
	case <-ctx.Done():
	}
	p.ask()
	select {
	case <-p.exited:
	case <-time.After(2 * killGrace):
	}
}
