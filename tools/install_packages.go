package tools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const (
	mostPackages = 50   // of one call
	logTail      = 1500 // bytes of an installer's output in an error
)

type installFields struct {
	SessionID string            `json:"session_id"`
	Language  sandbox.Language  `json:"language"`
	Installed []sandbox.Package `json:"installed"`
	Already   []string          `json:"already_there,omitempty"`
	Needless  []string          `json:"not_needed,omitempty"`
	Broken    []string          `json:"broken,omitempty"`
	LogPath   string            `json:"log_path,omitempty"`
}

// Installer installs packages into sessions.
type Installer struct {
	Manager    *sandbox.Manager
	Packages   *Packages
	NetworkLog *netlog.Log // as Deps has it
}

func (d *Deps) installer() Installer { return Installer{d.Manager, d.Packages, d.NetworkLog} }

func (d *Deps) installPackages() tool {
	definition := mcp.NewTool("install_packages",
		mcp.WithToolTitle("Install packages"),
		mcp.WithDescription(sentences("Install packages from PyPI (Python) or npm (JavaScript) into the session.", d.Packages.Summary)),
		mcp.WithString("language", mcp.Required(), mcp.Enum(d.installer().languages()...)),
		mcp.WithArray("packages", mcp.Required(), mcp.WithStringItems(),
			mcp.Description("Such as polars>=1.0, lodash@4, or files below /mnt/data.")),
		sessionParam(), hints(false))
	definition.Annotations.OpenWorldHint = mcp.ToBoolPtr(true)
	definition.Annotations.IdempotentHint = mcp.ToBoolPtr(true)
	return tool{output: installOutput, definition: definition, ordered: true, long: true, handle: d.handleInstall}
}

// installOutput describes the result: packages that were installed, or the run that continues.
func installOutput(t *mcp.Tool) {
	mcp.WithOutputSchema[render.RunFields]()(t)
	either := t.OutputSchema
	mcp.WithOutputSchema[installFields]()(t)
	maps.Copy(either.Properties, t.OutputSchema.Properties)
	either.Required = slices.DeleteFunc(either.Required, func(name string) bool { return !slices.Contains(t.OutputSchema.Required, name) })
	t.OutputSchema = either
}

// languages returns the languages that are on and support packages.
func (i Installer) languages() (names []string) {
	for _, l := range kernel.Languages {
		if _, on := i.Manager.Config().Kernels[l.Language]; on && l.Installs != "" {
			names = append(names, string(l.Language))
		}
	}
	return names
}

func (d *Deps) handleInstall(ctx context.Context, p *params) (*render.Answer, error) {
	name, list, session := p.required("language"), p.texts("packages"), p.session()
	if err := p.check(); err != nil {
		return nil, err
	}
	language, known := kernel.LanguageCalled(name)
	if !known || !slices.Contains(d.installer().languages(), string(language)) {
		return nil, fault.New(fault.InvalidArgument, "Use one of: "+strings.Join(d.installer().languages(), ", ")+".",
			"language %q is none that packages can be installed for here.", text.Shorten(name, 80))
	}
	if len(list) == 0 {
		return nil, fault.New(fault.InvalidArgument, "Name at least one package.", "packages is empty.")
	}
	o := sandbox.RunOptions{SessionID: session, Language: language, Times: clientheader.Of(ctx).Times()}
	res, err := d.installed(ctx, o, list, d.wait(ctx), func() { settled(ctx) })
	switch {
	case err != nil:
		return nil, err
	case res.Status == sandbox.Running:
		return d.renderer().Run(ctx, res), nil
	}
	done := sandbox.Installed(res)
	fields := installFields{
		SessionID: res.SessionID, Language: language, Installed: done.Installed, Already: done.Already, Needless: done.Needless, Broken: done.Broken,
	}
	var lines []string
	for _, i := range fields.Installed {
		lines = append(lines, "installed "+i.Name+" "+i.Version)
	}
	for _, requirement := range fields.Already {
		lines = append(lines, "already there: "+requirement)
	}
	for _, requirement := range fields.Needless {
		lines = append(lines, "not needed here, its marker says: "+requirement)
	}
	for _, words := range fields.Broken {
		lines = append(lines, "note: this may break now: "+words)
	}
	if len(fields.Installed) > 0 {
		fields.LogPath = sandbox.InstallLog(language)
		lines = append(lines, "The installer's output is in "+engine.WorkDir+"/"+fields.LogPath+".")
	}
	return d.renderer().Fit(ctx, len(lines), func(each int) *render.Answer {
		shown := lines[:min(each, len(lines))]
		text := render.OneLine(strings.Join(shown, "\x00"))
		if left := len(lines) - len(shown); left > 0 {
			text += fmt.Sprintf("\x00… and %d more", left)
		}
		return render.Text(strings.ReplaceAll(text, "\x00", "\n"), fields)
	}), nil
}

// install begins the installation of packages that may be. The error is a fault.
func (i Installer) install(o sandbox.RunOptions, list []string) (*sandbox.Run, error) {
	if len(list) > mostPackages {
		return nil, fault.New(fault.InvalidArgument, "Install them in several calls.", "There are %d packages, and %d are the most in one call.", len(list), mostPackages)
	}
	checked := make([]string, len(list))
	for n, requirement := range list {
		var err error
		if checked[n], err = i.Packages.Check(o.Language, requirement); err != nil {
			return nil, err
		}
	}
	o.Timeout = i.Packages.Timeout
	return i.Manager.Install(o, checked)
}

