//go:build linux

// Package bashkernel is the kernel of bash, which speaks no JSON: the supervisor itself feeds a bash that stays, by descriptors
// that only the two know. docs/kernel-protocol.md, "Supervisor and kernels", has the messages that it answers.
//
// A run is three lines to bash: take the code, evaluate it, report its status. Code that ends its shell (exit, set -e, an
// unset variable with set -u, an interrupt) reaches the shell's own EXIT trap, which saves the state and replaces the shell by
// another bash in the same process.
package bashkernel

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

// Bash's descriptors beside the usual ones, so large that code does not take them by chance.
const (
	helpersFD = 249 + iota
	codeFD
	controlFD
	reportFD
	stdoutFD
	stderrFD
)

const (
	maxFrame  = 4 << 20  // of a message to the kernel: the supervisor takes no more than 1 MiB from the server
	maxRecord = 16 << 20 // of one variable, and of one report
	maxSaved  = 64 << 20 // of all that is carried into the next bash
	maxName   = 64 << 10 // in which the name of a variable is looked for
	maxCode   = 1 << 20  // of the code that functions may be from
)

// Arguments are those that bash is started with: the first learns where its script is, and the script is read as that of any program.
var Arguments = []string{"--norc", "--noprofile", "-c", first, "bash"}

const first = "exec 253>&1 254>&2 >/dev/null 2>&1; builtin read -t 1000000000 -r -u 251 __sandbox_line; " +
	"builtin cd -- \"${__sandbox_line#again }\" && exec -a bash \"$BASH\" --norc --noprofile bash || exec -a bash \"$BASH\" --norc --noprofile /dev/fd/250"

// behind follows all text in bash's script: it turns tracing off and restarts the count of lines. A function named builtin would break everything:
// unset of the posix mode is safe from functions.
const behind = "{ __sandbox_status=$? __sandbox_line= __sandbox_options=$- __sandbox_args=(\"$@\"); \\builtin eval __sandbox_line=end; " +
	"if [[ ! $__sandbox_line ]]; then POSIXLY_CORRECT=; \\unset -f builtin; \\unset -v POSIXLY_CORRECT; \\builtin shopt -s expand_aliases; \\builtin shopt -u inherit_errexit; fi; " +
	"\\builtin set +evx; } &>" + fromFirst + "; " + helped + "; __sandbox_next; case $__sandbox_options in *[vx]*) \\builtin set \"-${__sandbox_options//[!vx]}\" ;; esac"

// fromFirst is /dev/null for a redirection of a group, and restarts the count of lines.
const fromFirst = "\"/dev/null${__sandbox_bash:0:LINENO=0}\""

// fromLine is the same with another line than the first behind it.
const fromLine = "{ \\builtin :; } >\"/dev/null${__sandbox_bash:0:LINENO=%d,0}\"\n"

const helped = "\\builtin mapfile -d '' -t __sandbox_text </dev/fd/249 || \\builtin kill -9 $$; \\builtin eval \"$__sandbox_text\""

// Without are the variables that bash would be changed by as it starts, or run code of.
var Without = []string{"BASH_ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT"}

//go:embed prelude.bash
var prelude string

//go:embed helpers.bash
var helpers string

// The lines to bash. Their traces and traps print nothing.
const (
	lineLoad = "load\n"
	lineRun  = "run\n"
	// Behind set -n a shell executes nothing, not even its end: that ends the run, as it ends a script. Functions inherit the trap by -T.
	lineGuard   = "[[ ${__sandbox_on_DEBUG-} ]] || { builtin set -T; builtin trap 'case $BASH_COMMAND in set\\ -n* | set\\ -[a-z]n* | set\\ -o\\ noexec*) builtin trap - DEBUG; __sandbox_trap=; builtin exit 0 ;; esac' DEBUG; }\n"
	lineUnguard = "[[ ${__sandbox_on_DEBUG-} ]] || builtin trap - DEBUG; " + unguard + "\n"
	unguard     = "builtin set +T"
	lineEnd     = "__sandbox_end \"$__sandbox_status\" %d || builtin :\n"
	lineSave    = "__sandbox_jobs || builtin :; ( __sandbox_save 0 all ) 2>/dev/null || builtin printf '\\0end\\n1\\n\\0' >&252\n" // a subshell knows of no jobs
)

// Code that may stop the shell from executing anything.
var noExec = []string{"set -n", "set -xn", "set -vn", "set -o noexec"}

