//go:build linux

package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The keeper, which is process 1 of a container in a pod.

var pods atomic.Int64

type pod struct {
	t      *testing.T
	door   string
	keeper *exec.Cmd
}

// keep starts a keeper of a shell command, and waits until it listens.
func keep(t *testing.T, command string, options ...string) *pod {
	t.Helper()
	return keepAt(t, newDoor(), command, options...)
}

func newDoor() string { return fmt.Sprintf("@conformance-pod-%d-%d", os.Getpid(), pods.Add(1)) }

func keepAt(t *testing.T, door, command string, options ...string) *pod {
	t.Helper()
	watchSources()
	p := &pod{t: t, door: door}
	p.keeper = p.command(append(append([]string{"pod"}, options...), "--", "sh", "-c", command)...)
	var stderr locked.Buffer
	p.keeper.Stderr = &stderr
	must.OK(t, p.keeper.Start())
	t.Cleanup(func() {
		_ = p.keeper.Process.Kill() // where the test has not ended it
		_ = p.keeper.Wait()
		if t.Failed() && stderr.String() != "" {
			t.Logf("the keeper said: %.3000s", stderr.String())
		}
	})
	must.Soon(t, "what was expected", func() bool {
		conn, err := net.Dial("unix", p.door+"-keeper")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return p
}

func (p *pod) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "CODE_SANDBOX_SOCKET="+p.door)
	return cmd
}

// do runs a sub-command, and returns what it wrote and its status.
func (p *pod) do(stdin string, args ...string) string {
	cmd := p.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	_ = cmd.Run()
	return fmt.Sprintf("%s|%s|%d", stdout.String(), stderr.String(), cmd.ProcessState.ExitCode())
}

// entered is one that has the command's stdio.
type entered struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func (p *pod) enter() *entered {
	p.t.Helper()
	e := &entered{t: p.t, cmd: p.command("enter")}
	var err error
	e.in, err = e.cmd.StdinPipe()
	must.Hold(p.t, err == nil, "%v", err)
	e.out, err = e.cmd.StdoutPipe()
	must.Hold(p.t, err == nil, "%v", err)
	err = e.cmd.Start()
	must.Hold(p.t, err == nil, "%v", err)
	p.t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
	})
	check(p.t, "answer", e.read(1), "K")
	return e
}

func (e *entered) read(n int) string {
	data := make([]byte, n)
	n, _ = io.ReadFull(e.out, data)
	return string(data[:n])
}

func (e *entered) status() int {
	_, _ = io.Copy(io.Discard, e.out)
	_ = e.cmd.Wait()
	return e.cmd.ProcessState.ExitCode()
}

func TestWhatEnteringGives(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ command, stdin, want string }{
		"both ways":                {"cat", "hello", "Khello||0"},
		"stderr apart":             {"echo out; echo err >&2", "", "Kout\n|err\n|0"},
		"the status":               {"exit 7", "", "K||7"},
		"a signal":                 {"kill -KILL $$", "", "K||137"},
		"the rest of the output":   {"head -c 300000 /dev/zero | tr '\\0' x", "", "K" + strings.Repeat("x", 300_000) + "||0"},
		"a session of its own":     {`test "$(cut -d' ' -f6 /proc/$$/stat)" = $$`, "", "K||0"},
		"what holds the output":    {"sleep 1000 & echo over", "", "Kover\n||0"},
		"what has left the family": {"(setsid sleep 1000 &) ; echo over", "", "Kover\n||0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := keep(t, test.command)
			for range 2 { // after its end it begins anew
				check(t, "what enter does", p.do(test.stdin, "enter"), test.want)
			}
		})
	}
	p := &pod{t: t, door: "@conformance-nobody"}
	for _, args := range [][]string{{"enter"}, {"within", "true"}, {"reset"}} {
		if said := p.do("", args...); !strings.HasPrefix(said, "|supervisor: no keeper listens") || !strings.HasSuffix(said, "|1") {
			t.Errorf("%s without a keeper: %s", args, said)
		}
	}
}

func TestEnteringWaitsForAKeeperThatStarts(t *testing.T) {
	t.Parallel()
	door := newDoor()
	early := (&pod{door: door}).command("enter")
	answer := make(chan string)
	go func() {
		said, _ := early.CombinedOutput()
		answer <- string(said)
	}()
	keepAt(t, door, "echo over")
	check(t, "answer", <-answer, "Kover\n")
}

