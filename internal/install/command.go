package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"time"
)

// command returns the client's own command for an installation, with its program; nil: none is available.
func (o Options) command(c *Client) []string {
	if c.command == nil || o.EditFile {
		return nil
	}
	program, err := exec.LookPath(c.program)
	if err != nil {
		return nil
	}
	argv := c.command(o.Name, o.Server, o.Scope)
	if argv == nil {
		return nil
	}
	return append([]string{program}, argv...)
}

const (
	// commandTime bounds the command of a client. Some unpack themselves at their first start.
	commandTime = 2 * time.Minute
	// settleTime is how long a running editor may take to write the entry that its command asked for.
	settleTime = 3 * time.Second
)

// installByCommand lets the client write its configuration by itself. If the file is then not the old one with the server added, it edits
// the file. It keeps the file's backup until then, whatever the command does half-way.
func (o Options) installByCommand(ctx context.Context, outcome Outcome, t Target, before file) (Outcome, error) {
	c, first := outcome.Client, outcome.Backup
	said, failed := o.run(ctx, outcome.Command)
	for deadline := time.Now().Add(settleTime); ; time.Sleep(50 * time.Millisecond) {
		now, err := readFile(before.path)
		if err == nil && o.isIn(c, now.text) && o.keeps(c, now.text, before.text, failed == nil) {
			outcome.Backup = moveBackup(first, now)
			return outcome, nil
		}
		if failed != nil {
			break
		}
		if time.Now().After(deadline) {
			failed = errors.New("it is not in the file after it")
		}
	}
	mended, err := o.putBack(c, before)
	if err != nil {
		return outcome, fmt.Errorf("`%s` has damaged %s, which cannot be put back: %w\nWhat it was is in %s", outcome.command(), t.File, err, first)
	}
	if ctx.Err() != nil {
		return outcome, ctx.Err()
	}
	note := fmt.Sprintf("`%s` did not do it (%v%s), so the file was edited.", outcome.command(), failed, said)
	if mended {
		note = fmt.Sprintf("`%s` changed other things in the file (%v%s), so it was put back and edited.", outcome.command(), failed, said)
	}
	o.EditFile = true
	outcome, err = o.installIn(ctx, c, t)
	if err == nil && first != "" && first != outcome.Backup {
		_ = os.Remove(first) // the file is complete, with a backup of its own
	}
	outcome.Note = note
	return outcome, err
}

// command returns the beginning of the client's own command, for people.
func (o Outcome) command() string { return strings.Join(o.Command[:min(3, len(o.Command))], " ") }

// putBack restores a file that lost something, and reports whether it did.
func (o Options) putBack(c *Client, before file) (bool, error) {
	if !before.exists {
		return false, nil
	}
	now, err := readFile(before.path)
	if err == nil && now.exists && now.target == before.target && o.keeps(c, now.text, before.text, false) {
		return false, nil
	}
	return true, before.restore()
}

// keeps reports whether a text says everything that before says, except for the entry. Clients add things of their own, and a running one
// changes some meanwhile, such as counters: changed allows that outside of its servers.
func (o Options) keeps(c *Client, text, before []byte, changed bool) bool {
	if bytes.Equal(text, before) || len(before) == 0 {
		return true
	}
	was, err1 := c.format.parse(before)
	is, err2 := c.format.parse(text)
	if err1 != nil || err2 != nil {
		return false
	}
	at := o.address(c)
	now, old := at.without(is), at.without(was)
	return holds(now, old, changed) && holds(at.entries(now), at.entries(old), false)
}

// holds reports whether values contain everything in others; changed: with any value.
func holds(values, others any, changed bool) bool {
	part, ok := others.(map[string]any)
	if !ok {
		return changed || reflect.DeepEqual(values, others)
	}
	whole, ok := values.(map[string]any)
	for key, other := range part {
		value, there := whole[key]
		ok = ok && there && holds(value, other, changed)
	}
	return ok
}

// moveBackup renames a backup to its name for the file's new content.
func moveBackup(name string, now file) string {
	if name == "" {
		return ""
	}
	if proper := now.backupOf(now.text); os.Rename(name, proper) == nil {
		return proper
	}
	return name
}

func (o Options) isIn(c *Client, text []byte) bool {
	values, err := c.format.parse(text)
	return err == nil && c.entry(o.Name, o.Server).sameAs(o.address(c).entries(values)[o.Name])
}

// run runs a client's command in the folder of its scope, and returns the last line of its output.
func (o Options) run(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Dir = o.System.Home
	if o.Scope == Project {
		cmd.Dir = o.Dir
	}
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if said = said[strings.LastIndexByte(said, '\n')+1:]; said != "" {
		said = ": " + said
	}
	return said, err
}
