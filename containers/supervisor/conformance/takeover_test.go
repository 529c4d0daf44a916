//go:build linux

package conformance

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// A later server takes over.

const token = "7f3c-token-that-only-servers-know"

// waiting starts a supervisor that waits for other servers.
func waiting(t *testing.T, l *language, init protocol.Init) *client {
	t.Helper()
	init.Token, init.OnEOF = token, cmp.Or(init.OnEOF, "wait")
	return start(t, l, options{init: init})
}

func (c *connection) attach() *message {
	c.t.Helper()
	c.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: token})
	return c.greeted()
}

// taken is a connection of a later server that has been let in.
func (c *client) taken() (*connection, *message) {
	c.t.Helper()
	later := c.later()
	return later, later.attach()
}

func TestALaterServerFindsTheVariables(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := waiting(t, l, protocol.Init{})
		last := c.completed(l.set.with(41))
		_ = c.conn.Close()
		later, ready := c.taken()
		check(t, "ready", fmt.Sprint(ready.Protocol, ready.Language, ready.Version, ready.Run, ready.Runs, ready.Over), fmt.Sprint(protocol.Version, l.name, c.ready.Version, "", []string{}, []string{last.ID}))
		check(t, "the last answer", later.done(last.ID).ended(), "completed 0 alive")
		check(t, "x", later.value(string(l.get)), "41")
	})
}

func TestARunThatGoesOnIsHeardToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := waiting(t, l, protocol.Init{})
		before := c.completed(l.display.with("before"))
		id := c.begin(lines(l.display.with("a"), l.display.with("b"), l.write.with("begun", ""), l.awaitFile.with("go"), l.display.with("c"), "7"))
		fresh := c.begin(lines(l.write.with("fresh", ""), l.awaitFile.with("go"), "8"), request{Fresh: true})
		c.awaitFile("begun")
		c.awaitFile("fresh")
		_ = c.conn.Close()
		later, ready := c.taken()
		slices.Sort(ready.Runs)
		check(t, "ready", fmt.Sprint(ready.Run, ready.Runs, ready.Over), fmt.Sprint(id, []string{id, fresh}, []string{before.ID}))
		c.write("go", "")
		d := later.done(id)
		check(t, "result", d.result()+" "+fmt.Sprint(d.DisplaysTotal), "7 3")
		check(t, "the fresh one", later.done(fresh).result(), "8")
		var shown []string
		for _, m := range later.all("display", id) {
			shown = append(shown, m.Data["text/html"])
		}
		check(t, "displays", strings.Join(shown, ""), "abc")
	})
}

func TestARunThatEndedWhileNobodyWasThere(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	id := c.begin(lines(python.print.with("printed"), python.display.with("shown"), python.awaitFile.with("go"), python.write.with("over", ""), python.fail.with("why")))
	c.ping()
	_ = c.conn.Close()
	c.write("go", "")
	c.awaitFile("over")
	later, _ := c.taken()
	d := later.done(id)
	check(t, "answer", d.ended()+" "+d.Error.Message+" "+d.Stdout.Head, "failed 1 alive why printed")
	check(t, "displays", len(later.all("display", id)), 1)
	// It can come to the next one as well.
	again, _ := c.taken()
	check(t, "answer", again.done(id).ended(), "failed 1 alive")
}

func TestALaterServerInterrupts(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := waiting(t, l, protocol.Init{})
		id := c.begin(string(l.spin))
		c.ping()
		later, _ := c.taken()
		later.interrupt(id, "cancelled")
		check(t, "end", later.done(id).ended(), "cancelled 130 alive")
	})
}

func TestTheServerBeforeIsCutOff(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	second, _ := c.taken()
	c.awaitEnd()
	third, _ := c.taken()
	second.awaitEnd()
	c.send(request{Type: "stop"}) // it is not listened to
	second.send(request{Type: "stop"})
	check(t, "result", third.value("1 + 1"), "2")
	third.send(request{Type: "stop"})
	c.awaitExit()
}

