// The wait of a call for a run.

package tools

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// progressEvery is how often a client that asked for progress hears of a run that says nothing.
const progressEvery = 5 * time.Second

// answer waits for a run as await does, and describes the result.
func (d *Deps) answer(ctx context.Context, run *sandbox.Run, wait time.Duration, own bool) (*render.Answer, error) {
	res, err := d.await(ctx, run, wait, own)
	if err != nil {
		return nil, err
	}
	if d.lacksRoots(ctx, res) {
		return nil, &questionError{run: run, put: roundOf(ctx) + 1}
	}
	patienceOf(ctx).answers(ctx, run, res.Status, own)
	r := d.renderer()
	if res.Status == sandbox.Running {
		return r.Run(ctx, res), nil
	}
	links, note := d.Store.deliverRun(ctx, d.Manager, run).await(ctx, "; wait_for_run with run_id "+run.ID+" gives their addresses")
	r.StoreLinks = links
	a := linked(ctx, r.Run(ctx, res), res)
	if note != "" {
		a.Noting("Note: " + note)
	}
	return a, nil
}

// await waits until a run is over or the soft wait ends; the result then is partial, with the status Running. A client's cancel interrupts
// the run if it is this call's own. The error is a *questionError if the client must be asked.
func (d *Deps) await(ctx context.Context, run *sandbox.Run, wait time.Duration, own bool) (*sandbox.Result, error) {
	taskOf(ctx).follow(run)
	soft := time.NewTimer(wait)
	defer soft.Stop()
	var tick <-chan time.Time
	if rpc.WantsProgress(ctx) {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	reported := -1
	for {
		question, another := questionOf(ctx, d.Asks, run)
		if question != nil {
			if own {
				interruptWith(ctx, run)
			}
			return nil, question
		}
		select {
		case <-another:
		case <-run.Done():
			return run.Result()
		case <-ctx.Done():
			patienceOf(ctx).missed(run, own, context.Cause(ctx))
			return nil, context.Cause(ctx)
		case <-run.Moved():
			reported = notifyProgress(ctx, run, reported)
		case <-tick:
			reported = notifyProgress(ctx, run, reported)
		case <-soft.C:
			sofar := run.SoFar(ctx)
			select {
			case <-run.Done(): // it ended while its output was asked for
				continue
			default:
				return sofar, nil
			}
		}
	}
}

// notifyProgress reports the seconds so far, where they are more than were reported. There is no total: the timeout is
// when a run is stopped, and not when it is done.
func notifyProgress(ctx context.Context, run *sandbox.Run, reported int) int {
	p := run.Progress()
	now := int(p.Elapsed.Seconds())
	if now > reported {
		rpc.NotifyProgress(ctx, float64(now), 0, progressText(run))
	}
	return max(now, reported)
}

func progressText(run *sandbox.Run) string {
	p := run.Progress()
	message := fmt.Sprintf("running for %d s", int(p.Elapsed.Seconds()))
	if p.WaitsFor != "" {
		message = "waits for " + p.WaitsFor
	}
	return cmp.Or(p.LastLine, message)
}

// wait is how long a call waits for a run from now on, where its arguments say nothing.
func (d *Deps) wait(ctx context.Context) time.Duration {
	if taskOf(ctx) != nil {
		return math.MaxInt64
	}
	most := d.SoftWait
	if wait, ok := ctx.Value(waitKey{}).(time.Duration); ok {
		most = min(wait, most)
	}
	if limit := waitLimit(ctx); limit > 0 {
		most = min(most, max(0, max(limit-answerBefore, limit/2)-rpc.Waited(ctx)))
	}
	return most
}

// resume resumes a call with its client's answer. own is whether the run is the call's own.
func (d *Deps) resume(ctx context.Context, request mcp.CallToolRequest, own bool) (*render.Answer, error) {
	settled(ctx)
	parts := strings.Split(request.Params.RequestState, "/")
	round := 0
	if len(parts) == 3 {
		round, _ = strconv.Atoi(parts[2])
	}
	if round < 1 || round > maxQuestions {
		return nil, fault.New(fault.InvalidArgument, "Call again without it.", "The requestState of the call is none of this server's.")
	}
	run, err := d.Manager.FindRun(parts[0])
	if err != nil {
		return nil, err
	}
	if parts[1] == rootsKey {
		ctx = rpc.WithRoots(ctx, server.RootsResponse(request.Params.InputResponses, rootsKey))
	} else if d.Asks != nil {
		answerQuestion(d.Asks, parts[1], server.ElicitationResponse(request.Params.InputResponses, questionKey))
	}
	return d.answer(context.WithValue(ctx, roundKey{}, round), run, d.wait(ctx), own)
}
