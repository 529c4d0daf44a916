// Tasks: the protocol's extension for calls that outlive their request. A client that declares it with a long call gets a task in the place
// of the answer, and polls.

package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// TasksExtension is the extension's name, by which clients and servers declare it.
const TasksExtension = "io.modelcontextprotocol/tasks"

const (
	taskAfter = 2 * time.Second
	// taskLife is how long an answer waits for its client at least: the longest run may have gone before.
	taskLife = time.Hour
	// maxTasks bounds the tasks of a principal. While all of them go on, further calls are answered as those of other clients.
	maxTasks = 64
	// missingCapability is the code of the protocol's error for a client that does not declare what its request needs.
	missingCapability = -32021
)

// The states of a task.
const (
	taskWorking   = "working"
	taskAsks      = "input_required"
	taskCompleted = "completed"
	taskCancelled = "cancelled"
)

// taskState is a task as its client sees it. A time is of RFC 3339.
type taskState struct {
	mcp.Result
	TaskID        string              `json:"taskId"`
	Status        string              `json:"status"`
	Message       string              `json:"statusMessage,omitempty"`
	Created       time.Time           `json:"createdAt"`
	Updated       time.Time           `json:"lastUpdatedAt"`
	LifeMillis    int64               `json:"ttlMs"`
	PollMillis    int64               `json:"pollIntervalMs,omitempty"`
	InputRequests mcp.InputRequests   `json:"inputRequests,omitempty"`
	Answer        *mcp.CallToolResult `json:"result,omitempty"`
}

// tasks are the tasks of one principal.
type tasks struct {
	after time.Duration // how long a call may take that is answered as any other
	life  time.Duration // of a task, from its beginning
	mu    sync.Mutex
	all   []*task // the oldest first
}

// task is a call that may outlive its request, or a run that an earlier server began.
type task struct {
	id     string // of the run, where the call has one: it finds the answer in a later server too. all.mu guards it
	came   time.Time
	cancel func()

	mu    sync.Mutex
	run   *sandbox.Run  // the one that the call waits for; nil: none yet
	began chan struct{} // closed with the first one
	asked *ask.Open     // the last question that the client was shown

	done   chan struct{} // closed behind the two below
	answer *mcp.CallToolResult
	err    error // the end of the call's context
}

// taskPrefix begins each id. A run's task has the rest of the run's id.
const taskPrefix = "task-"

func taskOfRun(run *sandbox.Run) string {
	return taskPrefix + strings.TrimPrefix(run.ID, runs.RunPrefix)
}

type taskKey struct{}

// taskOf returns the task that the call of ctx may become; nil: it will not.
func taskOf(ctx context.Context) *task {
	k, _ := ctx.Value(taskKey{}).(*task)
	return k
}

// follow notes the run that the call waits for now.
func (k *task) follow(run *sandbox.Run) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		close(k.began)
	}
	k.run = run
}

func (k *task) follows() *sandbox.Run {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.run
}

func (k *task) over() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// declaresTasks reports whether a request with this _meta may be answered by a task.
func declaresTasks(meta *mcp.Meta) bool {
	client := meta.ClientCapabilities()
	return client != nil && client.Extensions[TasksExtension] != nil
}

// declareTasks declares the extension to clients that know it. The others' answers stay as they are, to the byte.
func declareTasks(s *server.MCPServer) {
	hooks := cmp.Or(s.GetHooks(), &server.Hooks{})
	hooks.AddAfterDiscover(func(_ context.Context, _ any, request *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
		if declaresTasks(request.Params.Meta) {
			result.Capabilities.Extensions = map[string]any{TasksExtension: struct{}{}}
		}
	})
	server.WithHooks(hooks)(s)
}

// tasked returns the handler of a tool with calls that become tasks.
func (d *Deps) tasked(t tool, call server.ToolHandlerFunc) server.ToolHandlerFunc {
	if !t.long {
		return call
	}
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if !declaresTasks(request.Params.Meta) || rpc.IsLong(ctx) || !d.tasks.hasRoom() { // a task has its message without a share of the room
			return call(ctx, request)
		}
		rpc.Begin(ctx)
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		ofRequest := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		k := &task{came: time.Now(), cancel: func() { cancel(rpc.ErrCancelledByClient) }, began: make(chan struct{}), done: make(chan struct{})}
		go func() {
			k.answer, k.err = call(context.WithValue(own, taskKey{}, k), request)
			cancel(nil)
			close(k.done)
			if t.runs {
				d.tasks.leave(k)
			}
		}()
		short := time.NewTimer(d.tasks.after)
		defer short.Stop()
		select {
		case <-k.done:
		case <-short.C:
			if t.runs { // its first run gives the task its id
				select {
				case <-k.done:
				case <-k.began:
				}
			}
		}
		if k.over() || !ofRequest() || !d.tasks.add(k) { // it is short, or was cancelled, or there is no room
			<-k.done
			return k.answer, k.err
		}
		state := d.state(k)
		state.ResultType = "task"
		rpc.AnswerWith(ctx, state)
		return &mcp.CallToolResult{}, nil
	}
}

