// Package upstream lets sandboxes' code call tools on other MCP servers that the user named. They run on the host, as the user's own
// clients start them, from their first use until the end. Code can only make calls, which are checked, bounded and recorded here.
//
// All data from code and from these servers is taken for hostile. A tool's result goes to the code as data.
package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// Bounds of the configuration, for zero values in Options.
const (
	defaultTimeout     = 10 * time.Minute // the run's own timeout is shorter as a rule
	defaultAnswerBytes = 32 << 20
	defaultCallsPerRun = 500
)

const (
	// startTime bounds a server's start until it names itself: npx may have to download it first.
	startTime = 2 * time.Minute
	// requestBytes bounds the request of code.
	requestBytes = 8 << 20
	// places is the number of calls to one server that run at a time; one session may use half.
	places = 16
	// heldBytes is the size of the long answers that are read at a time; servers must wait with more of them.
	heldBytes = 64 << 20
	// longestBackoff is the longest time until a server that fails again and again is tried once more.
	longestBackoff = time.Minute
)

// Options configure Servers. Zero values mean the defaults.
type Options struct {
	Definitions []Definition
	// Self is this program's file. Definitions that start it are left out: its tools reach into other sessions. Empty: none is.
	Self string
	// Secrets are masked in the servers' results and messages, by name.
	Secrets map[string]string
	// Allow names the tools that may be called though they do not say that they only read.
	Allow Patterns
	// TrustHints lets tools be called that say readOnlyHint.
	TrustHints  bool
	Timeout     time.Duration // of one call
	AnswerBytes int           // of one answer, at the most
	CallsPerRun int
	Log         *netlog.Log  // gets an entry for each call
	Logger      *slog.Logger // required
}

// Servers are the other servers. Make them with New; the methods may be called by any goroutine. Close them in the end.
type Servers struct {
	options Options
	masker  *secrets.Masker
	plain   [][]byte            // the secret values, as JSON writes them
	list    []*server           // in the order of their names
	itself  []string            // the names of those that are this program
	gate    *semaphore.Weighted // the bytes of long answers that are read
	counts  counts
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
}

// New starts no server: each is started by its first use.
func New(o Options) *Servers {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.AnswerBytes == 0 {
		o.AnswerBytes = defaultAnswerBytes
	}
	if o.CallsPerRun == 0 {
		o.CallsPerRun = defaultCallsPerRun
	}
	all := &Servers{options: o, masker: secrets.New(o.Secrets), gate: semaphore.NewWeighted(heldBytes), counts: counts{of: make(map[string][]runCount)}}
	for _, value := range o.Secrets {
		if secrets.Maskable(value) {
			quoted, _ := json.Marshal(value)
			all.plain = append(all.plain, quoted[1:len(quoted)-1])
			var plain bytes.Buffer // with &, < and > as they are
			encoder := json.NewEncoder(&plain)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(value)
			all.plain = append(all.plain, bytes.Trim(plain.Bytes(), "\"\n"))
		}
	}
	all.ctx, all.stop = context.WithCancel(context.Background())
	self, _ := os.Stat(o.Self)
	others := make([]Definition, 0, len(o.Definitions))
	names := make([]string, 0, len(o.Definitions))
	for _, d := range o.Definitions {
		if file, err := os.Stat(program(d)); d.Command != "" && err == nil && os.SameFile(file, self) {
			o.Logger.Info("server of tools left out: it is this server itself", "server", d.Name)
			all.itself = append(all.itself, d.Name)
			continue
		}
		others, names = append(others, d), append(names, d.Name)
	}
	byName := attributes(names)
	for _, d := range others {
		all.list = append(all.list, &server{definition: d, attribute: byName[d.Name], all: all, turns: fair.New(places)})
	}
	return all
}

// Names are the servers' names.
func (all *Servers) Names() []string {
	var names []string
	for _, s := range all.list {
		names = append(names, s.definition.Name)
	}
	return names
}

// Forget drops a session's counts.
func (all *Servers) Forget(session string) { all.counts.forget(session) }

// Close ends all of them, within about half a second, or with ctx, when they are killed.
func (all *Servers) Close(ctx context.Context) {
	all.stop()
	var ended sync.WaitGroup
	for _, s := range all.list {
		ended.Go(func() { s.close(ctx) })
	}
	ended.Wait()
}

// get finds a server by its name, else by its attribute; nil: there is none.
func (all *Servers) get(name string) *server {
	for _, is := range []func(*server) bool{
		func(s *server) bool { return s.definition.Name == name },
		func(s *server) bool { return s.attribute == name && name != "" },
	} {
		if at := slices.IndexFunc(all.list, is); at >= 0 {
			return all.list[at]
		}
	}
	return nil
}

// allowed reports whether code may call a tool.
func (all *Servers) allowed(server string, t tool) bool {
	return all.options.TrustHints && t.readOnly || all.options.Allow.match(server, t.Name)
}

// capture takes a request's raw answer out of the client library, which would decode it, and round its numbers.
type capture struct {
	gate   *semaphore.Weighted
	held   int64 // bytes of long results, which the gate counts until release
	result json.RawMessage
	err    *mcp.JSONRPCErrorDetails
}

// release gives the room of the results back.
func (c *capture) release() { c.gate.Release(c.held) }

type captureKey struct{}

func (all *Servers) withCapture(ctx context.Context) (context.Context, *capture) {
	c := &capture{gate: all.gate}
	return context.WithValue(ctx, captureKey{}, c), c
}

// captured gives a response to the request's capture, and the library an empty one in its place. Others' long messages are read only when
// there is room beside the long results of all captures: the gate's places are given in the order in which they were asked for.
func captured(ctx context.Context, response *transport.JSONRPCResponse) (*transport.JSONRPCResponse, error) {
	c, is := ctx.Value(captureKey{}).(*capture)
	if !is {
		return response, nil
	}
	if response.Error != nil {
		c.err = response.Error
		return response, nil
	}
	if bytes := min(int64(len(response.Result)), heldBytes); bytes > usualLength {
		if c.gate.Acquire(ctx, bytes) != nil {
			return nil, context.Cause(ctx)
		}
		c.held += bytes
	}
	c.result = response.Result
	empty := *response
	empty.Result = json.RawMessage(`{"content":[],"tools":[]}`)
	return &empty, nil
}

// countedRuns limits the counted runs of a session, the newest: no more go on at a time.
const countedRuns = 64

// counts counts the calls of runs.
type counts struct {
	mu sync.Mutex
	of map[string][]runCount // by session, the newest run last
}

type runCount struct {
	run   string
	calls int
}

// add counts a call and returns its run's calls. A call outside any run counts as the newest run's.
func (c *counts) add(session, run string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.of[session]
	at := slices.IndexFunc(runs, func(r runCount) bool { return r.run == run })
	if at < 0 && run == "" {
		at = len(runs) - 1
	}
	if at < 0 {
		if len(runs) == countedRuns {
			runs = slices.Delete(runs, 0, 1)
		}
		runs, at = append(runs, runCount{run: run}), len(runs)
		c.of[session] = runs
	}
	runs[at].calls++
	return runs[at].calls
}

func (c *counts) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, session)
}
