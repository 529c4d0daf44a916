//go:build linux

package conformance

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// describe asks what the kernels hold.
func (c *connection) describe(id string) []protocol.Holding {
	c.t.Helper()
	c.send(request{Type: "describe", ID: id})
	m := c.find(0, func(m *message) bool { return m.Type == "described" && m.ID == id })
	must.Hold(c.t, m != nil, "the connection ended before an answer to describe")
	return m.described.Languages
}

// held asks until no kernel is busy, as those are on a slow machine.
func (c *connection) held(id string) (all string) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); id += "+" {
		if all = said(c.describe(id)); !strings.Contains(all, "busy") {
			break
		}
	}
	return all
}

// said is a description in short.
func said(all []protocol.Holding) string {
	var parts []string
	for _, h := range all {
		words := append([]string{h.Language}, h.Holds...)
		if len(h.Imported) > 0 {
			words = append(words, "imports "+strings.Join(h.Imported, ", "))
		}
		if h.Asleep {
			words = append(words, "asleep")
		}
		if h.Busy {
			words = append(words, "busy")
		}
		parts = append(parts, strings.Join(words, "; "))
	}
	return strings.Join(parts, " | ")
}

func TestKernelsTellWhatTheyHold(t *testing.T) {
	t.Parallel()
	init := protocol.Init{FreezeBytes: 64 * mebibyte, FreezeSeconds: 60 * slowness, OnEOF: "wait", Twins: 5, TwinBytes: 1 << 30, SnapshotBytes: 16 * mebibyte, UndoBytes: 64 * mebibyte}
	c := start(t, python, options{init: init, also: []*language{javascript, bash}})
	check(t, "before any run", c.held("none"), "")
	c.completed("import json, os.path as place\nrows = [0] * 1204\nclass Own:\n    def __len__(self): raise SystemError\nown = Own()\ndef call(): pass")
	c.in(javascript).completed(`const p = require("path"); let rows = [1, 2]; function call() {}`)
	c.in(bash).completed("name=x; cd /; list=(1 2); call() { :; }")
	want := "python; own Own; rows list 1,204; call function; Own class; imports posixpath as place, json | " +
		"javascript; rows Array 2; call function; imports path as p | bash; list array; name text; call function"
	check(t, "they hold", c.held("all"), want)
	check(t, "again", c.held("again"), want)

	id := c.begin(lines(python.write.with("begun", ""), string(python.spin)))
	c.awaitFile("begun")
	check(t, "under a run", strings.Split(said(c.describe("busy")), " | ")[0], "python; busy")
	c.interrupt(id, "cancelled")
	c.done(id)
	c.stop()

	c = start(t, python, options{init: init, also: []*language{javascript, bash}, dir: c.dir})
	check(t, "asleep", c.held("asleep"), "python; call; own; Own; rows; place; json; asleep | javascript; call; rows; p; asleep | bash; list; name; asleep")
	c.in(javascript).completed("1")
	check(t, "one awake", c.held("one"), "python; call; own; Own; rows; place; json; asleep | javascript; rows Array 2; call function; imports path as p | bash; list; name; asleep")
}

func TestAKernelThatDoesNotTellIsBusy(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{bash}})
	pid := number(c.value(string(python.pid)))
	c.in(bash).completed("name=x")
	must.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
	check(t, "stopped", said(c.describe("stopped")), "python; busy | bash; name text")
	must.OK(t, syscall.Kill(pid, syscall.SIGCONT))
	check(t, "goes on", c.held("goes on"), "python | bash; name text")
}

// What a kernel tells of its variables may be forged.
func TestForgedDescriptionsAreBounded(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.run(python.forge + `
send('{"type": "described", "holds": [' + ", ".join(['"' + "n" * 5000 + '"'] * 300) + '], "imported": ["' + "i" * 5000 + '"], "variables": -5}')
x = 1`)
	check(t, "one that nobody asked for", strings.Contains(c.held("x"), "; x int; "), true)
}