func TestFramesRightBehindAttach(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	later := c.later()
	attach := frame('c', `{"type": "attach", "protocol": 4, "token": "`+token+`"}`)
	for _, b := range attach[:9] { // in pieces, and the rest with what follows
		later.sendRaw([]byte{b})
		c.ping()
	}
	later.sendRaw(append(attach[9:], frame('c', `{"type": "run", "language": "`+python.name+`", "id": "quick", "code": "6 * 7"}`)...))
	check(t, "result", later.done("quick").result(), "42")
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := waiting(t, l, protocol.Init{MaxDisplays: 100})
		for _, id := range []string{"one", "two"} { // 800 KB of base64 each
			header := `{"type": "display", "id": "` + id + `", "mime": "image/png", "alt": "`
			c.completed(l.forge+code{
				python:     "for i in range(30): send('" + header + "%02d\"}' % i, 600_000)",
				javascript: "for (let i = 0; i < 30; i++) send('" + header + "' + String(i).padStart(2, '0') + '\"}', 600_000)",
			}[l], request{ID: id})
		}
		before := statusOf(t, c.pid(), "VmRSS")
		later, _ := c.taken()
		check(t, "displays", later.done("two").DisplaysTotal, 30)
		shown := later.all("display", "two")
		check(t, "kept, the first ones", fmt.Sprint(len(shown), " ", shown[len(shown)-1].Alt), "10 09")
		check(t, "of the run before", len(later.all("display", "one")), 0)
		should.Hold(t, before <= 64<<10, "it takes %d KiB", before)
	})
}

func TestTheEndOfALaterServer(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	later, _ := c.taken()
	later.completed(python.set.with(5))
	_ = later.conn.Close()
	again, _ := c.taken()
	check(t, "x", again.value(string(python.get)), "5")
	again.sendRaw([]byte{255, 255, 255, 255, 'c'}) // one that breaks the protocol loses its connection, and no more
	again.awaitEnd()
	third, _ := c.taken()
	check(t, "x", third.value(string(python.get)), "5")

	ends := waiting(t, python, protocol.Init{OnEOF: "exit"})
	last, _ := ends.taken()
	_ = last.conn.Close()
	ends.awaitExit()
}

func TestTheIdleTimeOfALaterServer(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{IdleSeconds: 5})
	later, _ := c.taken()
	for began := time.Now(); time.Since(began) < 7*time.Second; time.Sleep(100 * time.Millisecond) {
		later.ping()
	}
	later.awaitEnd()
	c.awaitExit()
}

// Strangers ------------------------------------------------------------------------------

func TestAWrongTokenIsAnsweredByNothing(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	var all []*connection
	for _, wrong := range []string{"", token[1:], token + "x", "é"} {
		later := c.later()
		later.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: wrong})
		all = append(all, later)
	}
	for _, later := range all {
		later.awaitEnd()
		check(t, "messages", len(later.messages), 0)
	}
	check(t, "result", c.value("1"), "1")
}

func TestWhatIsNoAttachIsClosed(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	for _, data := range [][]byte{
		frame('c', "{}"), frame('c', "[]"), frame('c', "\xff"), frame('c', ""), frame('c', strings.Repeat("[", 4000)),
		frame('c', `{"type": "attach", "token": 5}`), frame('c', `{"type": "run", "id": "x", "code": "1", "token": "`+token+`"}`),
		frame('s', `{"type": "attach", "token": "`+token+`"}`), frame('c', strings.Repeat(" ", 4097)), {255, 255, 255, 255, 255},
	} {
		later := c.later()
		later.sendRaw(data)
		later.awaitEnd()
		check(t, "messages", len(later.messages), 0)
	}
	check(t, "result", c.value("1"), "1")
}

