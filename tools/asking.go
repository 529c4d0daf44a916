// Questions of code to a person, which the client of a waiting call asks.

package tools

import (
	"context"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	questionKey = "question" // of the one input that a result asks for
	rootsKey    = "roots"    // of the client's roots, which a result may ask for instead
	decisionKey = "decision" // of the one field of a form
	// maxQuestions is how many one call puts; mcp-go asks no client of an older version more often. Those beyond wait on the page.
	maxQuestions = 9
)

// decisions maps each answer to the text that a person chooses.
var decisions = map[ask.Answer]string{
	ask.Deny: "Deny", ask.Once: "Allow once", ask.ForSession: "Allow for this session", ask.ForGood: "Allow for good",
}

// questionError ends a call that must ask its client. The call resumes when it comes again with the answer.
type questionError struct {
	open *ask.Open // nil: the client's roots are asked for
	run  *sandbox.Run
	put  int // questions of the call so far
}

func (q *questionError) Error() string { return "a person is asked" }

// result asks the client. Its state names the call to resume. A client can forge it, and can then name any run that wait_for_run can name.
func (q *questionError) result() *mcp.CallToolResult {
	if q.open == nil {
		return server.NewInputRequestBuilder(strings.Join([]string{q.run.ID, rootsKey, strconv.Itoa(q.put)}, "/")).Roots(rootsKey).ToolResult()
	}
	state := strings.Join([]string{q.run.ID, q.open.ID, strconv.Itoa(q.put)}, "/")
	return server.NewInputRequestBuilder(state).Elicit(questionKey, form(q.open)).ToolResult()
}

// form returns the form of a question.
func form(open *ask.Open) mcp.ElicitationParams {
	var choices []string
	for _, answer := range open.Answers {
		choices = append(choices, decisions[answer])
	}
	return mcp.ElicitationParams{
		Mode:    mcp.ElicitationModeForm,
		Message: open.Question.Words(),
		RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{decisionKey: map[string]any{"type": "string", "title": "Decision", "enum": choices}},
			"required":   []string{decisionKey},
		},
	}
}

// questionOf returns a question of a run's session that is put to the client of this call; nil: there is none. The channel is closed when
// there may be one; nil: this call puts none, as a task asks by itself.
func questionOf(ctx context.Context, desk *ask.Desk, run *sandbox.Run) (*questionError, <-chan struct{}) {
	put := roundOf(ctx)
	if desk == nil || put >= maxQuestions || taskOf(ctx) != nil || !rpc.CanElicit(ctx) {
		return nil, nil
	}
	open, changed := desk.Next(run.SessionID)
	if open == nil {
		return nil, changed
	}
	rpc.AskUntil(ctx, open.Settled())
	return &questionError{open, run, put + 1}, changed
}

type roundKey struct{}

func roundOf(ctx context.Context) int {
	n, _ := ctx.Value(roundKey{}).(int)
	return n
}

// answerQuestion passes on the decision of a client's user.
func answerQuestion(desk *ask.Desk, id string, said *mcp.ElicitationResult) {
	if said == nil || said.Action != mcp.ElicitationResponseActionAccept {
		if said != nil && said.Action == mcp.ElicitationResponseActionDecline {
			desk.Answer(id, ask.Deny, byClient)
			return
		}
		desk.Dismiss(id)
		return
	}
	fields, _ := said.Content.(map[string]any)
	for answer, words := range decisions {
		if fields[decisionKey] == words {
			desk.Answer(id, answer, byClient)
			return
		}
	}
	desk.Answer(id, ask.Deny, byClient)
}

// byClient names the client as the one that answered.
const byClient = "the client"

// interruptWith interrupts a run with the client's cancel of the call that asks for it, while no handler waits.
func interruptWith(ctx context.Context, run *sandbox.Run) {
	context.AfterFunc(ctx, func() { patienceOf(ctx).missed(run, true, context.Cause(ctx)) })
}
