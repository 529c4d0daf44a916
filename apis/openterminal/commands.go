package openterminal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// command is one that a chat began.
type command struct {
	chat, run, text string
	input           string // the pipe that is its standard input
}

var environmentName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func (c *call) start(wanted newCommand) (any, error) {
	wait, tail, err := c.wait()
	if err != nil {
		return nil, err
	}
	language, err := c.Language(string(sandbox.Bash))
	if err != nil {
		return nil, err
	}
	begun := command{chat: c.chat, text: strings.Clone(text.Clip(wanted.Command, maxCommand)), input: "/tmp/" + state.NewID("input-")}
	// A terminal merges its output streams, and its input does not end. The pipe gets its name once it is open: earlier input would be lost.
	first := fmt.Sprintf("exec 2>&1; cd -- %s || exit; mkfifo %[2]s- && exec <>%[2]s- && mv %[2]s- %[2]s; trap 'rm -f %[2]s' EXIT", apis.Quote("./"+c.below), begun.input)
	for _, name := range slices.Sorted(maps.Keys(wanted.Env)) {
		if !environmentName.MatchString(name) {
			return nil, fault.New(fault.InvalidArgument, "Use letters, digits and _.", "%q is no name of a variable.", text.Shorten(name, 80))
		}
		first += "; export " + name + "=" + apis.Quote(wanted.Env[name])
	}
	given := make(rest.Arguments)
	given.Set("fresh", true)
	given.Set("timeout_seconds", c.Sessions().Config().MaxRunTimeout.Seconds())
	run, err := apis.Start(c.r.Context(), c, c.session, language, first, wanted.Command, given)
	if err != nil {
		return nil, err
	}
	begun.run = run.ID
	c.mu.Lock()
	c.commands = append(c.commands[max(0, len(c.commands)-maxKept+1):], begun)
	c.mu.Unlock()
	return c.tell(run, begun, wait, 0, tail)
}

func (c *command) process() *process {
	return &process{commandState: commandState{ID: c.run, Command: c.text, Status: "running"}, Output: []output{}}
}

// ends sets the end of a command; nil: it still runs.
func (p *commandState) ends(res *sandbox.Result) {
	switch {
	case res == nil:
		return
	case res.Status == sandbox.Completed || res.Status == sandbox.Failed:
		p.Status = "done"
	default:
		p.Status = "killed"
	}
	p.ExitCode = &res.ExitCode
}

// wait reads the wait of a request, and the number of lines; below 0: all.
func (c *call) wait() (wait time.Duration, tail int64, err error) {
	seconds := 0.0
	if given := c.r.URL.Query().Get("wait"); given != "" && given != "null" {
		if seconds, err = strconv.ParseFloat(given, 64); err != nil || !(seconds >= 0) {
			return 0, 0, fault.New(fault.InvalidArgument, "Leave it out, or pass a number such as 10.", "wait is %q and must be a number of seconds.", text.Shorten(given, 40))
		}
	}
	tail, err = c.count("tail", -1)
	return time.Duration(min(seconds, maxWait) * float64(time.Second)), tail, err
}

// tell returns the state of a command, when it ended or the wait is over.
func (c *call) tell(run *sandbox.Run, of command, wait time.Duration, offset, tail int64) (any, error) {
	ctx := c.r.Context()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-run.Done():
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p := of.process()
	res, err := run.Result()
	if err != nil {
		return nil, err
	}
	if p.ends(res); res == nil {
		res = run.SoFar(ctx)
	}
	from := offset
	if tail >= 0 && res.Stdout.Truncated() {
		from = max(offset, res.Stdout.Bytes-maxText)
	}
	part, err := apis.Part(ctx, c, run.SessionID, res.Stdout, from, maxText)
	if err != nil {
		return nil, err
	}
	p.NextOffset, p.Truncated = max(offset, part.Next), !part.Ends || from > offset
	if last := lastLines(part.Text, tail); tail >= 0 {
		part.Text, p.Truncated = last, p.Truncated || len(last) < len(part.Text)
	}
	if part.Text != "" {
		p.Output = append(p.Output, output{"output", part.Text})
	}
	return p, nil
}