// installed installs packages, and waits no longer than this: the result is complete, or its status is Running. It calls begun when the
// installation is queued or refused. The error is a fault, or the end of ctx.
func (d *Deps) installed(ctx context.Context, o sandbox.RunOptions, list []string, wait time.Duration, begun func()) (*sandbox.Result, error) {
	run, err := d.installer().install(o, list)
	begun()
	if err != nil {
		return nil, err
	}
	res, err := d.await(context.WithValue(ctx, roundKey{}, maxQuestions), run, wait, true) // it asks for nothing
	if err != nil || res.Status == sandbox.Running {
		return res, err
	}
	if failed := d.installer().failure(res); failed != nil {
		return nil, failed
	}
	return res, nil
}

// InstallNeeds installs the packages that code declares, and waits for it; tell hears how far it is. The error is a fault, or the end of ctx.
func (i Installer) InstallNeeds(ctx context.Context, o sandbox.RunOptions, tell func(format string, args ...any)) error {
	needs, err := i.Packages.needs(o)
	if err != nil || len(needs) == 0 {
		return err
	}
	run, err := i.install(o, needs)
	if err != nil {
		return err
	}
	tell("installing %s", strings.Join(needs, ", "))
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for done := run.Done(); done != nil; {
		select {
		case <-done:
			done = nil
		case <-tick.C:
			tell("installing for %v: %s", run.Progress().Elapsed.Round(time.Second), cmp.Or(run.Progress().LastLine, "no output yet"))
		case <-ctx.Done():
			run.Interrupt()
			return context.Cause(ctx)
		}
	}
	res, err := run.Result()
	if err != nil {
		return err
	}
	if failed := i.failure(res); failed != nil {
		return failed
	}
	return nil
}

// failure reports why an installation did not come to its end; nil: it did.
func (i Installer) failure(res *sandbox.Result) *fault.Error {
	if res.Status == sandbox.Completed {
		return nil
	}
	config := i.Manager.Config()
	output := res.Stdout.Head + res.Stdout.Tail + res.Stderr.Head + res.Stderr.Tail
	if words := i.refusal(res.SessionID, output); words != "" {
		return fault.New(fault.PackageDenied, "Use another package, or have the server's user allow this one.", "%s", text.Shorten(words, 500))
	}
	if tooYoung.MatchString(output) {
		return fault.New(fault.PackageDenied, "Take an older version, or have the server's user lower --package-min-age.",
			"There is no version that is old enough (--package-min-age):\n%s", tail(output))
	}
	if res.Cause == "quota" || res.Cause == "full" || noRoom.MatchString(output) {
		return fault.New(fault.QuotaExceeded, "Delete files that are not needed, or have the server's user raise --volume-limit.",
			"The packages do not fit into what the session's files may take, %s in %s files; none was installed.",
			humanize.IBytes(uint64(config.VolumeBytes)), humanize.Comma(config.VolumeFiles))
	}
	why, hint := "The installer failed", "Check the name and version; the whole output is in "+engine.WorkDir+"/"+sandbox.InstallLog(res.Language)+"."
	if res.Error != nil {
		output += "\n" + res.Error.Name + ": " + res.Error.Message
	}
	switch {
	case res.Status == sandbox.TimedOut:
		why = fmt.Sprintf("The installation took longer than %v", i.Packages.Timeout)
	case res.Status == sandbox.Cancelled:
		why = "The installation was cancelled"
	case res.Cause == "memory", noMemory.MatchString(output):
		why, hint = "The installation ran out of memory", "Install fewer at a time, or have the server's user raise --memory-limit."
	case res.Status == sandbox.Killed:
		why = "The installation was killed (" + res.Cause + ")"
	case strings.Contains(output, noInstaller):
		hint = "Have the server's user take an image with uv or pip in it."
	}
	return fault.New(fault.InstallFailed, hint, "%s:\n%s", why, tail(output))
}

// tail is the end of an installer's output.
func tail(output string) string {
	if output = strings.TrimSpace(output); len(output) > logTail {
		output = "…" + output[strings.IndexByte(output[len(output)-logTail:], '\n')+1+len(output)-logTail:]
	}
	return output
}

// tooYoung matches the words of npm and uv about versions that their options leave out.
var tooYoung = regexp.MustCompile(`with a date before|exclude-newer|exclude newer`)

// noInstaller is the message of install.py without an installer.
const noInstaller = "the image has neither uv nor pip"

// noRoom matches the system's messages about a full disk.
var noRoom = regexp.MustCompile(`No space left on device|os error 28|\[Errno 28\]|ENOSPC|Disk quota exceeded`)

// noMemory matches an installer's messages about a failed allocation.
var noMemory = regexp.MustCompile(`memory allocation of \d+ bytes failed|MemoryError|Cannot allocate memory`)

// refusal returns the rules that kept a package out, from the egress record; empty: the installer's output names no package.
func (i Installer) refusal(session, output string) string {
	if i.NetworkLog == nil {
		return ""
	}
	requests, _ := i.NetworkLog.Of(session)
	for _, r := range slices.Backward(requests) {
		var printed []string
		for why := range strings.Lines(r.Why) {
			if why = strings.TrimSpace(why); strings.Contains(output, why) {
				printed = append(printed, strings.TrimPrefix(why, string(fault.PackageDenied)+": "))
			}
		}
		if len(printed) > 0 {
			return strings.Join(printed, "; ")
		}
	}
	return ""
}
