//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// interrupt measures what a cancel of running code takes, from the call that asks for it to the answer.
func (b *bench) interrupt(ctx context.Context) {
	for tool, code := range map[string]string{"run_python_code": "while True: pass", "run_js_code": "while (true) {}"} {
		c := b.start(ctx, "--soft-wait=1s")
		c.call(tool, "1", nil)
		time.Sleep(settle)
		var took series
		for range 2 * b.rounds {
			var run struct {
				ID     string `json:"run_id"`
				Status string
			}
			if c.fields(tool, object{"code": code}, &run); run.Status != "running" {
				check(fmt.Errorf("%q is not running", code))
			}
			began := time.Now()
			a := c.request("tools/call", object{"name": "wait_for_run", "arguments": object{"run_id": run.ID, "cancel": true}})
			took = append(took, a.at.Sub(began))
		}
		c.close()
		b.row("interrupt of a busy loop to the answer, "+tool, took.String(), "p50 50 ms", "")
	}
}

// death measures the first call after a kernel has died.
func (b *bench) death(ctx context.Context) {
	for tool, code := range map[string][2]string{
		"run_python_code": {"import os; os.kill(os.getpid(), 9)", "print(1)"},
		"run_js_code":     {"process.kill(process.pid, 'SIGKILL')", "console.log(1)"},
	} {
		c := b.start(ctx)
		c.call(tool, code[1], nil)
		time.Sleep(2 * settle)
		var took series
		for range b.rounds {
			c.request("tools/call", codeCall(tool, code[0], nil))
			took = append(took, c.call(tool, code[1], nil))
			time.Sleep(time.Second)
		}
		c.close()
		b.row("kernel dead to the next answer, "+tool, took.String(), "150 ms", "")
	}
}

// floodTime is how long code floods the server with output.
const floodTime = time.Minute

// flood measures what output at full speed costs the server.
func (b *bench) flood(ctx context.Context) {
	c := b.start(ctx, "--soft-wait=2m", "--run-timeout=2m")
	defer c.close()
	c.call("run_python_code", "import time", nil)
	before := c.memory("VmRSS:")
	const code = `line = "x" * 99 + "\n"
end = time.monotonic() + %d
n = 0
while time.monotonic() < end:
    print(line * 1000, end="")
    n += 1
n / 10`
	a, r, _ := c.ask(codeCall("run_python_code", fmt.Sprintf(code, int(floodTime.Seconds())), nil))
	_, written, _ := strings.Cut(r.Content[0].Text, "\n[result]\n")
	b.row(fmt.Sprintf("server RSS at the peak of %v of output at full speed, over before", floodTime),
		inMB(c.memory("VmHWM:")-before), "20 MB", written+" MB were written")
	b.row("bytes of that in the answer", fmt.Sprintf("%d", len(a.result)), "", "")
}

// together runs code in several sessions at once, and returns how long that took.
func (c *client) together(code string, sessions ...string) time.Duration {
	began := time.Now()
	var answers []chan answer
	for _, id := range sessions {
		answers = append(answers, c.send("tools/call", codeCall("run_python_code", code, object{"session_id": id})))
	}
	for _, a := range answers {
		check((<-a).err)
	}
	return time.Since(began).Round(time.Millisecond)
}

// twenty measures twenty sessions that begin at once.
func (b *bench) twenty(ctx context.Context) {
	sessions := names(20)
	c := b.start(ctx, fmt.Sprintf("--max-sessions=%d", len(sessions)))
	defer c.close()
	before := c.memory("VmRSS:")
	own := ownTogether(ctx, len(sessions))
	b.row("20 sessions created and run at once", c.together("print(1)", sessions...).String(), "1.3 x the engine's", "the engine's own 20 "+own.String())
	b.row("server RSS for each of them", fmt.Sprintf("%.2f MB", float64(c.memory("VmRSS:")-before)/1024/float64(len(sessions))), "", "")
	for _, id := range sessions {
		c.closeSession(id)
	}
}

// parallel measures two sessions that sleep at once.
func (b *bench) parallel(ctx context.Context) {
	c := b.start(ctx)
	defer c.close()
	c.together("import time", names(2)...)
	b.row("two sessions, each 2 s of sleep, at once", c.together("time.sleep(2)", names(2)...).String(), "2.5 s", "2 s")
	for _, id := range names(2) {
		c.closeSession(id)
	}
}

// names returns so many ids of sessions.
func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("bench-%d", i))
	}
	return ids
}
