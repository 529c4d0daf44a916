//go:build linux

// Package browser draws HTML files as a person sees them, by the headless browser of the image. The pages are hostile: they run
// as the session's user, as its code does, and all that the browser says is bounded and checked.
package browser

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/confine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// Errors of Draw, for a note.
var (
	ErrNone    = errors.New("the image has no browser")
	ErrSlow    = errors.New("the page was not done in time")
	ErrUndrawn = errors.New("it took too long: its scripts had not drawn anything yet")
	ErrEnded   = errors.New("the browser ended over it: it may take too much memory")
	ErrAnswer  = errors.New("the browser gave no picture that can be used")
	ErrTooLong = errors.New("the result would be too large")
	ErrBlank   = errors.New("nothing of it can be seen")
	ErrDropped = errors.New("nobody wants it any more")
	ErrMissing = errors.New("it cannot be opened")
)

// ofPage are the errors that leave the browser as it was.
var ofPage = []error{ErrTooLong, ErrBlank, ErrUndrawn, ErrMissing}

// patience is for one page, on a machine that is not busy.
var patience = 10 * time.Second

const (
	mostCrowd = 3
	idle      = 30 * time.Second // without a page, then it ends
	oomScore  = 900              // the system ends it before what holds variables
	heapLimit = "512"            // MiB of JavaScript
)

// programs are the names of browsers that only draw, on the PATH or in Debian's place.
var programs = []string{"/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell", "chrome-headless-shell", "headless_shell"}

// arguments: its own sandbox would need namespaces, which the container forbids; one process takes less memory and time, and any
// failure ends it anyway.
var arguments = []string{
	"--headless", "--no-sandbox", "--no-zygote", "--single-process", "--disable-gpu", "--enable-unsafe-swiftshader",
	"--remote-debugging-pipe", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--disable-extensions",
	"--disable-background-networking", "--allow-file-access-from-files", "--disable-breakpad", "--disk-cache-size=1", "--js-flags=--max-old-space-size=" + heapLimit,
}

// Browser is the one browser of a container. It starts with its first page and ends 30 s after its last. All methods may be called
// by several goroutines. Something else reaps its process.
type Browser struct {
	folder string
	turn   chan struct{} // held while a page is drawn

	mu      sync.Mutex
	process *process // nil: none runs
	starts  int      // of processes so far, each with a folder of its own
	idle    *time.Timer
}

// New returns a browser with its profiles in folders of this name and a number, which it makes and removes. It listens on the socket of this
// name and .sock, if it can.
func New(folder string) *Browser {
	b := &Browser{folder: folder, turn: make(chan struct{}, 1)}
	b.listen()
	return b
}

// Exists reports whether the image has a browser.
func Exists() bool { return find() != "" }

func find() string {
	for _, name := range programs {
		if path, err := kernelproc.Find(name); err == nil {
			return path
		}
		if _, err := os.Stat(name); err == nil && strings.HasPrefix(name, "/") {
			return name
		}
	}
	return ""
}

// Page is what to draw.
type Page struct {
	File      string // an absolute path
	PDF       bool   // a document in place of a picture
	Script    string // whose value, as JSON, is wanted in place of a picture; empty: a picture
	MostBytes int    `json:"-"` // of the result
	// Dropped is closed when nobody wants it any more; nil: never.
	Dropped <-chan struct{} `json:"-"`
}

// Drawn is a page's picture or document.
type Drawn struct {
	Data []byte
	// Missing are hosts whose scripts, pictures or data the page asked for in vain.
	Missing []string
	CutAt   int  // pixels from the top, where the picture ends and the page does not; 0: it has all
	Moves   bool // the page still changed
}

// Draw returns a page as PNG, or as PDF. It waits for other pages, and for this one 10 s.
func (b *Browser) Draw(page Page) (Drawn, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-page.Dropped:
		return Drawn{}, ErrDropped
	}
	p, err := b.running()
	if err != nil {
		return Drawn{}, err
	}
	late := time.AfterFunc(patience*time.Duration(crowd()), p.kill)
	data, err := p.draw(page)
	if err != nil && !late.Stop() {
		err = ErrSlow
	}
	late.Stop()
	if err != nil && !slices.Contains(ofPage, err) {
		b.Stop()
	}
	return Drawn{data, p.missing, p.cutAt, p.moves}, err
}

// crowd returns the load per processor, at least 1, by which page timeouts are multiplied.
func crowd() int {
	text, _ := os.ReadFile("/proc/loadavg")
	whole, _, _ := strings.Cut(string(text), ".")
	load, _ := strconv.Atoi(whole)
	return min(max(load/runtime.NumCPU(), 1), mostCrowd)
}

// Warm starts the browser, for a page that comes soon.
func (b *Browser) Warm() {
	select {
	case b.turn <- struct{}{}:
		_, _ = b.running()
		<-b.turn
	default: // it draws
	}
}

// running returns the process, and starts it if none runs. Its caller has the turn.
func (b *Browser) running() (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil || b.process.isOver() {
		if b.process != nil { // it ended by itself
			b.removeProfile()
		}
		b.starts++
		p, err := start(b.profile())
		if err != nil {
			return nil, err
		}
		b.process = p
	}
	if b.idle != nil {
		b.idle.Stop()
	}
	b.idle = time.AfterFunc(idle, b.rest)
	return b.process, nil
}

// rest ends the browser, unless it draws.
func (b *Browser) rest() {
	select {
	case b.turn <- struct{}{}:
		b.Stop()
		<-b.turn
	default: // the next page sets the time anew
	}
}

// Stop ends the browser and the drawing of its page. It reports whether one ran.
func (b *Browser) Stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return false
	}
	b.process.kill()
	b.process = nil
	b.removeProfile()
	return true
}

// profile is the folder of the last process. The caller holds b.mu.
func (b *Browser) profile() string { return b.folder + strconv.Itoa(b.starts) }

// removeProfile does not wait for the removal, which hostile code can hold up by more files. The caller holds b.mu.
func (b *Browser) removeProfile() {
	profile := b.profile()
	go func() { _ = os.RemoveAll(profile) }()
}

// Processes returns its processes.
func (b *Browser) Processes(table procs.Table) map[int]bool {
	pid := b.pid()
	if pid == 0 {
		return nil
	}
	family := table.Family(pid)
	family[pid] = true
	return family
}

// pid is the number of its process, or 0.
func (b *Browser) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil || b.process.isOver() {
		return 0
	}
	return b.process.pid
}

// start runs the browser, with a pipe to its descriptor 3 and another from 4.
func start(folder string) (*process, error) {
	path := find()
	if path == "" {
		return nil, ErrNone
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirIn.Close() }()
	out, theirOut, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer func() { _ = theirOut.Close() }()
	p := &process{folder: folder, in: in, out: out, messages: make(chan message), over: make(chan struct{})}
	p.pid, err = confine.ForkExec(path, append(append([]string{path}, arguments...), "--user-data-dir="+folder), &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirIn.Fd(), theirOut.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		p.pid = 0
		p.kill()
		return nil, err
	}
	procs.RaiseOOMScore(p.pid, oomScore)
	go p.read()
	return p, nil
}
