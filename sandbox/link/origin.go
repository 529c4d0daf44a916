// The part of an answer about restored and lost variables, and about memory that ran out.

package link

import (
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// shownLostChars and shownLargest bound an answer's text on lost variables and the number of large ones that it names.
const (
	shownLostChars = 1200
	shownLargest   = 5
)

// Lose keeps a note that the variables are lost, and why, until the end of a run that would see them: only then is it known
// whether they came back. files follows the note unless the files are gone by then.
func (i *Interpreter) Lose(note, files string) {
	i.noted.Lock()
	defer i.noted.Unlock()
	if i.lost == "" {
		i.lost, i.files = note, files
	}
}

// found withdraws that note: another server used the kernel since, or a checkpoint was gone to, and its variables are there.
func (i *Interpreter) found() {
	i.noted.Lock()
	defer i.noted.Unlock()
	i.lost = ""
}

// tellOrigin notes the origin of the variables that a run saw, or that they are lost.
func (i *Interpreter) tellOrigin(run *runs.Run, done protocol.Done) {
	if run.Options.Fresh { // it sees none
		return
	}
	i.noted.Lock()
	lost := i.lost
	if lost != "" && !i.gone {
		lost += i.files
	}
	i.lost, i.gone = "", false
	i.noted.Unlock()
	restored := done.Kernel == "restored"
	if lost != "" && (done.Origin == nil || restored) {
		run.Note(lost + ".")
		i.Uses.Turned.Store(true)
	}
	if o := done.Origin; o != nil && !isEmpty(o) {
		note := originNote(o, restored, run.Options.Copy, i.Uses.Between(o.Run, run), time.Now()) + doubtNote(o)
		if o.From == "frozen" && o.Error == "" && i.Uses.RanSince(time.UnixMilli(o.AtMS), run) {
			note += " The kernel ended before it could write what later runs have changed."
		}
		run.Note(note)
		if !run.Options.Copy {
			i.Uses.Turned.Store(true)
		}
	}
}

// isEmpty reports whether a session that slept had no variables, and lost none.
func isEmpty(o *protocol.Origin) bool {
	return o.From == "frozen" && o.Error == "" && o.Variables == 0 && o.LostTotal == 0 && len(o.Lost)+len(o.Doubtful) == 0
}

// tellUnkept notes the files that a restore could not bring back.
func (i *Interpreter) tellUnkept(run *runs.Run, list []protocol.NotKept) {
	var files []protocol.Lost
	for _, n := range i.NotKept(list) {
		files = append(files, protocol.Lost{Name: n.Path, Why: n.Why})
	}
	if len(files) > 0 {
		run.Note("No copy is kept of files that were there before this run, so restore_session does not bring them back: " + byReason(files, 0) + ".")
	}
}

// originRun is the run that left the variables as they are; empty: unknown.
func originRun(done protocol.Done) string {
	if done.Origin == nil {
		return ""
	}
	return done.Origin.Run
}

// originNote describes the origin of variables. restored: this run lost them. isCopy: they are a copy's. passed: the runs since
// the twin's.
func originNote(o *protocol.Origin, restored, isCopy bool, passed int, now time.Time) string {
	at := moment(time.UnixMilli(o.AtMS), now)
	switch {
	case isCopy && o.From == "twin":
		return "The copy has the variables from before the run that goes on in the kernel."
	case o.Error != "" && o.From == "twin":
		return "The variables could not be brought back: " + o.Error + ". They are gone, the files are there."
	case o.Error != "" && o.AtMS <= 0:
		return fmt.Sprintf("The variables that were written could not be read: %s. They are gone, the files are there.", o.Error)
	case o.Error != "":
		return fmt.Sprintf("The variables as they were %s could not be read: %s. They are gone, the files are there.", at, o.Error)
	case restored && passed == 0:
		return fmt.Sprintf("The variables are as they were before this run%s.", notKept(o))
	case restored:
		return fmt.Sprintf("The variables are as they were after %s, not as the runs between have left them%s.", o.Run, notKept(o))
	case o.From == "twin":
		return fmt.Sprintf("The kernel had ended since the last run; the variables are as they were after %s%s.", o.Run, notKept(o))
	case o.Variables == 1:
		return fmt.Sprintf("1 variable is back as it was %s%s.", at, notKept(o))
	}
	return fmt.Sprintf("%d variables are back as they were %s%s.", o.Variables, at, notKept(o))
}

// notKept lists the lost variables and the reasons; empty: none.
func notKept(o *protocol.Origin) string {
	if len(o.Lost) == 0 {
		return ""
	}
	return " (not kept: " + byReason(o.Lost, o.LostTotal) + ")"
}

// doubtNote lists variables that another version of their package made; empty: none.
func doubtNote(o *protocol.Origin) string {
	if len(o.Doubtful) == 0 {
		return ""
	}
	return " Look before you rely on what other versions have made: " + byReason(o.Doubtful, 0) + "."
}

// byReason groups variables by reason, as many as an answer has room for; total is their number.
func byReason(lost []protocol.Lost, total int) string {
	names := map[string][]string{}
	var reasons []string
	shown, size := 0, 0
	for _, l := range lost {
		if size += len(l.Name); names[l.Why] == nil {
			size += len(l.Why)
		}
		if shown > 0 && size > shownLostChars {
			break
		}
		if names[l.Why] == nil {
			reasons = append(reasons, l.Why)
		}
		names[l.Why] = append(names[l.Why], l.Name)
		shown++
	}
	var parts []string
	for _, why := range reasons {
		all := names[why]
		text := all[len(all)-1]
		if len(all) > 1 {
			text = strings.Join(all[:len(all)-1], ", ") + " and " + text
		}
		parts = append(parts, strings.TrimSuffix(text+", "+why, ", "))
	}
	if more := max(total, len(lost)) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// moment formats a recent time.
func moment(at, now time.Time) string {
	if at, now := at.Local(), now.Local(); at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return "at " + at.Format("15:04")
	}
	return at.Local().Format("on 2 January 2006 at 15:04")
}

// memoryNote describes the memory of a run that lack of it stopped.
func memoryNote(m *protocol.Memory) string {
	note := fmt.Sprintf("The session had %d of %d MiB in use", m.UsedBytes>>20, m.LimitBytes>>20)
	if most := runs.Language(m.Interpreter).Info(); most.Title != "" {
		note += ", most of it by " + most.Title
	}
	var largest []string
	for _, v := range m.Largest[:min(len(m.Largest), shownLargest)] {
		largest = append(largest, v.Name+" "+runs.Size(v.SizeBytes))
	}
	if len(largest) > 0 {
		note += "; the largest variables: " + strings.Join(largest, ", ")
	}
	return note + "."
}