type message struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Code       string            `json:"code"`
	Before     string            `json:"before"`
	WorkDir    string            `json:"work_dir"`
	Env        map[string]string `json:"env"`
	Paths      []string          `json:"paths"`
	Path       string            `json:"path"`
	LimitBytes int64             `json:"limit_bytes"`
	Quick      bool              `json:"quick"` // fails where not all fits, and is not written through to the disk
}

// kernel is the state of one bash, for a goroutine of the supervisor. All messages of bash may be forged.
type kernel struct {
	link     net.Conn
	control  *os.File
	reports  *os.File
	reader   *bufio.Reader
	code     *os.File
	at       int64 // bash's position in it
	messages chan message
	workDir  string
	version  string
	base     map[string]string // hashes of the state before any code, by kind and name
	told     map[string]bool   // programs named by an answer
	place    string            // enters the current folder behind the last run
	held     []string          // the variables and functions since the last run, if they were written since; nil: not known
	codes    []string          // of runs that define functions, the latest last
	stopped  bool              // the run was interrupted: a signal may still be on its way
}

var errReport = errors.New("a report that no kernel makes")

// Adapt makes the files that a bash starts with, by descriptor, and serve, which acts as a kernel on the link until one of
// the two ends. The caller closes the files.
func Adapt(link *os.File) (files map[int]*os.File, serve func(), err error) {
	conn, err := net.FileConn(link)
	if err != nil {
		return nil, nil, err
	}
	k := &kernel{link: conn, messages: make(chan message, 64), told: map[string]bool{}}
	var ends [2][2]*os.File
	for i := range ends {
		if ends[i][0], ends[i][1], err = os.Pipe(); err != nil {
			break
		}
	}
	var own *os.File
	if err == nil {
		k.code, err = inMemory("code", "")
	}
	if err == nil {
		own, err = inMemory("helpers", "__sandbox_behind="+quote(behind)+"\n"+helpers)
	}
	if err != nil {
		for _, f := range []*os.File{ends[0][0], ends[0][1], ends[1][0], ends[1][1], k.code, own} {
			_ = f.Close()
		}
		_ = conn.Close()
		return nil, nil, err
	}
	k.control, k.reports, k.reader = ends[0][1], ends[1][0], bufio.NewReaderSize(ends[1][0], 64<<10)
	code, err := unix.FcntlInt(k.code.Fd(), unix.F_DUPFD_CLOEXEC, 0) // one place in it for both
	if err != nil {
		k.close()
		return nil, nil, err
	}
	files = map[int]*os.File{helpersFD: own, controlFD: ends[0][0], codeFD: os.NewFile(uintptr(code), "code"), reportFD: ends[1][1]}
	return files, k.serve, nil
}

// inMemory makes a file without a name.
func inMemory(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(content)
	return f, err
}

func (k *kernel) serve() {
	defer k.close()
	go k.listen()
	if k.begin("") != nil {
		return
	}
	for m := range k.messages {
		if k.answer(m) != nil {
			return
		}
	}
}

func (k *kernel) close() {
	_ = k.link.Close()
	_ = k.control.Close()
	_ = k.reports.Close()
	_ = k.code.Close()
}

// listen takes messages until the link ends, which ends all else.
func (k *kernel) listen() {
	defer close(k.messages)
	defer k.close()
	in := bufio.NewReader(k.link)
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		var m message
		if json.Unmarshal(body, &m) != nil {
			return
		}
		k.messages <- m
	}
}

func (k *kernel) send(r kernelproc.Report) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	frame = binary.BigEndian.AppendUint32(frame, 0)
	_, err = k.link.Write(append(frame, body...))
	return err
}

func (k *kernel) answer(m message) error {
	if k.stopped && m.Type != "interrupt" {
		// A signal for the run before may come late. It is over by the end of an empty one.
		k.stopped = false
		if err := k.do("", lineRun, nil); err != nil {
			return err
		}
	}
	switch m.Type {
	case "init":
		k.workDir = m.WorkDir
		if err := k.tell(environment(m.Env) + "builtin cd -- " + quote(m.WorkDir) + "; builtin unset -v OLDPWD; builtin declare -x OLDPWD"); err != nil {
			return err
		}
		if err := k.noteBase(); err != nil {
			return err
		}
		return k.send(kernelproc.Report{Type: "hello", PID: 0, Version: k.version, Features: []string{}})
	case "bind":
		if err := k.tell(environment(m.Env)); err != nil {
			return err
		}
		return k.noteBase()
	case "pipes":
		if len(m.Paths) != 2 {
			return nil
		}
		if err := k.tell("command exec 253>" + quote(m.Paths[0]) + " 254>" + quote(m.Paths[1])); err != nil {
			return err
		}
		return k.send(kernelproc.Report{Type: "piped"})
	case "run":
		return k.run(m)
	case "interrupt":
		k.stopped = true // the signal itself comes from elsewhere
	case "freeze":
		return k.freeze(m)
	case "wake":
		return k.wake(m)
	case "enter":
		return k.enter()
	case "describe":
		return k.describe(m)
	}
	return nil
}

