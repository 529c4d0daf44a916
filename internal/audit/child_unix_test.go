//go:build unix

package audit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var bg = context.Background()

// children are what a process of their own does, by name, with the path of a log.
var children = map[string]func(path string) error{
	"writes": func(path string) error {
		l, err := Open(Options{Path: path})
		if err != nil {
			return err
		}
		for i := range 500 {
			l.Record(Event{Kind: KindCall, Tool: fmt.Sprint(i)})
		}
		select {} // until it is killed, with nothing closed
	},
	"tells": func(path string) error {
		l, err := Open(Options{Path: path, Required: true})
		for i := 0; err == nil; i++ {
			if err = l.RecordNow(bg, Event{Kind: KindCall, Tool: fmt.Sprint(i)}); err == nil {
				fmt.Println(i)
			}
		}
		return err
	},
	"has no space": func(path string) error {
		signal.Ignore(syscall.SIGXFSZ)
		var most unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &most); err != nil {
			return err
		}
		few := most
		few.Cur = 4000
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &few); err != nil {
			return err
		}
		l, err := Open(Options{Path: path, Required: true})
		if err != nil {
			return err
		}
		for i := range 100 {
			if err = l.RecordNow(bg, Event{Kind: KindRun, Run: fmt.Sprint(i)}); err != nil {
				break
			}
			fmt.Println(i)
		}
		fmt.Println(err)
		l.Record(Event{Kind: KindRun, Run: "lost"})
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &most); err != nil {
			return err
		}
		if err := l.RecordNow(bg, Event{Kind: KindRun, Run: "again"}); err != nil {
			return err
		}
		return l.Close(bg)
	},
}

const childVariable = "AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if name, path, is := strings.Cut(os.Getenv(childVariable), ":"); is {
		if err := children[name](path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child starts one.
func child(t *testing.T, name, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childVariable+"="+name+":"+path), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	return cmd, bufio.NewScanner(out)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

func TestAKilledServerHasWrittenWhatItRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cmd, _ := child(t, "writes", path)
	for text := []byte(nil); !strings.Contains(string(text), `"tool":"499"`); text, _ = os.ReadFile(path) {
		time.Sleep(10 * time.Millisecond)
	}
	kill(t, cmd)
	r := verify(t, path)
	should.Hold(t, r.OK() && r.Last == 500 && !r.Unfinished, "got %+v", r)
}

func TestWhatWasToldIsWrittenWheneverTheServerIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for round := range 5 {
		before := int64(0)
		if round > 0 {
			before = verify(t, path).Last
		}
		cmd, told := child(t, "tells", path)
		last := ""
		for range 100*round + 3 {
			told.Scan()
			last = told.Text()
		}
		kill(t, cmd)
		for told.Scan() { // what it said before it was killed
			last = told.Text()
		}
		r := verify(t, path)
		var n int64
		_, _ = fmt.Sscan(last, &n)
		should.Hold(t, r.OK() && r.Last >= before+n+1, "%d: %s was told, after %d lines, and the log is %+v", round, last, before, r)
	}
}

func TestAFullDiskRefusesRunsUntilThereIsSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cmd, told := child(t, "has no space", path)
	var said []string
	for told.Scan() {
		said = append(said, told.Text())
	}
	must.OK(t, cmd.Wait())
	must.Hold(t, len(said) >= 3 && strings.HasPrefix(said[len(said)-1], "audit_unavailable: "), "it said %q", said)
	r := verify(t, path)
	should.Hold(t, r.OK() && r.Last == int64(len(said)-1)+2 && len(r.Torn) == 0,
		"%d runs were let through, and the log is %+v", len(said)-1, r)
	text, _ := os.ReadFile(path)
	should.Hold(t, strings.Contains(string(text), `"detail":{"events":1}`) && strings.Contains(string(text), `"run":"again"`),
		"it has\n%s", text)
}
