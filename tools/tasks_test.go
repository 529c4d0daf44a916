//go:build unix

package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// newPoller returns a client whose long calls become tasks at once.
func newPoller(t *testing.T, more ...sandbox.Language) *talker {
	c := newTalker(t, func(d *Deps) { d.Asks = ask.New(ask.Options{}) }, more...)
	c.d.tasks.after = 0
	return c
}

// modern sends a request of the era of the extension, and returns the answer, with a result or an error.
func (c *talker) modern(declares bool, method string, params map[string]any) (state taskState, failed mcp.JSONRPCErrorDetails, whole string) {
	c.t.Helper()
	can := args{"elicitation": args{}}
	if declares {
		can["extensions"] = args{TasksExtension: args{}}
	}
	params = maps.Clone(params)
	params["_meta"] = args{
		mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientInfo: args{"name": "t", "version": "1"}, mcp.MetaKeyClientCapabilities: can,
	}
	whole = c.ask(method, params)
	var answer struct {
		Result json.RawMessage
		Error  mcp.JSONRPCErrorDetails
	}
	must.OK(c.t, json.Unmarshal([]byte(whole), &answer))
	_ = json.Unmarshal(answer.Result, &state) // another result has none of its fields
	return state, answer.Error, whole
}

// until polls a task until it has a status.
func (c *talker) until(status, id string) (state taskState, whole string) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		state, _, whole = c.modern(true, "tasks/get", args{"taskId": id})
		if state.Status == status {
			return state, whole
		}
		must.Hold(c.t, time.Now().Before(deadline), "not %s: %s", status, whole)
	}
}

// A long call of a client that declares the extension is a task: it can be polled, by a later server too, and its answer stays.
func TestALongCallIsATask(t *testing.T) {
	c := newPoller(t)
	pipe := filepath.Join(t.TempDir(), "go-on")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	call := args{"name": "run_bash", "arguments": args{"session_id": "one", "code": fmt.Sprintf("x=4; read y <%s; echo over", pipe)}}
	task, _, whole := c.modern(true, "tools/call", call)
	must.Hold(t, task.ResultType == "task" && task.Status == taskWorking && task.LifeMillis > 0 && task.PollMillis > 0, "the call: %s", whole)
	for range 2 {
		state, whole := c.until(taskWorking, task.TaskID)
		should.Hold(t, state.ResultType == mcp.ResultTypeComplete && state.TaskID == task.TaskID && state.Message != "", "it goes on: %s", whole)
		c.d.tasks = &tasks{} // as in a later server
	}
	must.OK(t, os.WriteFile(pipe, []byte("\n"), 0))
	for range 2 {
		_, whole := c.until(taskCompleted, task.TaskID)
		should.Contain(t, whole, `"text":"completed in `, "the answer")
		should.Contain(t, whole, `over`, "the answer")
	}
	_, failed, _ := c.modern(true, "tasks/cancel", args{"taskId": task.TaskID}) // too late
	should.Equal(t, failed.Code, 0, "a cancel of a task that is over")
	c.until(taskCompleted, task.TaskID)
}