func environment(env map[string]string) string {
	var b strings.Builder
	for name, value := range env {
		if isName(name) && !slices.Contains(Without, name) {
			b.WriteString("builtin export " + name + "=" + quote(value) + "\n")
		}
	}
	return b.String()
}

func isName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func quote(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", `'\''`) + "'"
}

// run executes code, and reports the status of its last command.
func (k *kernel) run(m message) error {
	if at := strings.IndexByte(m.Code, 0); at >= 0 {
		line := strings.Count(m.Code[:at], "\n") + 1
		return k.send(kernelproc.Report{Type: "done", ID: m.ID, Error: &kernelproc.Failure{Error: protocol.Error{
			Name: "SyntaxError", Message: "line " + strconv.Itoa(line) + " has a NUL character, which bash cannot take",
		}}})
	}
	if err := k.send(kernelproc.Report{Type: "begun", ID: m.ID}); err != nil {
		return err
	}
	k.held = nil
	var end status
	lines := lineRun
	guarded := slices.ContainsFunc(noExec, func(text string) bool { return strings.Contains(m.Code, text) })
	if guarded {
		lines = lineGuard + lineRun + lineUnguard
	}
	code := strings.TrimPrefix(m.Code, "\ufeff") // a byte order mark is no part of a command
	k.remember(code)
	if m.Before != "" { // code's lines are counted from the first
		code = "\\builtin eval " + quote(m.Before) + "; { \\builtin :; } >" + fromFirst + "\n" + code
	}
	err := k.do(code, lines, &end)
	if err == nil && guarded && end.shell {
		err = k.tell(unguard)
	}
	if err != nil {
		return err
	}
	return k.send(kernelproc.Report{Type: "done", ID: m.ID, Exit: &end.code, GoesOn: k.goesOn(end.jobs)})
}

// status is the report of an end.
type status struct {
	code  int
	jobs  []string
	shell bool // another shell goes on
}

// tell makes bash execute lines beside runs. A late interrupt may end the shell before it did.
func (k *kernel) tell(code string) error {
	for range 3 {
		var end status
		if err := k.do(code+"\n"+behind+"\n", lineLoad, &end); err != nil || !end.shell {
			return err
		}
	}
	return errCut
}

// do makes bash take code and execute lines, and waits for either end.
func (k *kernel) do(code, lines string, end *status) error {
	if err := k.put(strings.NewReader(code)); err != nil {
		return err
	}
	return k.evaluate(lines, end)
}

// evaluate makes bash execute lines, one of which reads the code, and waits for either end.
func (k *kernel) evaluate(lines string, end *status) error {
	number := rand.Uint64() //nolint:gosec // seeded by the system; so that code cannot forge it by chance
	if _, err := fmt.Fprintf(k.control, lines+lineEnd, number); err != nil {
		return err
	}
	report, _, err := k.report()
	if err != nil {
		return err
	}
	kind, rest, _ := strings.Cut(report, "\n")
	if strings.HasSuffix(report, "\nexit") { // an interrupt cut it
		kind = "exit"
	}
	switch kind {
	case fmt.Sprintf("end %d", number):
		if end != nil {
			first, jobs, _ := strings.Cut(rest, "\n")
			end.code, _ = strconv.Atoi(first)
			end.jobs = strings.Split(jobs, "\n")
		}
		return k.note()
	case "exit":
		return k.again(end)
	default:
		return errReport
	}
}

