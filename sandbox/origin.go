// What an answer says of variables that have come back, or are gone, and of memory that ran out.

package sandbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// shownLostChars is how much an answer says of variables that were not kept, and shownLargest how many large ones it names.
const (
	shownLostChars = 1200
	shownLargest   = 5
)

// lose keeps a note that the variables are gone, and why, until a run that would see them has ended: only then is it known
// whether they have come back. files is what follows it unless the files are gone by then.
func (l *link) lose(note, files string) {
	l.noted.Lock()
	defer l.noted.Unlock()
	if l.lost == "" {
		l.lost, l.files = note, files
	}
}

// found withdraws that note: another server has had a kernel since, and its variables are there.
func (l *link) found() {
	l.noted.Lock()
	defer l.noted.Unlock()
	l.lost = ""
}

// tellOrigin notes where the variables came from that a run saw, or that they are gone.
func (l *link) tellOrigin(run *Run, done protocol.Done) {
	if run.options.Fresh { // it sees none
		return
	}
	l.noted.Lock()
	lost := l.lost
	if lost != "" && !l.gone {
		lost += l.files
	}
	l.lost, l.gone = "", false
	l.noted.Unlock()
	restored := done.Kernel == "restored"
	if lost != "" && (done.Origin == nil || restored) {
		run.note(lost + ".")
	}
	if o := done.Origin; o != nil {
		note := originNote(o, restored, run.options.Copy, l.uses.between(o.Run, run), time.Now()) + doubtNote(o)
		if o.From == "frozen" && o.Error == "" && l.uses.ranSince(time.UnixMilli(o.AtMS), run) {
			note += " The kernel ended before it could write what later runs have changed."
		}
		run.note(note)
	}
}

// originRun is the run behind which the variables were as they are; empty: none is named.
func originRun(done protocol.Done) string {
	if done.Origin == nil {
		return ""
	}
	return done.Origin.Run
}

// originNote says where variables came from; restored: that the run which it is told to has cost them, isCopy: that
// it is a copy's; and passed is how many runs there were between that one and the twin's.
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

// notKept names what is missing and why; empty: nothing is.
func notKept(o *protocol.Origin) string {
	if len(o.Lost) == 0 {
		return ""
	}
	return " (not kept: " + byReason(o.Lost, o.LostTotal) + ")"
}

// doubtNote names what was made by another version of its package; empty: nothing was.
func doubtNote(o *protocol.Origin) string {
	if len(o.Doubtful) == 0 {
		return ""
	}
	return " Look before you rely on what other versions have made: " + byReason(o.Doubtful, 0) + "."
}

// byReason names variables, those of one reason together, as many as an answer has room for; total is how many there are.
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

// moment writes a time that is not long ago.
func moment(at, now time.Time) string {
	if at, now := at.Local(), now.Local(); at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return "at " + at.Format("15:04")
	}
	return at.Local().Format("on 2 January 2006 at 15:04")
}

// memoryNote says how a run stood with its memory when that stopped it.
func memoryNote(m *protocol.Memory) string {
	note := fmt.Sprintf("The session had %d of %d MiB in use", m.UsedBytes>>20, m.LimitBytes>>20)
	var largest []string
	for _, v := range m.Largest[:min(len(m.Largest), shownLargest)] {
		largest = append(largest, v.Name+" "+size(v.SizeBytes))
	}
	if len(largest) > 0 {
		note += "; the largest variables: " + strings.Join(largest, ", ")
	}
	return note + "."
}
