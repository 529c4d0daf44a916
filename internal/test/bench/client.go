//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// object is a JSON object.
type object = map[string]any

// client is the least an MCP client can be, so that what is measured is the server. What fails ends the measurement.
type client struct {
	process     *exec.Cmd
	in          io.WriteCloser
	initialized time.Duration // from the start of the process to the answer

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
}

type answer struct {
	result json.RawMessage
	err    error
	at     time.Time
}

// hello is what a client says first.
var hello = object{"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "bench", "version": "1"}}

func (b *bench) start(ctx context.Context, args ...string) *client {
	return start(ctx, b.server, args...)
}

func start(ctx context.Context, server string, args ...string) *client {
	began := time.Now()
	process := exec.CommandContext(ctx, server, append([]string{"--log-level=warn", "--spares=0"}, args...)...)
	process.Stderr = os.Stderr
	c := &client{process: process, in: must(process.StdinPipe()), waiting: make(map[int]chan answer)}
	out := must(process.StdoutPipe())
	check(process.Start())
	go c.read(out)
	c.request("initialize", hello)
	c.initialized = time.Since(began)
	must(io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"))
	return c
}

func (c *client) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		at := time.Now()
		var message struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err == nil {
			err = json.Unmarshal(line, &message)
		}
		if err != nil {
			c.fail(err)
			return
		}
		a := answer{result: message.Result, at: at}
		if message.Error != nil {
			a.err = fmt.Errorf("server: %s", message.Error.Message)
		}
		c.mu.Lock()
		if ch := c.waiting[message.ID]; ch != nil {
			ch <- a
			delete(c.waiting, message.ID)
		}
		c.mu.Unlock()
	}
}

func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ch := range c.waiting {
		ch <- answer{err: fmt.Errorf("connection ended: %w", err)}
		delete(c.waiting, id)
	}
}

// send puts a request on its way; its answer comes into the channel.
func (c *client) send(method string, params any) chan answer {
	ch := make(chan answer, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = ch
	c.mu.Unlock()
	if _, err := c.in.Write(append(must(json.Marshal(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})), '\n')); err != nil {
		c.fail(err)
	}
	return ch
}

func (c *client) request(method string, params any) answer {
	a := <-c.send(method, params)
	check(a.err)
	return a
}

func codeCall(tool, code string, more object) object {
	arguments := object{"code": code}
	for name, value := range more {
		arguments[name] = value
	}
	return object{"name": tool, "arguments": arguments}
}

// result is what the measurements read of an answer to tools/call.
type result struct {
	IsError bool
	Content []struct{ Text string }
	Meta    struct {
		Result json.RawMessage `json:"code-sandbox-mcp/result"`
	} `json:"_meta"`
}

// ask calls a tool and returns its answer, what that holds and how long it took.
func (c *client) ask(params object) (a answer, r result, took time.Duration) {
	began := time.Now()
	a = c.request("tools/call", params)
	check(json.Unmarshal(a.result, &r))
	return a, r, a.at.Sub(began)
}

// call runs code and returns the time from request to answer. A run that did not complete is an error.
func (c *client) call(tool, code string, more object) time.Duration {
	a, r, took := c.ask(codeCall(tool, code, more))
	if len(r.Content) == 0 || !strings.HasPrefix(r.Content[0].Text, "completed") {
		check(fmt.Errorf("%s %q: %s", tool, code, a.result))
	}
	return took
}

// tool calls a tool that answers at once, and returns the time that it took.
func (c *client) tool(name string, arguments object) time.Duration {
	a, r, took := c.ask(object{"name": name, "arguments": arguments})
	if r.IsError {
		check(fmt.Errorf("%s: %.300s", name, a.result))
	}
	return took
}

// fields calls a tool and decodes what its answer has for programs.
func (c *client) fields(name string, arguments object, into any) {
	a, r, _ := c.ask(object{"name": name, "arguments": arguments})
	if r.IsError {
		check(fmt.Errorf("%s: %.300s", name, a.result))
	}
	check(json.Unmarshal(r.Meta.Result, into))
}

// closeSession ends a session.
func (c *client) closeSession(id string) { c.tool("close_session", object{"session_id": id}) }

// rss is the server's resident memory as the system tells it.
func (c *client) rss() string { return inMB(c.memory("VmRSS:")) }

// memory is a line of the system's account of the server, in KiB; 0 where it tells none.
func (c *client) memory(name string) int {
	return kilobytes(fmt.Sprintf("/proc/%d/status", c.process.Process.Pid), name)
}

// kilobytes finds a line by its name in a file of /proc; 0: there is none.
func kilobytes(path, name string) (kb int) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(rest, &kb)
		}
	}
	return kb
}

func inMB(kb int) string {
	if kb == 0 {
		return "not known here"
	}
	return fmt.Sprintf("%.1f MB", float64(kb)/1024)
}

// close ends the server the way clients do, and waits for its end.
func (c *client) close() {
	_ = c.in.Close()
	_ = c.process.Wait()
}
