package selftest

import (
	"context"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// promise is a promise of the sandbox, and the attack on it.
type promise struct {
	name string
	// session reports that the attack is one of those that need a session.
	session bool
	// hosts are doctor's checks of whether a host can hold the promise. None: every host can.
	hosts []string
	// needs reports whether there is anything to promise under these settings. Nil: there always is.
	needs func(*tester) bool
	// judge tries the attack. Nil: the attack is judged by its own verdict.
	judge func(ctx context.Context, t *tester, row *Row, source attacks.Attack) error
}

// promises are in the order to try them.
var promises = []promise{
	{name: "rootless", session: true, hosts: []string{"rootless", "user namespaces"}},
	{name: "user"},
	{name: "own_user", session: true, hosts: []string{"session users"}, judge: judgeOwnUser},
	{name: "capabilities"},
	{name: "setuid"},
	{name: "seccomp", hosts: []string{"seccomp"}},
	{name: "sockets", hosts: []string{"seccomp"}},
	{name: "readonly"},
	{name: "network"},
	{name: "pod", session: true, needs: func(t *tester) bool { return t.facts.Pod != nil }},
	{name: "mounts"},
	{name: "folders", session: true, needs: func(t *tester) bool { return len(t.facts.Mounts) > 0 }},
	{name: "host_files"},
	{name: "devices"},
	{name: "kernel_files"},
	{name: "identity"},
	{name: "processes"},
	{name: "memory", hosts: []string{"memory limit"}, judge: judgeExhaustion},
	{name: "cpu", hosts: []string{"cpu limit"}},
	{name: "pids", hosts: []string{"pids limit"}, judge: judgeExhaustion},
	{name: "files"},
	{name: "core"},
	{name: "tmpfs"},
	{name: "way_out", session: true, judge: judgeEgress},
	{name: "credentials", session: true, needs: func(t *tester) bool { return len(t.o.Egress.Secrets) > 0 }, judge: judgeCredentials},
	{name: "environment", session: true},
	{name: "secrets", session: true, judge: judgeSecrets},
	{name: "trespass", session: true, judge: judgeTrespass},
	{name: "take_over", session: true, judge: judgeTakeOver},
	{name: "frozen", session: true, needs: freezes, judge: judgeFrozen},
	{name: "twins", session: true, judge: judgeTwins},
	{name: "volume", session: true, judge: judgeVolume},
	{name: "volume_files", session: true, judge: judgeVolume},
	{name: "process_one", session: true, judge: judgeInKernel},
	{name: "signals", session: true, judge: judgeSignals},
	{name: "frames", session: true, judge: judgeFrames},
}

func (p promise) load() (attacks.Attack, error) {
	if p.session {
		return attacks.Session(p.name)
	}
	return attacks.Container(p.name)
}

func (t *tester) judge(ctx context.Context, row *Row, p promise, source attacks.Attack) {
	try := p.judge
	if try == nil {
		try = judgeVerdict
	}
	if err := try(ctx, t, row, source); err != nil {
		row.Status, row.Why = NotTried, err.Error()
	}
	p.unenforceable(t.o.Host, row)
	if row.Status == Unenforced && row.Fix == "" {
		row.Fix = t.o.Host.Fixes[row.Name]
	}
	if row.Status == Unenforced && row.Fix == "" && t.facts.GVisor {
		row.Fix = "leave --oci-runtime out, where this weighs more than a wall before the host's kernel"
	}
}

// judgeVerdict believes the attack's verdict, from an interpreter of its own.
func judgeVerdict(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	_, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{Fresh: true})
	return err
}

// attack runs an attack and fills the row in with its verdict. The error says that there was none;
// the result is there whenever the code ran.
func (t *tester) attack(ctx context.Context, m *sandbox.Manager, row *Row, source attacks.Attack, facts attacks.Facts, o sandbox.RunOptions) (*sandbox.Result, error) {
	program, err := source.Program(facts)
	if err != nil {
		return nil, err
	}
	o.Code = program
	res, err := run(ctx, m, o)
	if err != nil {
		return nil, err
	}
	verdict, err := attacks.ParseVerdict(res.Stdout.Head + res.Stdout.Tail)
	if err != nil {
		return res, fmt.Errorf("%w: %s %s%s", err, res.Status, res.Cause, errorOf(res))
	}
	row.take(verdict)
	return res, nil
}

func errorOf(res *sandbox.Result) string {
	if res.Error == nil {
		return ""
	}
	return fmt.Sprintf(" %s: %.300s", res.Error.Name, res.Error.Message)
}

func (r *Row) take(v attacks.Verdict) {
	r.Status = map[attacks.Outcome]Status{
		attacks.Held: Proven, attacks.GaveWay: Broken, attacks.Unenforced: Unenforced, attacks.NotTried: NotTried,
	}[v.Outcome]
	r.Why, r.Fix = v.Why, v.Fix
	for name, n := range v.Refusals {
		r.Refusals[name] += n
	}
	r.Notes = append(r.Notes, v.Notes...)
}

func (r *Row) broken(format string, args ...any) {
	r.Status, r.Why = Broken, fmt.Sprintf(format, args...)
}