// lastLines returns the last lines of a text.
func lastLines(printed string, lines int64) string {
	from := len(strings.TrimSuffix(printed, "\n"))
	for ; lines > 0 && from >= 0; lines-- {
		from = strings.LastIndexByte(printed[:from], '\n')
	}
	switch {
	case from < 0:
		return printed
	case from == len(printed):
		return ""
	}
	return printed[from+1:]
}

// find finds a command of the chat that asks.
func (c *call) find() (run *sandbox.Run, found command, err error) {
	id := c.r.PathValue("process_id")
	c.mu.Lock()
	at := slices.IndexFunc(c.commands, func(one command) bool { return one.run == id && one.chat == c.chat })
	if at >= 0 {
		found = c.commands[at]
	}
	c.mu.Unlock()
	if at < 0 {
		return nil, found, fault.New(fault.RunNotFound, "list_processes says which there are.", "There is no command %q in this chat.", text.Shorten(id, 80))
	}
	run, err = c.Sessions().FindRun(id)
	return run, found, err
}

func (c *call) status() (any, error) {
	run, found, err := c.find()
	if err != nil {
		return nil, err
	}
	wait, tail, err := c.wait()
	if err != nil {
		return nil, err
	}
	offset, err := c.count("offset", 0)
	if err != nil {
		return nil, err
	}
	return c.tell(run, found, wait, offset, tail)
}

func (c *call) list() (any, error) {
	c.mu.Lock()
	commands := slices.Clone(c.commands)
	c.mu.Unlock()
	list := []commandState{}
	for _, one := range commands {
		run, err := c.Sessions().FindRun(one.run)
		if one.chat != c.chat || err != nil {
			continue
		}
		res, _ := run.Result()
		p := one.process()
		p.ends(res)
		list = append(list, p.commandState)
	}
	return list, nil
}

// typing waits for the pipe, which exists once the command began. Opened for reading and writing, it does not wait for a reader. Models
// write a newline as
// .
const typing = `for i in {1..100}; do [ -p "$1" ] && break; sleep .1; done; [ -p "$1" ] && printf %b "$2" 1<>"$1"`

func (c *call) input(given typed) (any, error) {
	run, found, err := c.find()
	if err != nil {
		return nil, err
	}
	if res, _ := run.Result(); res != nil {
		return nil, fault.New(fault.InvalidArgument, "Begin another one with run_command.", "The command has ended.")
	}
	if _, err = c.shell(typing, []string{found.input, given.Input}); err != nil {
		return nil, err
	}
	return done{Status: "ok"}, nil
}

func (c *call) kill() (any, error) {
	run, _, err := c.find()
	if err != nil {
		return nil, err
	}
	given := make(rest.Arguments)
	given.Set("run_id", run.ID)
	given.Set("cancel", true)
	if fields, err := c.Call(tools.WithWait(c.r.Context(), 0), "wait_for_run", given); fields == nil {
		return nil, err
	}
	select {
	case <-run.Done():
	case <-c.r.Context().Done():
		return nil, context.Cause(c.r.Context())
	}
	return done{Status: "killed"}, nil
}

// shellTime bounds a command of our own.
const shellTime = time.Minute

// shell runs a script of our own with words as its arguments, in the work directory. It may end with these exit codes.
func (c *call) shell(script string, words []string, may ...int) (*sandbox.Result, error) {
	code := "set --"
	for _, word := range words {
		code += " " + apis.Quote(word)
	}
	ctx := c.r.Context()
	run, err := c.Sessions().Run(sandbox.RunOptions{
		SessionID: c.session, Language: sandbox.Bash, Code: code + "; " + script, Timeout: shellTime, Fresh: true, Unlisted: true, Caller: ctx,
	})
	if err != nil {
		return nil, err
	}
	res, err := apis.End(ctx, run)
	if err == nil && res.Status != sandbox.Completed && (res.Status != sandbox.Failed || !slices.Contains(may, res.ExitCode)) {
		why := cmp.Or(strings.TrimSpace(res.Stderr.Head), res.Status.Words())
		err = fault.New(fault.InvalidArgument, "Look at it with list_files.", "That cannot be done: %s.", text.Shorten(strings.TrimSuffix(why, "."), 300))
	}
	return res, err
}
