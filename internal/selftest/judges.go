package selftest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// judgeSecrets checks a client's view of code that prints all that it was given.
func judgeSecrets(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	program, err := source.Program(t.facts)
	if err != nil {
		return err
	}
	answer, err := t.answer(ctx, program)
	if err != nil {
		return err
	}
	row.Status = Proven
	for name, value := range t.o.Config.Env {
		if len(value) < minTelling {
			row.Notes = append(row.Notes, name+" is too short to be masked")
			continue
		}
		for kind, form := range forms(value) {
			if strings.Contains(answer, form) {
				row.broken("the value of %s is in the answer, %s", name, kind)
				return nil
			}
		}
		marks := strings.Count(answer, "[masked: "+name+"]")
		if marks == 0 {
			return fmt.Errorf("the answer does not have %s at all: %.300s", name, answer)
		}
		row.Refusals["masked"] += marks
	}
	return nil
}

// forms are the attack's encodings of a value.
func forms(value string) map[string]string {
	forms := map[string]string{"as it is": value, "URL-encoded": url.PathEscape(value)}
	if quoted, err := json.Marshal(value); err == nil {
		forms["as JSON"] = strings.Trim(string(quoted), `"`)
	}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte("xy"[:shift] + value + "tail"))
		// The characters that depend on the value alone, and not so few that they occur by chance.
		if core := text[4 : len(text)-8]; len(core) >= 2*minTelling {
			forms[fmt.Sprintf("in base64 behind %d others", shift)] = core
		}
	}
	return forms
}

// judgeOwnUser asks another session who it is.
func judgeOwnUser(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	var who Row
	if err := t.ask(ctx, t.other, "who", t.facts, &who); err != nil {
		return err
	}
	if len(who.Notes) != 2 {
		return errors.New("the other session did not say who it is: " + who.Why)
	}
	facts := t.facts
	facts.Neighbour = who.Notes
	_, err := t.attack(ctx, t.attacked, row, source, facts, sandbox.RunOptions{Fresh: true})
	return err
}

// judgeTrespass lets a neighbour settle, attacks it, and asks how it is.
func judgeTrespass(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	facts := t.facts
	facts.Token += "-neighbour" // the host listens by the other name
	var settled Row
	if err := t.ask(ctx, t.other, "neighbour", facts, &settled); err != nil {
		return err
	}
	if len(settled.Notes) != 2 {
		return errors.New("the neighbour did not settle: " + settled.Why)
	}
	port, err := strconv.Atoi(settled.Notes[0])
	if err != nil {
		return err
	}
	if facts.PID, err = strconv.Atoi(settled.Notes[1]); err != nil {
		return err
	}
	facts.Listeners = [][2]any{{"127.0.0.1", port}}
	if facts.Volume, err = t.volumeOf(ctx, t.other); err != nil {
		return err
	}
	if _, err := t.attack(ctx, t.attacked, row, source, facts, sandbox.RunOptions{Fresh: true}); err != nil || row.Status != Proven {
		return err
	}
	var after Row
	if err := t.ask(ctx, t.other, "neighbour_after", facts, &after); err != nil {
		return err
	}
	if after.Status != Proven {
		row.broken("the neighbour was harmed: %s", after.Why)
	}
	return nil
}

// ask runs a program that is no attack and fills a row of nobody's in.
func (t *tester) ask(ctx context.Context, m *sandbox.Manager, name string, facts attacks.Facts, row *Row) error {
	*row = Row{Refusals: map[string]int{}}
	source, err := attacks.Session(name)
	if err != nil {
		return err
	}
	_, err = t.attack(ctx, m, row, source, facts, sandbox.RunOptions{})
	return err
}

func (t *tester) volumeOf(ctx context.Context, m *sandbox.Manager) (string, error) {
	session, err := m.Session(ctx, "")
	if err != nil {
		return "", err
	}
	there, err := t.o.Engine.List(ctx, sandbox.LabelSession, session.ID)
	if err != nil {
		return "", err
	}
	if len(there.Volumes) != 1 {
		return "", fmt.Errorf("session %s has %d volumes", session.ID, len(there.Volumes))
	}
	return there.Volumes[0].Name, nil
}

// judgeTakeOver attacks a session with a name: only those own a socket.
func judgeTakeOver(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	id := t.facts.Token
	defer func() {
		if _, err := t.attacked.CloseSession(ctx, id, false); err != nil {
			t.unclosed = true
		}
	}()
	_, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{SessionID: id})
	if err == nil && row.Status == Proven && !works(ctx, t.attacked, id) {
		row.broken("the session does not answer any more")
	}
	return err
}

