//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// interrupt measures what a cancel of running code takes, from the call that asks for it to the answer.
func (b *bench) interrupt(ctx context.Context, _ floors) error {
	for tool, code := range map[string]string{"run_python_code": "while True: pass", "run_js_code": "while (true) {}"} {
		c, err := start(ctx, b.server, "--soft-wait=1s")
		if err != nil {
			return err
		}
		if _, err := c.call(tool, "1", nil); err != nil {
			return err
		}
		time.Sleep(settle)
		var took series
		for range 2 * b.rounds {
			run, err := c.begin(tool, code)
			if err != nil {
				return err
			}
			began := time.Now()
			a := <-c.send("tools/call", map[string]any{"name": "wait_for_run", "arguments": map[string]any{"run_id": run, "cancel": true}})
			if a.err != nil {
				return a.err
			}
			took = append(took, a.at.Sub(began))
		}
		c.close()
		b.row("interrupt of a busy loop to the answer, "+tool, took.String(), "p50 50 ms", "")
	}
	return nil
}

// begin starts code that does not end, and gives the id of its run once the call has been answered.
func (c *client) begin(tool, code string) (string, error) {
	a := <-c.send("tools/call", codeCall(tool, code, nil))
	if a.err != nil {
		return "", a.err
	}
	var result struct {
		Meta struct {
			Run struct {
				ID     string `json:"run_id"`
				Status string
			} `json:"code-sandbox-mcp/result"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(a.result, &result); err != nil {
		return "", err
	}
	if result.Meta.Run.Status != "running" {
		return "", fmt.Errorf("%q is not running: %.300s", code, a.result)
	}
	return result.Meta.Run.ID, nil
}

// death measures the first call after a kernel has died.
func (b *bench) death(ctx context.Context, _ floors) error {
	for tool, code := range map[string][2]string{
		"run_python_code": {"import os; os.kill(os.getpid(), 9)", "print(1)"},
		"run_js_code":     {"process.kill(process.pid, 'SIGKILL')", "console.log(1)"},
	} {
		c, err := start(ctx, b.server)
		if err != nil {
			return err
		}
		if _, err := c.call(tool, code[1], nil); err != nil {
			return err
		}
		time.Sleep(2 * settle)
		var took series
		for range b.rounds {
			<-c.send("tools/call", codeCall(tool, code[0], nil))
			d, err := c.call(tool, code[1], nil)
			if err != nil {
				return err
			}
			took = append(took, d)
			time.Sleep(time.Second)
		}
		c.close()
		b.row("kernel dead to the next answer, "+tool, took.String(), "150 ms", "")
	}
	return nil
}

// floodTime is how long code floods the server with output.
const floodTime = time.Minute

// flood measures what output at full speed costs the server.
func (b *bench) flood(ctx context.Context, _ floors) error {
	c, err := start(ctx, b.server, "--soft-wait=2m", "--run-timeout=2m")
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.call("run_python_code", "import time", nil); err != nil {
		return err
	}
	before := c.memory("VmRSS:")
	const code = `line = "x" * 99 + "\n"
end = time.monotonic() + %d
n = 0
while time.monotonic() < end:
    print(line * 1000, end="")
    n += 1
n / 10`
	a := <-c.send("tools/call", codeCall("run_python_code", fmt.Sprintf(code, int(floodTime.Seconds())), nil))
	if a.err != nil {
		return a.err
	}
	var result struct{ Content []struct{ Text string } }
	if json.Unmarshal(a.result, &result) != nil || len(result.Content) == 0 {
		return fmt.Errorf("no answer of a run: %.300s", a.result)
	}
	_, written, _ := strings.Cut(result.Content[0].Text, "\n[result]\n")
	b.row(fmt.Sprintf("server RSS at the peak of %v of output at full speed, over before", floodTime),
		inMB(c.memory("VmHWM:")-before), "20 MB", written+" MB were written")
	b.row("bytes of that in the answer", fmt.Sprintf("%d", len(a.result)), "", "")
	return nil
}

// twenty measures twenty sessions that begin at once.
func (b *bench) twenty(ctx context.Context, floor floors) error {
	const sessions = 20
	c, err := start(ctx, b.server, fmt.Sprintf("--max-sessions=%d", sessions))
	if err != nil {
		return err
	}
	defer c.close()
	before := c.memory("VmRSS:")
	began := time.Now()
	var answers []chan answer
	for i := range sessions {
		answers = append(answers, c.send("tools/call", codeCall("run_python_code", "print(1)", map[string]any{"session_id": fmt.Sprintf("bench-%d", i)})))
	}
	for _, a := range answers {
		if got := <-a; got.err != nil {
			return got.err
		}
	}
	b.row("20 sessions created and run at once", time.Since(began).Round(time.Millisecond).String(), "", "container up "+floor.containerUp.String())
	b.row("server RSS for each of them", fmt.Sprintf("%.2f MB", float64(c.memory("VmRSS:")-before)/1024/sessions), "", "")
	for i := range sessions {
		if _, err := c.tool("close_session", map[string]any{"session_id": fmt.Sprintf("bench-%d", i)}); err != nil {
			return err
		}
	}
	return nil
}
