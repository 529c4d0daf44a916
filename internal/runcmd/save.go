package runcmd

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// listFiles lists the files that a run made, if none are saved.
func (r *Runner) listFiles(ctx context.Context, res *sandbox.Result) {
	var names []string
	copies := r.copies(ctx, res)
	total := res.ArtifactsTotal - len(copies)
	for _, a := range res.Artifacts {
		if copies[a.Path] {
			continue
		}
		names = append(names, a.Path+" ("+units.HumanSize(float64(a.SizeBytes))+")")
	}
	if len(names) > 0 {
		r.say("%s made; --out FOLDER keeps what is made: %s", text.Count(total, "file"), named(names, total))
	}
}

// copies returns the displayed files that the code saved itself: by the name in a figure, or with the same content. Of several figures that
// were saved to one file it holds the last, which is unknown unless all displays are.
func (r *Runner) copies(ctx context.Context, res *sandbox.Result) map[string]bool {
	shown, last, copies := make(map[string]bool), make(map[string]string), make(map[string]bool)
	for _, d := range res.Displays {
		shown[d.Path] = shown[d.Path] || d.Path != d.Saved
		if res.DisplaysTotal == len(res.Displays) {
			last[d.Saved] = d.Path
		}
	}
	for _, a := range res.Artifacts {
		if shown[a.Path] && slices.ContainsFunc(res.Artifacts, func(b sandbox.Artifact) bool {
			return !shown[b.Path] && (last[b.Path] == a.Path || a.SizeBytes == b.SizeBytes && r.hash(ctx, a.Path) == r.hash(ctx, b.Path))
		}) {
			copies[a.Path] = true
		}
	}
	return copies
}

// hash returns the hash of a file's content, or its path if that cannot be read.
func (r *Runner) hash(ctx context.Context, path string) string {
	from, err := r.Manager.OpenFile(ctx, r.SessionID, path, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return path
	}
	defer func() { _ = from.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, from); err != nil {
		return path
	}
	return string(hash.Sum(nil))
}

const mostNamed = 20

// named joins the names of the first of so many files.
func named(names []string, total int) string {
	list := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if total > mostNamed {
		list += ", …"
	}
	return list
}

// filesNow returns the session's files where they will be saved, by their paths.
func (r *Runner) filesNow(ctx context.Context) (map[string]sandbox.File, error) {
	found := make(map[string]sandbox.File)
	if r.Job.Out == "" {
		return found, nil
	}
	end, err := r.Manager.WalkFiles(ctx, r.SessionID, false, func(e sandbox.Entry) error {
		if e.Kind == 'f' {
			found[e.Path] = e.File
		}
		return nil
	})
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Code == fault.SessionNotFound { // it comes with the first run
		return found, nil
	}
	if err == nil && (!end.Complete || end.Skipped > 0) {
		r.say("there are files that cannot be listed, and they are not saved: too many, or with names that are not text or have control characters")
	}
	return found, err
}

// save copies the files that a run made or changed to the folder. Their paths are hostile, and lead nowhere else.
func (r *Runner) save(ctx context.Context, before map[string]sandbox.File, res *sandbox.Result) error {
	after, err := r.filesNow(ctx)
	if err != nil {
		return err
	}
	copies := r.copies(ctx, res)
	maps.DeleteFunc(after, func(path string, f sandbox.File) bool {
		return before[path] == f || strings.HasPrefix(path, "input/") || copies[path]
	})
	root, err := os.OpenRoot(r.Job.Out)
	if err != nil {
		return cannotRead(r.Job.Out, err)
	}
	defer func() { _ = root.Close() }()
	var problems []error
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if err := r.saveFile(ctx, root, path); err != nil {
			r.Complain(err)
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return fault.New(fault.ExecutionFailed, "See above; run it again with another --out.", "%d of %s could not be saved.", len(problems), text.Count(len(after), "file"))
	}
	if len(after) > 0 {
		r.say("%s saved to %s: %s", text.Count(len(after), "file"), r.Job.Out, named(slices.Sorted(maps.Keys(after)), len(after)))
	}
	return nil
}

func (r *Runner) saveFile(ctx context.Context, root *os.Root, path string) error {
	clean, err := sandbox.CleanPath(path)
	if err != nil {
		return err
	}
	local := filepath.FromSlash(clean)
	if err := root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return fault.New(fault.InvalidPath, "Move away what is in its place, or name another folder.", "%q cannot be saved to %s: %v.", clean, r.Job.Out, plainly(err)).Because(err)
	}
	from, err := r.Manager.OpenFile(ctx, r.SessionID, clean, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	place, err := filepath.Abs(filepath.Join(r.Job.Out, local))
	if err != nil {
		return err
	}
	to, err := r.Job.dirs.Create(place, filepath.Base(local), true)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.Commit()
}