func (all *tasks) hasRoom() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.all) < maxTasks || slices.ContainsFunc(all.all, (*task).over)
}

// add gives a task its id. It reports whether there was room.
func (all *tasks) add(k *task) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.place(k)
}

// place is add with all.mu held.
func (all *tasks) place(k *task) bool {
	all.all = slices.DeleteFunc(all.all, func(o *task) bool { return o.over() && time.Since(o.came) > all.life })
	if len(all.all) >= maxTasks {
		oldest := slices.IndexFunc(all.all, (*task).over)
		if oldest < 0 {
			return false
		}
		all.all = slices.Delete(all.all, oldest, oldest+1)
	}
	k.id = taskPrefix + rand.Text()
	if run := k.follows(); run != nil && all.of(taskOfRun(run)) == nil {
		k.id = taskOfRun(run)
	}
	all.all = append(all.all, k)
	return true
}

// of returns a task; nil: there is none of this id. all.mu is held.
func (all *tasks) of(id string) *task {
	if i := slices.IndexFunc(all.all, func(k *task) bool { return k.id == id }); i >= 0 {
		return all.all[i]
	}
	return nil
}

// leave forgets a task that is over and has the id of its run, which has the answer.
func (all *tasks) leave(k *task) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if run := k.follows(); run != nil && k.id == taskOfRun(run) {
		all.all = slices.DeleteFunc(all.all, func(o *task) bool { return o == k })
	}
}

// findTask returns a task; or a run that is over, or for which there is no room among the tasks. The error is a fault.
func (d *Deps) findTask(id string) (*task, *sandbox.Run, error) {
	d.tasks.mu.Lock()
	k := d.tasks.of(id)
	d.tasks.mu.Unlock()
	if k != nil {
		return k, nil, nil
	}
	run, err := d.Manager.FindRun(runs.RunPrefix + strings.TrimPrefix(id, taskPrefix))
	if err != nil || run.Over() {
		return nil, run, err
	}
	k = &task{came: time.Now().Add(-run.Progress().Elapsed), cancel: run.Interrupt, run: run, done: make(chan struct{})}
	d.tasks.mu.Lock()
	defer d.tasks.mu.Unlock()
	if other := d.tasks.of(id); other != nil { // another client polled at the same time
		return other, nil, nil
	}
	if !d.tasks.place(k) {
		return nil, run, nil
	}
	go func() {
		<-run.Done()
		close(k.done)
		d.tasks.leave(k)
	}()
	return k, nil, nil
}

// state describes a task that goes on.
func (d *Deps) state(k *task) taskState {
	age := time.Since(k.came)
	s := taskState{
		TaskID: k.id, Status: taskWorking, Created: k.came.UTC(), Updated: time.Now().UTC(), LifeMillis: d.tasks.life.Milliseconds(),
		PollMillis: min(max(age/8, time.Second), 5*time.Second).Milliseconds(), Message: fmt.Sprintf("running for %d s", int(age.Seconds())),
	}
	s.ResultType = mcp.ResultTypeComplete
	if run := k.follows(); run != nil {
		s.Message = progressText(run)
	}
	return s
}

// taskParams are the params of the extension's methods.
type taskParams struct {
	Meta           *mcp.Meta          `json:"_meta"`
	TaskID         string             `json:"taskId"`
	InputResponses mcp.InputResponses `json:"inputResponses"`
}

// Methods returns the methods of the extensions, which need Register first.
func (d *Deps) Methods() rpc.Methods {
	return rpc.Methods{
		"tasks/get": d.onTask(d.getTask), "tasks/update": d.onTask(d.updateTask), "tasks/cancel": d.onTask(d.cancelTask),
		"skills/list": d.tellSkill(false), "skills/get": d.tellSkill(true),
	}
}