func TestWhoSaysNothingIsClosedAndHindersNobody(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	var silent []*connection
	for i := range 7 {
		silent = append(silent, c.later())
		silent[i].sendRaw([]byte{0, 0}[:i%3%2])
	}
	check(t, "result", c.value("1"), "1")
	_, ready := c.taken() // when places are free again
	check(t, "language", ready.Language, "python")
	for _, s := range silent[:4] {
		s.awaitEnd()
	}
}

func TestManyThatComeAndGo(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{openFiles: 64, init: protocol.Init{Token: token, OnEOF: "wait", IdleSeconds: 5}})
	for range 300 {
		c.ping() // or it is idle on a slow machine
		var conn net.Conn
		must.Soon(t, "the queue is full", func() (ok bool) {
			var err error
			conn, err = net.Dial("unix", c.door)
			return err == nil
		})
		_, _ = conn.Write([]byte("\x00\x00\x00\x05hell"))
		_ = conn.Close()
	}
	later, _ := c.taken()
	check(t, "result", later.value("1"), "1")
	stop := make(chan struct{})
	defer close(stop)
	go func() { // which keeps no supervisor alive
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if conn, err := net.Dial("unix", c.door); err == nil {
					_, _ = conn.Write([]byte{0})
					_ = conn.Close()
				}
			}
		}
	}()
	c.awaitExit()
}

func TestWithoutATokenNobodyListens(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed("1")
	if conn, err := net.Dial("unix", c.door); err == nil {
		_ = conn.Close()
		t.Error("somebody listens")
	}
}

func TestANameThatIsTaken(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	other := start(t, python, options{env: []string{"CODE_SANDBOX_SOCKET=" + c.door}, init: protocol.Init{Token: "other"}})
	check(t, "result", other.value("1"), "1")
	check(t, "it is told", strings.Contains(other.await("log", 0).Message, "no later server"), true)
}

func TestCodeHasNeitherTheSocketsNorTheToken(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := waiting(t, l, protocol.Init{})
		later, _ := c.taken()
		for _, fresh := range []bool{false, true} {
			pid := number(later.completed(lines(l.write.with("running"+strconv.FormatBool(fresh), ""), string(l.pid))).result())
			links := map[string]bool{}
			names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			for _, name := range names {
				link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, name.Name()))
				links[link] = true
			}
			text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid)))(t)
			found := 0
			for line := range strings.Lines(string(text)) {
				if parts := strings.Fields(line); len(parts) == 8 && parts[7] == c.door {
					found++
					check(t, line, links["socket:["+parts[6]+"]"], false)
				}
			}
			check(t, "the sockets are there", found >= 2, true)
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			check(t, "the token is in its environment", strings.Contains(string(environ), token), false)
		}
	})
}

// The program that joins stdio to the socket ----------------------------------------------

func (c *client) join() (*exec.Cmd, *connection) {
	c.t.Helper()
	cmd := exec.Command(program, "join")
	cmd.Env = append(os.Environ(), "CODE_SANDBOX_SOCKET="+c.door)
	in := must.Get(cmd.StdinPipe())(c.t)
	out, ours, err := os.Pipe()
	must.OK(c.t, err)
	cmd.Stdout = ours
	must.OK(c.t, cmd.Start())
	_ = ours.Close()
	return cmd, connect(c.t, stdio{in, out, in.Close}, c.language)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	first, conn := c.join()
	conn.attach()
	text := strings.Repeat("y", 900_000)
	check(t, "output", conn.completed(python.print.with(text)).Stdout.Bytes, int64(len(text)))
	_ = conn.conn.Close() // it ends when either side ends
	should.OK(t, first.Wait())
	second, conn := c.join()
	conn.attach()
	c.end()
	should.OK(t, second.Wait())
	third := exec.Command(program, "join")
	third.Env = append(os.Environ(), "CODE_SANDBOX_SOCKET="+c.door)
	out, err := third.CombinedOutput()
	check(t, "without a supervisor", err != nil && strings.Contains(string(out), "no supervisor listens"), true)
}