func TestWhatAKeeperAnswers(t *testing.T) {
	t.Parallel()
	p := keep(t, "cat")
	within := func(want string) {
		t.Helper()
		check(t, "within", p.do("text", "within", "sh", "-c", "cat; echo err >&2; exit 3"), want)
	}
	const goes, gone = "Ktext|err\n|3", "G||1"
	within(gone)
	e := p.enter()
	within(goes)
	check(t, "enter again", p.do("", "enter"), "B||1")
	check(t, "within what is missing", p.do("", "within", "nothing"), "K|supervisor: not on the PATH: nothing\n|1")
	_, _ = io.WriteString(e.in, "still")
	check(t, "what comes back", e.read(5), "still")
	_ = e.in.Close()
	check(t, "status", e.status(), 0)
	within(gone)
	check(t, "reset where nothing runs", p.do("", "reset"), "K||0")

	e = p.enter()
	_ = e.cmd.Process.Kill() // as when the server's connection breaks
	_ = e.cmd.Wait()
	must.Soon(t, "what was expected", func() bool { return p.do("", "within", "true") == gone })
	e = p.enter()
	check(t, "reset", p.do("", "reset"), "K||0")
	within(gone)
	check(t, "status of what was reset", e.status(), 137)
	check(t, "enter after it", p.do("x", "enter"), "Kx||0")
}

// Containers of a pod have a network in common, and processes of their own.
func TestAKeeperIsOfOneContainer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may have a process without a number in another's view")
	}
	apart := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	p := keep(t, "cat")
	other := p.command("enter")
	other.SysProcAttr = apart
	out, _ := other.CombinedOutput()
	check(t, "enter", string(out), "supervisor: no keeper listens: what listens is not in this container\n")

	q := &pod{t: t, door: p.door + "-apart"}
	keeper := q.command("pod", "--clean", t.TempDir(), "--", "true")
	keeper.SysProcAttr = apart
	must.OK(t, keeper.Start())
	t.Cleanup(func() {
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	var conn net.Conn
	must.Soon(t, "what was expected", func() (listens bool) {
		var err error
		conn, err = net.Dial("unix", q.door+"-keeper")
		return err == nil
	})
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("w"))
	n, err := conn.Read(make([]byte, 1))
	should.Hold(t, n == 0 && err != nil, "a process of another container was answered")

	second := p.command("pod", "--", "true")
	out, _ = second.CombinedOutput()
	check(t, "a keeper whose place is taken", strings.Contains(string(out), "address already in use"), true)
}

func TestHowAKeeperIsStarted(t *testing.T) {
	t.Parallel()
	p := &pod{t: t, door: "@conformance-usage"}
	for _, args := range []string{"", "--", "true", "--now -- true", "--core -- true", "--core 1", "--clean", "--memory 1 -- true", "--core x -- true", "--nproc -1 -- true"} {
		said := p.do("", append([]string{"pod"}, strings.Fields(args)...)...)
		should.Hold(t, strings.HasPrefix(said, "|supervisor: usage: ") && strings.HasSuffix(said, "|1"), "pod %s: %s", args, said)
	}
}

func TestACommandThatStartsBeforeItIsEntered(t *testing.T) {
	t.Parallel()
	dir, own := t.TempDir(), t.TempDir()
	left := filepath.Join(own, "left")
	must.OK(t, os.WriteFile(left, nil, 0o600))
	p := keep(t, fmt.Sprintf("echo x >> %s/starts; cat", dir), "--now", dir, "--clean", own)
	starts := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "starts"))
		return string(text)
	}
	must.Soon(t, "what was expected", func() bool { return starts() == "x\n" })
	_, err := os.Stat(left)
	check(t, "what a keeper before has left", errors.Is(err, os.ErrNotExist), true)
	check(t, "within", p.do("", "within", "true"), "G||1")
	check(t, "enter", p.do("text", "enter"), "Ktext||0")
	check(t, "reset", p.do("", "reset"), "K||0")
	check(t, "starts", starts(), "x\n")
	check(t, "enter", p.do("text", "enter"), "Ktext||0")
	check(t, "starts", starts(), "x\nx\n")
	again := keep(t, fmt.Sprintf("echo x >> %s/starts; cat", dir), "--now", dir) // which has a file by now
	check(t, "within", again.do("", "within", "true"), "G||1")
	check(t, "enter", again.do("text", "enter"), "Ktext||0")
	check(t, "starts", starts(), "x\nx\nx\n")
}

func TestACommandThatEndsBeforeItIsEntered(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	p := keep(t, "echo $$ > "+file+"; echo over; exit 3", "--now", t.TempDir())
	must.Soon(t, "what was expected", func() bool {
		text, _ := os.ReadFile(file)
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(text)))
		return len(text) > 1 && err != nil
	})
	for range 2 { // the second is started by who enters
		check(t, "enter", p.do("", "enter"), "Kover\n||3")
	}
}

