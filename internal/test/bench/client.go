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

// client is the least an MCP client can be, so that what is measured is the server.
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

func start(ctx context.Context, server string, args ...string) (*client, error) {
	began := time.Now()
	process := exec.CommandContext(ctx, server, append([]string{"--log-level=warn"}, args...)...)
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	c := &client{process: process, in: in, waiting: make(map[int]chan answer)}
	go c.read(out)
	err = c.request("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	})
	c.initialized = time.Since(began)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return c, err
}

func (c *client) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.fail(err)
			return
		}
		at := time.Now()
		var message struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(line, &message); err != nil {
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
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err != nil {
		c.fail(err)
	}
	return ch
}

// request waits for an answer of which only the arrival matters.
func (c *client) request(method string, params any) error {
	a := <-c.send(method, params)
	return a.err
}

func codeCall(tool, code string, more map[string]any) map[string]any {
	arguments := map[string]any{"code": code}
	for name, value := range more {
		arguments[name] = value
	}
	return map[string]any{"name": tool, "arguments": arguments}
}

// call runs code and gives the time from request to answer. A run that did not complete is an error.
func (c *client) call(tool, code string, more map[string]any) (time.Duration, error) {
	params := codeCall(tool, code, more)
	began := time.Now()
	a := <-c.send("tools/call", params)
	if a.err != nil {
		return 0, a.err
	}
	var result struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(a.result, &result); err != nil {
		return 0, err
	}
	if len(result.Content) == 0 || !strings.HasPrefix(result.Content[0].Text, "completed") {
		return 0, fmt.Errorf("%s %q: %s", tool, code, a.result)
	}
	return a.at.Sub(began), nil
}

// tool calls a tool that answers at once, and gives the time that it took.
func (c *client) tool(name string, arguments map[string]any) (time.Duration, error) {
	began := time.Now()
	a := <-c.send("tools/call", map[string]any{"name": name, "arguments": arguments})
	if a.err != nil {
		return 0, a.err
	}
	var result struct{ IsError bool }
	if err := json.Unmarshal(a.result, &result); err != nil {
		return 0, err
	}
	if result.IsError {
		return 0, fmt.Errorf("%s: %.300s", name, a.result)
	}
	return a.at.Sub(began), nil
}

// fields calls a tool and decodes what its answer has for programs.
func (c *client) fields(name string, arguments map[string]any, into any) error {
	a := <-c.send("tools/call", map[string]any{"name": name, "arguments": arguments})
	if a.err != nil {
		return a.err
	}
	var result struct {
		IsError bool
		Meta    struct {
			Result json.RawMessage `json:"code-sandbox-mcp/result"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(a.result, &result); err != nil {
		return err
	}
	if result.IsError {
		return fmt.Errorf("%s: %.300s", name, a.result)
	}
	return json.Unmarshal(result.Meta.Result, into)
}

// rss is the server's resident memory as the system tells it.
func (c *client) rss() string { return inMB(c.memory("VmRSS:")) }

// memory is a line of the system's account of the server, in KiB; 0 where it tells none.
func (c *client) memory(name string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.Process.Pid))
	if err != nil {
		return 0
	}
	return kilobytes(status, name)
}

// kilobytes finds a line by its name, as /proc has them; 0: there is none.
func kilobytes(text []byte, name string) int {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				return kb
			}
		}
	}
	return 0
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