// put brings code to where bash reads on in its script, whose beginning is not needed any more.
func (k *kernel) put(code io.Reader) error {
	if err := k.code.Truncate(0); err != nil {
		return err
	}
	if _, err := k.code.Seek(k.at, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(k.code, code); err != nil {
		return err
	}
	_, err := k.code.Seek(k.at, io.SeekStart)
	return err
}

// note records bash's position in its script: the end.
func (k *kernel) note() error {
	info, err := k.code.Stat()
	if err == nil {
		k.at = info.Size()
	}
	return err
}

// report reads up to a NUL. cut: the report was longer than one may be.
func (k *kernel) report() (text string, cut bool, err error) {
	var all []byte
	for {
		part, err := k.reader.ReadSlice(0)
		if len(all) < maxRecord {
			all = append(all, part...)
		} else {
			cut = true
		}
		switch {
		case err == nil:
			return strings.TrimSuffix(string(all), "\x00"), cut, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", false, err
		}
	}
}

// begin starts a new bash on a script with the common beginning. The script's name is bash, as in its errors, if there is room
// for that.
func (k *kernel) begin(script string) error {
	folder, err := os.MkdirTemp("", ".bash-")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		err = os.Symlink(fmt.Sprintf("/proc/self/fd/%d", codeFD), folder+"/bash")
	}
	if err != nil {
		folder = os.DevNull // which is none
	}
	home := ""
	if k.workDir != "" { // its own folder may be gone, as the one of the script will be
		home = "builtin cd -- " + quote(k.workDir) + "\n"
	}
	k.at = 0
	if err := k.put(strings.NewReader(prelude + home + helped + "\n" + script + helped + "; __sandbox_hello\n" + behind + "\n")); err != nil {
		return err
	}
	if _, err := k.control.WriteString("again " + folder + "\n"); err != nil {
		return err
	}
	report, _, err := k.report()
	if err != nil {
		return err
	}
	version, ok := strings.CutPrefix(report, "hello\n")
	if !ok {
		return errReport
	}
	k.version, _, _ = strings.Cut(version, "(")
	return k.note()
}

// again restores the state of the bash before in its successor, and reports its end in end.
func (k *kernel) again(end *status) error {
	// A second interrupt would end the new bash before its first line.
	if err := k.send(kernelproc.Report{Type: "heard"}); err != nil {
		return err
	}
	var b strings.Builder
	code, err := k.save(func(r record) bool {
		why := ""
		switch {
		case r.kind == 'm': // this process keeps its own
			return true
		case r.kind == 'j':
			if end != nil {
				end.jobs = strings.Split(r.text, "\n")
			}
			return true
		case r.kind == 'l':
			why = badFunction
		case r.cut || b.Len()+len(r.text) > maxSaved:
			why = "too large for the next shell"
		}
		if why != "" {
			note := "note: " + cmp.Or(r.name, "what is not a variable") + " is gone: " + why
			b.WriteString("builtin echo " + quote(note) + " >&254\n")
			return false
		}
		b.WriteString(k.asWritten(r))
		return true
	})
	if err != nil {
		return err
	}
	if end != nil {
		end.code, end.shell = code, true
	}
	return k.begin(b.String())
}

// remember keeps code that may define functions.
func (k *kernel) remember(code string) {
	if !strings.Contains(code, "()") && !strings.Contains(code, "function ") {
		return
	}
	k.codes = append(k.codes, code)
	size := 0
	for i, code := range slices.Backward(k.codes) {
		if size += len(code); size > maxCode {
			k.codes = slices.Delete(k.codes, 0, i+1)
			return
		}
	}
}

// asWritten is a record for the next bash. A function is taken from the code of the run that defined it, if it can be found there:
// bash prints functions without comments and with a layout of its own, and errors name lines.
func (k *kernel) asWritten(r record) string {
	if r.kind == 'f' {
		for _, code := range slices.Backward(k.codes) {
			if text := functionAt(code, r.name, r.line); text != "" {
				printed := quote(r.text)
				r.text = "\\builtin eval \"$__sandbox_text\""
				return "__sandbox_written " + quote(text) + " " + printed + "\n" + r.script()
			}
		}
	}
	return r.script()
}

// functionAt is what looks like the definition of a function that begins in a line, or nothing.
func functionAt(code, name string, line int) string {
	for range line - 1 {
		_, code, _ = strings.Cut(code, "\n")
	}
	first, _, _ := strings.Cut(code, "\n")
	at := strings.Index(first, "function "+name)
	if at < 0 {
		at = max(0, strings.Index(first, name+"()"), strings.Index(first, name+" ()"))
	}
	open := 0
	for i := at; i < len(code); i++ {
		switch code[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return code[at : i+1]
			}
		}
	}
	return ""
}

const badFunction = "a function that bash prints in another form than it reads"