func TestWhatIsLeftBetweenTwoCommands(t *testing.T) {
	t.Parallel()
	kept, folder := t.TempDir(), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(kept, "file"), nil, 0o600))
	fill := fmt.Sprintf("cd %s; mkdir -p a/b .c; touch a/b/f .c/g h; ln -s %s link; mkfifo fifo; chmod 0 a/b; chmod 500 a; "+
		"(setsid sh -c 'echo $$ > h; exec sleep 1000' &); until test -s h; do :; done; cp h %[2]s/pid; echo; cat", folder, kept)
	p := keep(t, fill, "--clean", folder, "--clean", folder+"/none")
	for name, end := range map[string]func(*entered){
		"reset":    func(*entered) { check(t, "reset", p.do("", "reset"), "K||0") },
		"its end":  func(e *entered) { _ = e.in.Close() },
		"its kill": func(e *entered) { _ = e.cmd.Process.Kill() },
	} {
		e := p.enter()
		e.read(1)
		text, _ := os.ReadFile(filepath.Join(kept, "pid"))
		end(e)
		e.status()
		must.Soon(t, "what was expected", func() bool { return p.do("", "within", "true") == "G||1" })
		entries, err := os.ReadDir(folder)
		check(t, "what is left after "+name, fmt.Sprint(entries, err), "[] <nil>")
		pid := number(string(text))
		should.Hold(t, pid != 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), "after %s process %d lives", name, pid)
		_, err = os.Stat(filepath.Join(kept, "file"))
		check(t, "what a link led to", err, nil)
	}
}

func TestLimitsOfAKeepersCommand(t *testing.T) {
	t.Parallel()
	show := "ulimit -S -c; ulimit -H -c; ulimit -S -n; ulimit -H -n; ulimit -S -f; ulimit -H -f; ulimit -S -p 2>/dev/null || ulimit -S -u; read line"
	p := keep(t, show, "--core", "0", "--nofile", "77", "--fsize", "1048576", "--nproc", "4321")
	const limits = "0\n0\n77\n77\n2048\n2048\n4321\n"
	e := p.enter()
	check(t, "limits", e.read(len(limits)), limits)
	check(t, "limits within", p.do("\n", "within", "sh", "-c", show), "K"+limits+"||0")
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.keeper.Process.Pid))
	should.Hold(t, err == nil && !strings.Contains(string(own), "4321"), "the keeper's own: %s %v", own, err)
}

func TestAKeeperThatIsToEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command, says string
		status        int
	}{
		"with a command that clears up": {"trap 'echo frozen; exit 3' TERM; echo; while :; do sleep 0.05; done", "frozen\n", 3},
		"with one that does not":        {"echo; exec sleep 1000", "", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := keep(t, test.command)
			e := p.enter()
			e.read(1)
			_ = p.keeper.Process.Signal(syscall.SIGTERM)
			check(t, "its last words", e.read(100), test.says)
			check(t, "the command's status", e.status(), test.status)
			_ = p.keeper.Wait()
			check(t, "the keeper's status", p.keeper.ProcessState.ExitCode(), 143)
		})
	}
	t.Run("with none", func(t *testing.T) {
		p := keep(t, "cat")
		_ = p.keeper.Process.Signal(syscall.SIGTERM)
		_ = p.keeper.Wait()
		check(t, "the keeper's status", p.keeper.ProcessState.ExitCode(), 143)
	})
}

func TestAKernelInAPod(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		p := keep(t, fmt.Sprintf("exec %s %s=%s", program, l.name, l.program), "--now", t.TempDir())
		dir := t.TempDir()
		for _, again := range []bool{false, true} {
			e := p.enter()
			c := &client{connection: connect(t, stdio{e.in, e.out, e.in.Close}, l.name), dir: dir}
			c.send(c.init(protocol.Init{Token: "token"}))
			if again {
				c.completed(l.set.with(2))
			} else {
				c.completed(l.set.with(1))
			}
			joined := p.command("within", program, "join")
			in, err := joined.StdinPipe()
			out, err2 := joined.StdoutPipe()
			must.OK(t, errors.Join(err, err2, joined.Start()))
			t.Cleanup(func() { _ = joined.Wait() })
			answer := make([]byte, 1)
			_, _ = io.ReadFull(out, answer)
			check(t, "answer", string(answer), "K")
			later := connect(t, stdio{in, out, in.Close}, l.name)
			later.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: "token"})
			check(t, "x", later.value(string(l.get)), map[bool]string{false: "1", true: "2"}[again])
			later.send(request{Type: "stop"})
			later.awaitEnd()
			check(t, "status", e.status(), 0)
		}
	})
}

