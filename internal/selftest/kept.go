// The attacks on variables that are kept: frozen in a file, and in copies of a kernel.

package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

func freezes(t *tester) bool { return t.o.Config.FreezeBytes > 0 }

// forgeries are the attack's versions of its own snapshot.
var forgeries = []string{"variables", "cut", "noise"}

// judgeFrozen lets a neighbour freeze its variables, and a session restore its forged snapshot.
func judgeFrozen(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	facts := t.facts
	theirs, mine := facts.Token+"-theirs", facts.Token+"-forger"
	defer t.closeNamed(ctx, t.other, theirs)
	defer t.closeNamed(ctx, t.attacked, mine)
	kept := sandbox.RunOptions{SessionID: theirs, Code: fmt.Sprintf("kept = %q + '-kept'", facts.Token)}
	if _, err := run(ctx, t.other, kept); err != nil {
		return err
	}
	if _, err := t.other.CloseSession(ctx, theirs, true); err != nil {
		return err
	}
	for _, facts.Forgery = range forgeries {
		// The forged file stays if the kernel ran nothing.
		o := sandbox.RunOptions{SessionID: mine, Fresh: facts.Forgery != "variables"}
		if _, err := t.attack(ctx, t.attacked, row, source, facts, o); err != nil || row.Status != Proven {
			return err
		}
		if _, err := t.attacked.CloseSession(ctx, mine, true); err != nil {
			return err
		}
		if !works(ctx, t.attacked, mine) {
			row.broken("the session does not answer any more: %s", facts.Forgery)
			return nil
		}
		if _, err := t.attacked.CloseSession(ctx, mine, true); err != nil {
			return err
		}
	}
	kept.Code = "kept"
	res, err := run(ctx, t.other, kept)
	if err == nil && (res.Value == nil || !strings.Contains(*res.Value, facts.Token+"-kept")) {
		row.broken("another session's frozen variables are not there any more: %v %s", res.Notes, errorOf(res))
	}
	return err
}

// closeNamed removes a session that was made for one attack.
func (t *tester) closeNamed(ctx context.Context, m *sandbox.Manager, id string) {
	if _, err := m.CloseSession(ctx, id, false); err != nil {
		t.unclosed = true
	}
}

// copyTime bounds the wait for a copy, which a kernel makes when it is idle.
const copyTime = time.Minute

// judgeTwins closes a session with copies of its kernel.
func judgeTwins(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	id, name := t.facts.Token+"-twins", t.facts.Token[len(t.facts.Token)-15:]
	if _, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{SessionID: id}); err != nil || row.Status != Proven {
		return errors.Join(err, closed(t.attacked.CloseSession(ctx, id, false)))
	}
	err := t.awaitCopy(ctx, id)
	before := processesNamed(name)
	if err = errors.Join(err, closed(t.attacked.CloseSession(ctx, id, false))); err != nil {
		return err
	}
	there, err := t.o.Engine.List(ctx, sandbox.LabelSession, id)
	if err == nil && len(there.Containers)+len(there.Volumes) > 0 {
		row.broken("the engine still has %v", there)
		return nil
	}
	left := processesNamed(name)
	for began := time.Now(); left > 0 && time.Since(began) < copyTime; left = processesNamed(name) {
		time.Sleep(copyTime / 600) // an engine may let them end by themselves
	}
	switch {
	case err != nil:
		return err
	case left > 0:
		row.broken("%d processes of it live", left)
	case before == 0:
		row.Notes = append(row.Notes, "its processes are not to be seen on this machine; the engine has nothing of it")
	default:
		row.Notes = append(row.Notes, fmt.Sprintf("%d processes before, none after", before))
	}
	return nil
}

func closed(_ string, err error) error { return err }

// awaitCopy runs code until the session holds a restorable copy.
func (t *tester) awaitCopy(ctx context.Context, id string) error {
	why := ""
	for began := time.Now(); time.Since(began) < copyTime; time.Sleep(copyTime / 600) {
		if _, err := run(ctx, t.attacked, sandbox.RunOptions{SessionID: id, Code: "6 * 7"}); err != nil {
			return err
		}
		session, err := t.attacked.Session(ctx, id)
		if err != nil {
			return err
		}
		for _, k := range session.Kernels {
			if len(k.Before) > 0 {
				return nil
			}
			if k.Language == sandbox.Python {
				why = k.NoTwin
			}
		}
	}
	return errors.New("no copy was made: " + why)
}

// processesNamed counts the processes of a name, as far as this machine shows them.
func processesNamed(name string) (n int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == name {
			n++
		}
	}
	return n
}
