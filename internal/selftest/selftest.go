// Package selftest attacks a session from inside, and reports for each promise of the sandbox
// whether it held.
//
// Run makes a Report; Report.WriteTable and Report.WriteJSON print it, and Report.OK decides the exit
// status. Attacks are in Python: the machine, the engine and the supervisor are the same for every language.
package selftest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// Host is the data on the containers' host that a self-test needs.
type Host struct {
	// Checks are those of doctor. A promise that one of them says cannot be held is not enforced here.
	Checks []doctor.Check
	OnHost bool   // containers run on this machine
	Socket string // that the engine listens on, if it is one of this machine's
	// Pod is passed to attacks if containers are in pods. Shown adds the data of a running pod; nil: nothing.
	Pod   *attacks.Pod
	Shown func(*attacks.Pod)
	// Files are of the machines that containers run on, where this may be none of them.
	Files []string
	// Fixes maps a row's name to the fix of its findings.
	Fixes map[string]string
	// Rootless: the engine is no root. GVisor: a kernel of its own is between the code and the host's.
	Rootless, GVisor bool
}

// Podman returns the Host of a Podman engine.
func Podman(info podman.Info) Host {
	host := Host{OnHost: info.OnHost, Rootless: info.Rootless, GVisor: info.Isolation == service.GVisor, Checks: []doctor.Check{
		doctor.Rootless(info), doctor.SessionUsers(info), doctor.Seccomp(info),
		doctor.Limit(info, podman.LimitMemory), doctor.Limit(info, podman.LimitCPU), doctor.Limit(info, podman.LimitPIDs),
	}}
	if path, isPath := strings.CutPrefix(info.Address, "unix://"); isPath {
		host.Socket = path
	}
	return host
}

// Answer runs code in the default session of a manager, as a client's call does, and gives everything
// that the client would see.
type Answer func(ctx context.Context, code string) (string, error)

// Options configure the attacks.
type Options struct {
	// Config is the configuration of the sessions. Its bounds on a caller (the length of code, the time of a run, the number of sessions)
	// are widened if an attack needs more. Its Env should hold a value.
	Config sandbox.Config
	Engine engine.Engine // the same as the one in Config
	Host   Host
	// Egress is that through Config.WayOut.
	Egress attacks.Egress
	// Server gives answers about the sessions of a manager.
	Server func(*sandbox.Manager) Answer
	// Environ is the environment of this process, as os.Environ gives it.
	Environ []string
	// Standard: Python runs in this program's own image. There every attack must be made.
	Standard bool
	// Progress is told of every row before it is tried. Nil: nobody is.
	Progress func(name string, done, total int)
}

// Status is the outcome of a promise.
type Status string

// The statuses. Unenforced says that this host cannot hold the promise, as doctor says too; NotTried that
// the attack could not be made.
const (
	Proven     Status = "proven"
	Unenforced Status = "not_enforced"
	Broken     Status = "broken"
	NotTried   Status = "not_tried"
)

// Row is one promise.
type Row struct {
	Name     string         `json:"name"`
	Promise  string         `json:"promise"`
	Status   Status         `json:"status"`
	Tried    string         `json:"tried"`
	Refusals map[string]int `json:"refusals"` // how often which error was met
	Notes    []string       `json:"notes"`
	Why      string         `json:"why,omitempty"` // it is not proven
	Fix      string         `json:"fix,omitempty"`
	// Failed reports that this row alone makes the self-test fail.
	Failed bool `json:"failed"`
}

const (
	attackTimeout = 2 * time.Minute // or the time of a run in the configuration, if that is more
	closeTimeout  = 30 * time.Second
)

// Run attacks every promise. The error reports that there was nothing to attack, or that ctx ended; the report holds the attacks until then.
// Run closes its sessions in any case, and Report.Unclosed reports those that remained.
func Run(ctx context.Context, o Options) (report Report, err error) {
	t, err := newTester(o)
	if err != nil {
		return Report{}, err
	}
	defer func() { report.Unclosed = !t.close() }()
	if err := t.begin(ctx); err != nil {
		return Report{}, err
	}
	plan := t.plan()
	for i, p := range plan {
		if o.Progress != nil {
			o.Progress(p.name, i, len(plan))
		}
		row := t.try(ctx, p)
		if ctx.Err() != nil {
			return report, fmt.Errorf("stopped after %d of %d rows: %w", i, len(plan), context.Cause(ctx))
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// plan returns every row, in the order of the attacks: those that may cost a kernel come last.
func (t *tester) plan() []promise {
	return slices.DeleteFunc(slices.Clone(promises), func(p promise) bool { return p.needs != nil && !p.needs(t) })
}

func (t *tester) try(ctx context.Context, p promise) Row {
	row := Row{Name: p.name, Refusals: map[string]int{}, Notes: []string{}}
	source, err := p.load()
	if err != nil {
		row.Status, row.Why = NotTried, err.Error()
	}
	row.Promise, row.Tried = source.Promise, source.Tried
	if err == nil {
		t.judge(ctx, &row, p, source)
	}
	row.Failed = row.Status == Broken || row.Status == NotTried && t.o.Standard
	return row
}

// unenforceable moves the blame for a broken promise to the host, where doctor knows that it cannot
// hold it.
func (p promise) unenforceable(host Host, row *Row) {
	i := slices.IndexFunc(host.Checks, func(c doctor.Check) bool { return slices.Contains(p.hosts, c.Name) })
	if i < 0 || row.Status != Broken {
		return
	}
	if check := host.Checks[i]; check.Status != doctor.OK {
		row.Status, row.Why, row.Fix = Unenforced, check.Name+": "+check.Found+"; "+check.Why, check.Fix
	}
}
