package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Answer is a server's answer to a client's first questions.
type Answer struct {
	Name, Version string
	Tools         int
	Took          time.Duration // from its start to its last answer
}

// probeTime bounds the look at a server. Clients give it more.
const probeTime = 20 * time.Second

// inherited are the variables that clients pass on to servers, beside PATH.
var inherited = map[string][]string{
	"windows": {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"},
	"":        {"HOME"},
}

// Probe starts the server like a client that was started from a desktop: with a short PATH, and almost no other variable. It asks for the
// tools, and ends the server.
func (o Options) Probe(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Server.Command, o.Server.Args...)
	cmd.Dir = o.System.Home
	cmd.Env = o.clientEnvironment()
	cmd.WaitDelay = 2 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return Answer{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Answer{}, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Answer{}, err
	}
	answer, err := converse(in, out)
	answer.Took = time.Since(start)
	_ = in.Close()
	if ended := cmd.Wait(); err != nil {
		return answer, errors.Join(fmt.Errorf("%w (%s)", err, cmd.ProcessState), ctx.Err(), said(ended, log.String()))
	}
	return answer, nil
}

// said returns the last lines of a server's log as an error, or ended if the log is empty.
func said(ended error, log string) error {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if text := strings.Join(lines[max(0, len(lines)-5):], "\n"); text != "" {
		return errors.New(text)
	}
	return ended
}

func (o Options) clientEnvironment() []string {
	path, names := "/usr/local/bin:/usr/bin:/bin", inherited[""]
	if o.System.OS == "windows" {
		path, names = o.System.Env("PATH"), inherited["windows"]
	}
	env := []string{"PATH=" + path}
	for _, name := range names {
		if value := o.System.Env(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range o.Server.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// converse asks the first questions of every client.
func converse(in io.Writer, out io.Reader) (Answer, error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 8<<20)
	var answer Answer
	var hello struct {
		ServerInfo struct{ Name, Version string }
	}
	err := ask(in, lines, 1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"code-sandbox-mcp-install","version":"1"}}`, &hello)
	if err != nil {
		return answer, err
	}
	answer.Name, answer.Version = hello.ServerInfo.Name, hello.ServerInfo.Version
	_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	var list struct{ Tools []json.RawMessage }
	if err := ask(in, lines, 2, "tools/list", `{}`, &list); err != nil {
		return answer, err
	}
	answer.Tools = len(list.Tools)
	return answer, nil
}

func ask(in io.Writer, lines *bufio.Scanner, id int, method, params string, result any) error {
	// A server that ended takes no input, and its silence tells more than the error.
	_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	for lines.Scan() {
		var message struct {
			ID     *int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			return fmt.Errorf("it answered %s with something else than JSON: %.80q", method, lines.Text())
		}
		switch {
		case message.ID == nil || *message.ID != id: // a notification
		case message.Error != nil:
			return fmt.Errorf("it refused %s: %s", method, message.Error.Message)
		default:
			return json.Unmarshal(message.Result, result)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("it ended without an answer to %s", method)
}