// record is a piece of a bash's state.
type record struct {
	kind byte   // o options, s shopt, v variable, f function, l function that is lost, d folder, u umask, a aliases, t traps, j programs that run, p positional parameters, m limits
	name string // of a variable or function
	line int    // of a function
	text string
	cut  bool // the text is longer than one may be, and not here
}

// script is what makes bash have it again.
func (r record) script() string {
	if r.kind == 'f' {
		return fmt.Sprintf(fromLine, r.line-1) + r.text + "\n"
	}
	return r.text + "\n"
}

// save passes on the state that bash writes, the options last, as they may end the reader; keep reports whether there was room.
func (k *kernel) save(keep func(record) bool) (code int, err error) {
	var options record
	for {
		if head, _ := k.reader.Peek(len(allVariables)); string(head) == allVariables {
			if err := k.saveVariables(keep); err != nil {
				return 0, err
			}
			continue
		}
		report, cut, err := k.report()
		if err != nil {
			return 0, err
		}
		head, text, _ := strings.Cut(report, "\n")
		if head == "end" {
			keep(options)
			return strconv.Atoi(strings.TrimSpace(text))
		}
		if head == "" {
			continue // the last record of a killed writer
		}
		r := record{kind: head[0], name: head[1:], text: strings.TrimSuffix(text, "\n")}
		if r.kind == 'o' || r.kind == 'u' { // a function of the code may have that name by then
			r.text = `\builtin ` + strings.ReplaceAll(r.text, "\n", "\n\\builtin ")
		}
		if r.kind == 'f' {
			line, text, _ := strings.Cut(r.text, "\n")
			r.line, _ = strconv.Atoi(line)
			r.text = text
		}
		switch {
		case r.kind == 'v' && isShells(r.name):
		case r.kind == 'o':
			options = r
		case cut:
			keep(record{kind: r.kind, name: r.name, cut: true})
		default:
			keep(r)
		}
	}
}

// allVariables begins a record of all variables as declare -p prints them.
const allVariables = "V\n"

// saveVariables passes such a record on, one variable at a time. The end of a line within quotes is not that of a variable.
func (k *kernel) saveVariables(keep func(record) bool) error {
	_, _ = k.reader.Discard(len(allVariables))
	var text []byte
	var quote byte
	escaped, cut := false, false
	for {
		c, err := k.reader.ReadByte()
		switch {
		case err != nil:
			return err
		case c == 0:
			return nil
		case c == '\n' && quote == 0:
			_, name, _ := strings.Cut(strings.TrimPrefix(string(text[:min(len(text), maxName)]), "declare "), " ")
			r := record{kind: 'v', cut: cut}
			if r.name, _, _ = strings.Cut(name, "="); !cut {
				r.text = string(text)
			}
			if !isShells(r.name) {
				keep(r)
			}
			text, cut = text[:0], false
			continue
		case escaped:
			escaped = false
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		default:
			escaped = c == '\\' && quote != 0
		}
		if cut = cut || len(text) >= maxRecord; !cut {
			text = append(text, c)
		}
	}
}

// shells are the variables that each bash has of its own.
const shells = " _ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING BASH_LINENO " +
	"BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_TRAPSIG BASH_VERSINFO BASH_VERSION SHELLOPTS EUID UID PPID " +
	"GROUPS DIRSTACK FUNCNAME LINENO RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME PIPESTATUS HISTCMD PWD SHLVL "

func isShells(name string) bool {
	return strings.HasPrefix(name, "__sandbox_") || strings.Contains(shells, " "+name+" ")
}

// programOf reads a line of jobs, with a process number or without: [1]+  123 Running   sleep 9 &
func programOf(line string) (pid, command string) {
	before, command, running := strings.Cut(line, " Running ")
	if !running || !strings.HasPrefix(line, "[") {
		return "", ""
	}
	fields := strings.Fields(before)
	return fields[len(fields)-1], strings.TrimSuffix(strings.TrimSpace(command), " &")
}

const mostNamed = 8

// goesOn names the programs that run in the background and were not named before.
func (k *kernel) goesOn(lines []string) []string {
	var names []string
	running := map[string]bool{}
	for _, line := range lines {
		pid, command := programOf(line)
		if pid == "" || len(names) == mostNamed {
			continue
		}
		running[pid] = true
		if !k.told[pid] {
			names = append(names, "process "+command+" (pid "+pid+")")
		}
	}
	k.told = running
	return names
}
