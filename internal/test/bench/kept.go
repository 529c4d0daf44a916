//go:build unix

// What is kept of a session's variables, and the containers that are kept ready for new ones.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	python = "run_python_code"
	// idle is longer than a kernel waits before it makes a copy, and spareTime than a server before it makes a container.
	idle      = 400 * time.Millisecond
	spareTime = 5 * time.Second
	frame     = "import numpy, pandas\nframe = pandas.DataFrame(numpy.random.default_rng(1).random((1_310_000, 10)))" // 100 MiB
)

// attempt measures something that may not be there: its row tells of that, and the next ones are measured.
func (b *bench) attempt(what, reach, floor string, measure func() string) {
	var measured string
	if err := try(func() { measured = measure() }); err != nil {
		measured = fmt.Sprintf("failed: %.200s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	b.row(what, measured, reach, floor)
}

// alone starts a server with a state folder of its own. end closes it, and removes what it has left.
func (b *bench) alone(ctx context.Context, args ...string) (c *client, dir string, end func()) {
	dir = must(os.MkdirTemp("", "csm-bench-"))
	c = b.start(ctx, append([]string{"--state-dir", dir, "--spares=1"}, args...)...)
	return c, dir, func() {
		c.close()
		_ = exec.CommandContext(ctx, b.server, "gc", "--state-dir", dir).Run()
		_ = os.RemoveAll(dir)
	}
}

// runID runs code and returns the id of the run.
func (c *client) runID(code string, more object) string {
	var run struct {
		ID     string `json:"run_id"`
		Status string
	}
	arguments := codeCall(python, code, more)["arguments"].(object)
	if c.fields(python, arguments, &run); run.Status != "completed" {
		check(fmt.Errorf("%q is %s", code, run.Status))
	}
	return run.ID
}

// wantValue runs code, and fails where it does not come to a value.
func (c *client) wantValue(code, value string, more object) time.Duration {
	a, r, took := c.ask(codeCall(python, code, more))
	if len(r.Content) == 0 || !strings.Contains(r.Content[0].Text, "[result]\n"+value) {
		check(fmt.Errorf("%q is not %s: %.300s", code, value, a.result))
	}
	return took
}

// spares measures sessions that begin where a container is ready.
func (b *bench) spares(ctx context.Context) {
	up := "container up " + b.floor.containerUp.String()
	b.attempt("first call of a further session, cold, "+python, "150 ms", up, func() string {
		c, _, end := b.alone(ctx, "--spares=0")
		defer end()
		return b.firstCalls(c, 0).String()
	})
	c, dir, end := b.alone(ctx)
	defer end()
	c.call(python, "print(1)", nil)
	b.attempt("the same with a container kept ready", "10 ms", up, func() string { return b.firstCalls(c, spareTime).String() })
	b.attempt("memory of a container that is kept ready (PSS)", "30 MB", "", func() string {
		time.Sleep(spareTime)
		return inMB(pss("spare-", dir))
	})
	b.attempt("first call of a new server that finds such a container", "10 ms", "", func() string {
		var took series
		for range b.rounds {
			c.close()
			time.Sleep(time.Second)
			c = b.start(ctx, "--state-dir", dir, "--spares=1")
			took = append(took, c.call(python, "print(1)", nil))
			time.Sleep(spareTime)
		}
		return took.String()
	})
}

// firstCalls are those of sessions that begin, each after a pause.
func (b *bench) firstCalls(c *client, pause time.Duration) (took series) {
	for _, id := range names(b.rounds) {
		time.Sleep(pause)
		took = append(took, c.call(python, "print(1)", object{"session_id": id}))
		c.closeSession(id)
	}
	return took
}

// copies measures what a kernel's copies cost, and what they are for.
func (b *bench) copies(ctx context.Context) {
	c, dir, end := b.alone(ctx, "--spares=0") // a container that was kept ready has a name of its own
	defer end()
	c.call(python, "x = 1", nil)
	time.Sleep(2 * settle)
	times := max(1, b.calls/restedPart)
	b.attempt("warm call in Python, each after a pause in which a copy is made", "as without", "", func() string {
		return calls(c, times, idle, python).String()
	})
	b.attempt("the same that comes as the copy is made", "", "", func() string {
		return calls(c, times, 52*time.Millisecond, python).String()
	})
	b.attempt("the same after a pause where no copy can be made", "", "", func() string {
		other := object{"session_id": "bench-thread"}
		c.call(python, "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()\nx = 1", other)
		time.Sleep(settle)
		var took series
		for range times {
			time.Sleep(idle)
			took = append(took, c.call(python, "x = 1", other))
		}
		c.closeSession("bench-thread")
		return took.String()
	})
	b.attempt("memory of a copy that nothing has touched (PSS)", "6 MB", "", func() string {
		id := object{"session_id": "bench-copies"}
		c.call(python, "x = 1", id)
		time.Sleep(2 * settle)
		var took []int
		for range 5 {
			c.call(python, "x = 1", id)
			time.Sleep(2 * idle)
			took = append(took, pss("bench-copies", dir))
		}
		c.closeSession("bench-copies")
		return inMB((took[3] - took[0]) / 3) // from two copies to five
	})
	b.attempt("processor time of a copy, with a frame of 100 MB", "8 ms", "", func() string { return b.copyCost(c, dir, frame) })
	b.attempt("the same with DuckDB open", "15 ms", "", func() string {
		return b.copyCost(c, dir, frame+"\nimport duckdb; con = duckdb.connect(); con.execute('create table t as select range i from range(1000)')")
	})
	b.attempt("killed run to the next answer, with the variables", "50 ms", "", func() string {
		var took series
		for i := range 2 * b.rounds {
			c.call(python, fmt.Sprintf("x = %d", i), nil)
			time.Sleep(idle)
			c.request("tools/call", codeCall(python, "x = -1\nimport os; os.kill(os.getpid(), 9)", nil))
			took = append(took, c.wantValue("x", strconv.Itoa(i), nil))
			time.Sleep(idle)
		}
		return took.String()
	})
	b.attempt("restore_session", "10 ms", "", func() string { return b.restores(c, "x = 1").String() })
	b.attempt("restore_session with a frame of 100 MB", "", "", func() string {
		c.call(python, frame, nil)
		time.Sleep(2 * idle)
		return b.restores(c, "frame[0] += 1").String()
	})
}

func (b *bench) restores(c *client, code string) (took series) {
	for range 2 * b.rounds {
		id := c.runID(code, nil)
		time.Sleep(2 * idle)
		took = append(took, c.tool("restore_session", object{"run_id": id}))
		time.Sleep(idle)
	}
	return took
}

// frozen measures variables that go to a file and come back.
func (b *bench) frozen(ctx context.Context) {
	c, _, end := b.alone(ctx, "--spares=0")
	defer end()
	cold := "cold " + b.firstCalls(c, 0).String()
	for _, test := range []struct{ what, code, see, value, freeze, wake string }{
		{"nothing but modules", "import numpy, pandas", "'pandas' in globals()", "True", "", "cold + 30 ms"},
		{"a frame of 100 MB", frame, "frame.shape", "(1310000, 10)", "0.6 s", "cold + 0.5 s"},
	} {
		var slept, woke series
		err := try(func() {
			for _, id := range names(b.rounds) {
				c.call(python, test.code, object{"session_id": id})
				time.Sleep(idle)
				slept = append(slept, c.tool("close_session", object{"session_id": id, "keep_files": true}))
				woke = append(woke, c.wantValue(test.see, test.value, object{"session_id": id}))
				c.closeSession(id)
			}
		})
		outcome := func(s series) func() string { return func() string { check(err); return s.String() } }
		b.attempt("close_session with keep_files, with "+test.what, test.freeze, "", outcome(slept))
		b.attempt("the next call, which wakes it", test.wake, cold, outcome(woke))
	}
}

const manySessions = 1000

// many measures a server beside very many sessions that sleep.
func (b *bench) many(ctx context.Context) {
	dir := must(os.MkdirTemp("", "csm-bench-"))
	defer func() { _ = os.RemoveAll(dir) }()
	sessions := filepath.Join(dir, "sessions")
	check(os.MkdirAll(sessions, 0o700))
	for i := range manySessions {
		id := fmt.Sprintf("bench-many-%d", i)
		lock := must(state.Take(sessions, id))
		check(errors.Join(state.NewRecord().Save(sessions, id), lock.Keep(), lock.Touch(time.Now())))
		lock.Release()
	}
	var started, listed series
	var memory string
	err := try(func() {
		for range b.rounds {
			c := b.start(ctx, "--state-dir", dir)
			started = append(started, c.initialized)
			var list struct {
				IDs []string `json:"session_ids"`
			}
			began := time.Now()
			c.fields("list_sessions", object{}, &list)
			listed = append(listed, time.Since(began))
			memory = c.rss()
			if n := len(list.IDs); n == 0 {
				check(errors.New("none of the sessions is listed"))
			}
			c.close()
		}
	})
	outcome := func(measured func() string) func() string { return func() string { check(err); return measured() } }
	b.attempt(fmt.Sprintf("initialize of a server beside %d named sessions", manySessions), "150 ms", "", outcome(func() string { return started.String() }))
	b.attempt("its list_sessions", "150 ms", "", outcome(func() string { return listed.String() }))
	b.attempt("its RSS then", "60 MB", "", outcome(func() string { return memory }))
}

// copyCost is the processor time of one copy, in a session that has run something: that of runs which are followed by one, less that
// of runs where a thread of the code's stands against it.
func (b *bench) copyCost(c *client, dir, code string) string {
	times := max(1, b.calls/restedPart)
	cost := func(id, first string) time.Duration {
		session := object{"session_id": id}
		c.call(python, code+first, session)
		time.Sleep(2 * settle)
		before := processorTime("-"+id+"-", dir)
		for range times {
			c.call(python, "y = 1", session)
			time.Sleep(idle)
		}
		defer c.closeSession(id)
		return (processorTime("-"+id+"-", dir) - before) / time.Duration(times)
	}
	without := cost("bench-without", "\nimport threading, time; threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()")
	return short(cost("bench-with", "") - without)
}

// processorTime is that of all processes that the containers have had, as pss finds them.
func processorTime(part, dir string) (sum time.Duration) {
	const tick = 10 * time.Millisecond
	for _, pid := range inContainers(part, dir) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil { // it has ended: its parent's has it
			continue
		}
		_, stat, _ := strings.Cut(string(text), ") ")
		for _, ticks := range strings.Fields(stat)[11:15] { // its own, and that of its children that have ended
			sum += time.Duration(must(strconv.Atoi(ticks))) * tick
		}
	}
	return sum
}

// pss is the memory in KiB of the processes in the containers whose name has a part, of the server with a state folder.
func pss(part, dir string) (kb int) {
	for _, pid := range inContainers(part, dir) {
		kb += kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	}
	return kb
}

// inContainers returns the processes in those containers.
func inContainers(part, dir string) (pids []int) {
	out := must(exec.Command("podman", "ps", "--format", "json").Output())
	var containers []struct {
		Names  []string
		Pid    int
		Labels map[string]string
	}
	check(json.Unmarshal(out, &containers))
	hosts := make(map[string]bool) // of this server's sessions, whose state is in the folder
	for _, c := range containers {
		if _, err := os.Stat(filepath.Join(dir, "sessions", c.Labels["code-sandbox-mcp.session"]+".lock")); err == nil {
			hosts[c.Labels["code-sandbox-mcp.host"]] = true
		}
	}
	for _, c := range containers {
		if hosts[c.Labels["code-sandbox-mcp.host"]] && strings.Contains(strings.Join(c.Names, " "), part) {
			pids = append(pids, sharing(c.Pid)...)
		}
	}
	if len(pids) == 0 {
		check(fmt.Errorf("no container has %s in its name", part))
	}
	return pids
}

// sharing returns all processes that share a process's namespace.
func sharing(pid int) (pids []int) {
	own := must(os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)))
	paths := must(filepath.Glob("/proc/[0-9]*/ns/pid"))
	for _, path := range paths {
		if to, err := os.Readlink(path); err == nil && to == own {
			pids = append(pids, must(strconv.Atoi(strings.Split(path, "/")[2])))
		}
	}
	return pids
}