// onTask returns a method of the task that its params name: of k, or where that is nil of a run.
func (d *Deps) onTask(do func(ctx context.Context, p *taskParams, k *task, run *sandbox.Run) any) rpc.Method {
	return func(ctx context.Context, params json.RawMessage) (any, *mcp.JSONRPCErrorDetails) {
		var p taskParams
		if err := json.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, &mcp.JSONRPCErrorDetails{Code: mcp.INVALID_PARAMS, Message: "Invalid params: taskId must be a string"}
		}
		if !declaresTasks(p.Meta) {
			needs := mcp.ClientCapabilities{Extensions: map[string]any{TasksExtension: struct{}{}}}
			return nil, &mcp.JSONRPCErrorDetails{
				Code: missingCapability, Message: "Missing required client capability", Data: map[string]any{"requiredCapabilities": needs},
			}
		}
		k, run, err := d.findTask(p.TaskID)
		if err != nil {
			why := d.Secrets.Mask(err.Error())
			if fault.From(err).Code == fault.RunNotFound {
				why = fmt.Sprintf("there is no task %q", text.Safe(p.TaskID, 80))
			}
			return nil, &mcp.JSONRPCErrorDetails{Code: mcp.INVALID_PARAMS, Message: "Invalid params: " + why}
		}
		return do(ctx, &p, k, run), nil
	}
}

func (d *Deps) getTask(ctx context.Context, p *taskParams, k *task, run *sandbox.Run) any {
	if k == nil {
		k = &task{id: p.TaskID, came: run.Created, run: run, done: make(chan struct{})}
		if run.Over() {
			close(k.done)
		}
	}
	s := d.state(k)
	if !k.over() {
		if open := d.question(p, k); open != nil {
			s.Status, s.InputRequests = taskAsks, mcp.InputRequests{open.ID: mcp.NewElicitationInputRequest(form(open))}
		}
		return s
	}
	answer, err := k.answer, k.err
	switch run := k.follows(); {
	case err != nil || run == nil || !run.Over():
	case answer != nil: // its pictures have room in this request alone
		answer, _ = d.collect(ctx, run)
	default:
		answer, err = d.resultOf(ctx, run)
	}
	s.Status, s.Message, s.PollMillis, s.Answer = taskCompleted, "", 0, answer
	if err != nil {
		s.Status = taskCancelled
	}
	return s
}

// resultOf returns the answer to the call of a run that is over. The error says that it was cancelled.
func (d *Deps) resultOf(ctx context.Context, run *sandbox.Run) (*mcp.CallToolResult, error) {
	if res, err := run.Result(); err == nil && res.Status == sandbox.Cancelled {
		return nil, rpc.ErrCancelledByClient
	}
	return d.collect(ctx, run)
}

// collect returns the answer of wait_for_run for a run that is over.
func (d *Deps) collect(ctx context.Context, run *sandbox.Run) (*mcp.CallToolResult, error) {
	collect := tool{handle: func(ctx context.Context, _ *params) (*render.Answer, error) { return d.answer(ctx, run, 0, false) }}
	return d.wrap(collect)(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "wait_for_run", Arguments: map[string]any{"run_id": run.ID}}})
}

// question returns the open question that the client of a task is to be shown; nil: there is none, or it cannot ask.
func (d *Deps) question(p *taskParams, k *task) *ask.Open {
	run := k.follows()
	client := p.Meta.ClientCapabilities()
	if run == nil || d.Asks == nil || !rpc.ElicitsForms(*client) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked != nil {
		select {
		case <-k.asked.Settled():
		default:
			return k.asked
		}
	}
	k.asked, _ = d.Asks.Next(run.SessionID)
	return k.asked
}

// updateTask passes on the answer to the question of a task. Any other does nothing.
func (d *Deps) updateTask(_ context.Context, p *taskParams, k *task, _ *sandbox.Run) any {
	if k != nil {
		if open := d.question(p, k); open != nil {
			if _, is := p.InputResponses[open.ID]; is {
				answerQuestion(d.Asks, open.ID, server.ElicitationResponse(p.InputResponses, open.ID))
			}
		}
	}
	return mcp.Result{ResultType: mcp.ResultTypeComplete}
}

// cancelTask ends the call of a task; the variables stay. One that is over stays as it ended.
func (d *Deps) cancelTask(_ context.Context, _ *taskParams, k *task, run *sandbox.Run) any {
	if k != nil {
		k.cancel()
	} else {
		run.Interrupt()
	}
	return mcp.Result{ResultType: mcp.ResultTypeComplete}
}
