//go:build unix

package main

import (
	"context"
	"fmt"
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

// together runs a line of code in several sessions at once, and returns how long that took.
func (c *client) together(sessions ...string) time.Duration {
	began := time.Now()
	var answers []chan answer
	for _, id := range sessions {
		answers = append(answers, c.send("tools/call", codeCall("run_python_code", "print(1)", object{"session_id": id})))
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
	b.row("20 sessions created and run at once", c.together(sessions...).String(), "1.3 x the engine's", "the engine's own 20 "+own.String())
	b.row("server RSS for each of them", fmt.Sprintf("%.2f MB", float64(c.memory("VmRSS:")-before)/1024/float64(len(sessions))), "", "")
	for _, id := range sessions {
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