// works reports whether a session still runs code. A kernel that the attack cost shows in the first try.
func works(ctx context.Context, m *sandbox.Manager, session string) bool {
	for range 2 {
		res, err := run(ctx, m, sandbox.RunOptions{SessionID: session, Code: sum(sandbox.Python)})
		if err == nil && isSum(res) {
			return true
		}
	}
	return false
}

// judgeVolume expects the supervisor to stop the run.
func judgeVolume(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	res, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{})
	if res != nil && res.Status == sandbox.Failed && res.Cause == "quota" {
		row.Status, row.Why, err = Proven, "", nil
		row.Refusals["QuotaExceeded"]++
	}
	var after Row
	if tidied := t.ask(ctx, t.attacked, "volume_after", t.facts, &after); tidied != nil || after.Status != Proven {
		row.broken("what is too much cannot be removed: %v %s", tidied, after.Why)
	}
	return err
}

// judgeInKernel believes the attack's verdict, from the kernel that keeps the session's variables.
func judgeInKernel(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	_, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{})
	return err
}

// judgeExhaustion knows that the system may kill the kernel beside the process that had filled memory, as that is still on its
// way out, and that gVisor is one program to the host, which takes its whole container with it, unless the supervisor stops
// the code before that.
func judgeExhaustion(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	res, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{Fresh: true})
	switch {
	case res != nil && row.Name == "memory" && res.Status == sandbox.Killed && res.Cause == "memory":
		row.Status, row.Notes = Proven, append(row.Notes, "the system has killed the kernel as well")
	case res != nil && row.Name == "pids" && t.facts.Pod != nil && res.Status == sandbox.Killed && res.Cause == "memory":
		row.Status, row.Why = Unenforced, "the limit of memory ended a fork bomb before that of the session's user: a pod has none of its own"
		row.Fix = "podPidsLimit in the kubelet's configuration, where a session's limit has to hold"
	case res == nil || !t.facts.GVisor:
		return err
	case res.Status == sandbox.Killed:
		row.Status, row.Notes = Proven, append(row.Notes, "the code has ended its own container")
	case errors.Is(err, attacks.ErrNoVerdict) && res.Cause == "memory":
		row.Status, row.Notes = Proven, append(row.Notes, "the code was stopped before the limit")
	default:
		return err
	}
	if !works(ctx, t.attacked, "") {
		row.broken("the session does not answer any more")
	}
	return nil
}

// judgeSignals asks the session to go on, whatever became of its kernel.
func judgeSignals(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	res, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{})
	switch {
	case res == nil || row.Status == Broken:
		return err
	case res.Status == sandbox.Killed:
		row.Status, row.Notes = Proven, append(row.Notes, "the code has ended its own container")
	case err != nil:
		return err
	}
	if !works(ctx, t.attacked, "") {
		row.broken("the session does not answer any more")
	}
	return nil
}

// judgeFrames looks for forged output: in this run, the next one, and the neighbour.
func judgeFrames(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	if _, err := run(ctx, t.other, sandbox.RunOptions{Code: "6 * 7"}); err != nil {
		return err
	}
	res, err := t.attack(ctx, t.attacked, row, source, t.facts, sandbox.RunOptions{})
	switch {
	case res == nil:
		return err
	case errors.Is(err, attacks.ErrNoVerdict):
		// It cost the code its own kernel.
		row.Status, row.Notes = Proven, append(row.Notes, fmt.Sprintf("the run ended as %s %s", res.Status, res.Cause))
	case row.Status != Proven:
		return err
	}
	if res.Value != nil && strings.Contains(*res.Value, t.facts.Token) {
		row.broken("a forged result was believed")
	}
	for _, a := range res.Artifacts {
		if strings.Contains(a.Path, "etc/passwd") {
			row.broken("a forged artifact was believed: %s", a.Path)
		}
	}
	if !works(ctx, t.attacked, "") {
		row.broken("the session does not answer any more")
	}
	if !works(ctx, t.other, "") {
		row.broken("another session does not answer any more")
	}
	return nil
}

// judgeEgress believes the attack, and the listeners on the host, which nobody may have reached.
func judgeEgress(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	if err := judgeCredentials(ctx, t, row, source); err != nil {
		return err
	}
	if n := t.reached.Load(); n > 0 {
		row.broken("code has reached what listens on this host's loopback %d times", n)
	}
	return nil
}

// judgeCredentials believes the attack, in the session itself with its trusted certificates.
func judgeCredentials(ctx context.Context, t *tester, row *Row, source attacks.Attack) error {
	facts := t.facts
	facts.Egress = t.o.Egress
	_, err := t.attack(ctx, t.attacked, row, source, facts, sandbox.RunOptions{})
	return err
}