// full is an address that does not answer.
func full(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	at, err2 := syscall.Getsockname(fd)
	must.OK(t, errors.Join(err, err2))
	address := "127.0.0.1:" + strconv.Itoa(at.(*syscall.SockaddrInet4).Port)
	for range 8 {
		conn, err := net.DialTimeout("tcp4", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("this system queues any number of connections")
	return ""
}

func TestReach(t *testing.T) {
	t.Parallel()
	open := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer func() { _ = open.Close() }()
	names, err := net.ListenPacket("udp4", "127.0.0.1:0") // as a name server
	must.OK(t, err)
	defer func() { _ = names.Close() }()
	go func() {
		query := make([]byte, 512)
		for n, from, err := names.ReadFrom(query); err == nil; n, from, err = names.ReadFrom(query) {
			_, _ = names.WriteTo(query[:n], from)
		}
	}()
	answers, deaf := names.LocalAddr().String()+"/udp", "127.0.0.1:"+strconv.Itoa(freePort(t))+"/udp"
	listens, refused, silent := open.Addr().String(), "127.0.0.1:"+strconv.Itoa(freePort(t)), full(t)
	p := keep(t, "cat")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"some":             {[]string{"reach", listens, silent, refused, answers, deaf}, "net " + listens + " " + answers + "\n||0"},
		"none":             {[]string{"reach", silent, refused, deaf}, "net\n||0"},
		"nothing":          {[]string{"reach"}, "net\n||0"},
		"no address":       {[]string{"reach", "localhost:1"}, `|supervisor: ParseAddr("localhost"): unable to parse IP` + "\n|1"},
		"enter, some":      {[]string{"enter", "--reach", silent + "," + listens}, "net " + listens + "\n|supervisor: what must not be reached is\n|1"},
		"enter, none":      {[]string{"enter", "--reach", silent + "," + refused}, "net\nKtext||0"},
		"enter, not asked": {[]string{"enter", "--reach", ""}, "net\nKtext||0"},
	} {
		began := time.Now()
		check(t, name, p.do("text", test.args...), test.want)
		took := time.Since(began)
		should.Hold(t, took <= time.Duration(slowness)*3*time.Second, "%s took %v", name, took)
	}
	var stdout bytes.Buffer
	alone := p.command("reach", listens)
	alone.Stdout, alone.SysProcAttr = &stdout, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := alone.Run(); err == nil { // only root may
		check(t, "without a network", stdout.String(), "lo\n")
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(freePort(t))
	p := &pod{t: t, door: "@conformance-none"}
	check(t, "no port", p.do("", "listen", "70000"), "|supervisor: usage: supervisor listen PORT\n|1")
	listener := p.command("listen", port)
	must.OK(t, listener.Start())
	must.Soon(t, "what was expected", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_, err := conn.Read(make([]byte, 1))
			check(t, "what is read", err, io.EOF)
			_ = conn.Close()
		}
		return err == nil
	})
	_ = listener.Process.Signal(syscall.SIGTERM)
	_ = listener.Wait()
	check(t, "status", listener.ProcessState.ExitCode(), 143)
}

func TestProgramsAreCopied(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	own, err := os.ReadFile(program)
	err = errors.Join(err, os.MkdirAll(from+"/python/sub", 0o755), os.WriteFile(from+"/supervisor", own, 0o711),
		os.WriteFile(from+"/python/main.py", []byte("code"), 0o644), os.WriteFile(from+"/python/sub/program", nil, 0o755),
		os.Chmod(from+"/supervisor", 0o751), os.Mkdir(from+"/to", 0o755), os.Symlink("/", from+"/link"))
	must.OK(t, err)
	for range 2 {
		out, err := exec.Command(from+"/supervisor", "copy", from+"/to").CombinedOutput()
		check(t, "copy", fmt.Sprint(string(out), err), "<nil>")
		var found []string
		_ = filepath.Walk(from+"/to", func(path string, info os.FileInfo, _ error) error {
			found = append(found, fmt.Sprintf("%s %o", strings.TrimPrefix(path, from+"/to"), info.Mode().Perm()))
			return nil
		})
		check(t, "what is there", strings.Join(found, ", "), " 755, /python 755, /python/main.py 444, /python/sub 755, /python/sub/program 555, /supervisor 111")
	}
	copied, err := os.ReadFile(from + "/to/supervisor")
	check(t, "the copy", fmt.Sprint(bytes.Equal(copied, own), err), "true <nil>")
}