// A cancelled task leaves the variables, whether a run or another call is behind it.
func TestATaskIsCancelled(t *testing.T) {
	c := newPoller(t)
	waits := tool{definition: mcp.NewTool("waits"), long: true, handle: func(ctx context.Context, _ *params) (*render.Answer, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	c.server.AddTool(waits.definition, c.d.tasked(waits, c.d.wrap(waits)))
	pipe := filepath.Join(t.TempDir(), "began")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	for _, call := range []args{{"name": "run_bash", "arguments": args{"code": fmt.Sprintf("x=4; echo >%s; sleep 600", pipe)}}, {"name": "waits"}} {
		task, _, _ := c.modern(true, "tools/call", call)
		if call["name"] == "run_bash" {
			must.OK(t, should.ErrOf(os.ReadFile(pipe)))
		}
		for range 2 {
			_, failed, _ := c.modern(true, "tasks/cancel", args{"taskId": task.TaskID})
			should.Equal(t, failed.Code, 0, "%v is cancelled", call)
		}
		state, whole := c.until(taskCancelled, task.TaskID)
		should.Hold(t, state.Answer == nil, "%v: %s", call, whole)
	}
	c.play([]row{{"run_bash", args{"code": `echo "x is $x."`}, "x is 4."}})
}

// Requests that the extension refuses, and calls that stay as they are.
func TestWhatIsNoTask(t *testing.T) {
	c := newPoller(t)
	for name, test := range map[string]struct {
		declares bool
		method   string
		params   args
		want     string
	}{
		"a client that does not declare it":                     {false, "tools/call", args{"name": "run_bash", "arguments": args{"code": "echo over"}}, `"text":"completed in `},
		"a long message, of which a task would keep the memory": {true, "tools/call", args{"name": "run_bash", "arguments": args{"code": "sleep 0.2; echo over", "env": strings.Repeat("x", room.Small)}}, `"text":"completed in `},
		"a short tool":       {true, "tools/call", args{"name": "list_sessions"}, `"text":"`},
		"undeclared":         {false, "tasks/get", args{"taskId": "task-x"}, `"code":-32021`},
		"unknown":            {true, "tasks/get", args{"taskId": "task-x\x01"}, `"code":-32602,"message":"Invalid params: there is no task`},
		"unknown, to cancel": {true, "tasks/cancel", args{"taskId": "task-x"}, `"code":-32602`},
		"unknown, to update": {true, "tasks/update", args{"taskId": "task-x", "inputResponses": args{}}, `"code":-32602`},
		"no id":              {true, "tasks/get", args{}, `"code":-32602`},
		"a number":           {true, "tasks/get", args{"taskId": 5}, `"code":-32602`},
		"no such method":     {true, "tasks/list", args{}, `"code":-32601`},
		"discovered":         {true, "server/discover", args{}, TasksExtension},
	} {
		_, _, whole := c.modern(test.declares, test.method, test.params)
		should.Contain(t, whole, test.want, "%s", name)
	}
	_, _, whole := c.modern(false, "server/discover", args{})
	should.Hold(t, !strings.Contains(whole, "extensions"), "a client that does not declare it: %s", whole)
}

// While as many tasks go on as there may be, a call is answered as another client's.
func TestTasksAreBounded(t *testing.T) {
	c := newPoller(t)
	over, goesOn := &task{done: make(chan struct{})}, &task{done: make(chan struct{})}
	close(over.done)
	for range maxTasks - 1 {
		must.Hold(t, c.d.tasks.add(goesOn), "there is no room")
	}
	must.Hold(t, c.d.tasks.add(over) && c.d.tasks.hasRoom() && c.d.tasks.add(goesOn), "a task that is over makes no room")
	should.Hold(t, !c.d.tasks.hasRoom() && !c.d.tasks.add(goesOn), "there is room")
	_, _, whole := c.modern(true, "tools/call", args{"name": "run_bash", "arguments": args{"code": "echo over"}})
	should.Contain(t, whole, `"text":"completed in `, "a call beyond them")
}

// The question of a task's code is shown to its client until it is answered.
func TestATaskAsks(t *testing.T) {
	c := newPoller(t)
	task, _, _ := c.modern(true, "tools/call", args{"name": "run_bash", "arguments": args{"session_id": "one", "code": "sleep 600"}})
	given := make(chan ask.Answer, 1)
	go func() {
		answer, _ := c.d.Asks.Ask(t.Context(), ask.Question{Session: "one", Host: "a.example:80"})
		given <- answer
	}()
	state, whole := c.until(taskAsks, task.TaskID)
	again, _ := c.until(taskAsks, task.TaskID)
	must.Hold(t, len(state.InputRequests) == 1 && len(again.InputRequests) == 1, "the question: %s", whole)
	should.Contain(t, whole, "a.example:80", "the question")
	for id := range state.InputRequests {
		for _, key := range []string{"another", id} {
			responses := args{key: args{"action": "accept", "content": args{decisionKey: decisions[ask.Once]}}}
			c.modern(true, "tasks/update", args{"taskId": task.TaskID, "inputResponses": responses})
		}
	}
	should.Equal(t, <-given, ask.Once, "the answer")
	c.until(taskWorking, task.TaskID)
	c.modern(true, "tasks/cancel", args{"taskId": task.TaskID})
	c.until(taskCancelled, task.TaskID)
}

// Clients that poll the run of an earlier server at the same time follow one task.
func TestOneRunIsOneTask(t *testing.T) {
	c := newPoller(t)
	called, _, _ := c.modern(true, "tools/call", args{"name": "run_bash", "arguments": args{"code": "sleep 600"}})
	c.d.tasks = &tasks{}
	found := make(chan *task)
	for range 8 {
		go func() {
			k, _, _ := c.d.findTask(called.TaskID)
			found <- k
		}()
	}
	first := <-found
	for range 7 {
		should.Equal(t, <-found, first, "the task")
	}
	must.Hold(t, first != nil && first.id == called.TaskID && len(c.d.tasks.all) == 1, "the tasks: %v", c.d.tasks.all)
	c.modern(true, "tasks/cancel", args{"taskId": called.TaskID})
	c.until(taskCancelled, called.TaskID)
}

// The answer of a task has the pictures of its run, though the request that began it was answered before.
func TestATaskHasPictures(t *testing.T) {
	c := newPoller(t, sandbox.Python)
	pipe := filepath.Join(t.TempDir(), "go-on")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	code := fmt.Sprintf("import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('%s')\nopen(%q).read()\nP()", onePixel, pipe)
	run, _, _ := c.modern(true, "tools/call", args{"name": "run_python_code", "arguments": args{"code": code}})
	wait, _, whole := c.modern(true, "tools/call", args{"name": "wait_for_run", "arguments": args{"run_id": strings.Replace(run.TaskID, taskPrefix, runs.RunPrefix, 1)}})
	must.Hold(t, wait.TaskID != run.TaskID && wait.TaskID != "", "the wait is no task of its own: %s", whole)
	must.OK(t, os.WriteFile(pipe, []byte("\n"), 0))
	for _, id := range []string{wait.TaskID, run.TaskID} {
		_, whole := c.until(taskCompleted, id)
		should.Contain(t, whole, `"mimeType":"image/png"`, id)
	}
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
