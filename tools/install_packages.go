package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// Packages is what install_packages installs by.
type Packages struct {
	// Check returns a requirement as an installer takes it, or refuses it before anything is asked of an index. The error
	// is a fault.
	Check func(language sandbox.Language, requirement string) (string, error)
	// Summary reports in a sentence what may be installed.
	Summary string
	// Timeout bounds one installation.
	Timeout time.Duration
}

const (
	mostPackages = 50   // of one call
	logTail      = 1500 // bytes of an installer's output in an error
)

type installFields struct {
	SessionID string            `json:"session_id"`
	Language  sandbox.Language  `json:"language"`
	Installed []sandbox.Package `json:"installed"`
	Already   []string          `json:"already_there,omitempty"`
	LogPath   string            `json:"log_path,omitempty"`
}

func (d *Deps) installPackages() tool {
	definition := mcp.NewTool("install_packages",
		mcp.WithToolTitle("Install packages"),
		mcp.WithDescription(sentences("Install packages from PyPI (Python) or npm (JavaScript) into the session; its kernels can import them at once.", d.Packages.Summary)),
		mcp.WithString("language", mcp.Required(), mcp.Enum(d.languages()...)),
		mcp.WithArray("packages", mcp.Required(), mcp.WithStringItems(),
			mcp.Description("Such as polars>=1.0 or lodash@4, or files below /mnt/data.")),
		sessionParam(), hints(false))
	definition.Annotations.OpenWorldHint = mcp.ToBoolPtr(true)
	definition.Annotations.IdempotentHint = mcp.ToBoolPtr(true)
	return tool{output: mcp.WithOutputSchema[installFields](), definition: definition, ordered: true, handle: d.handleInstall}
}

// languages are those that are on and have packages.
func (d *Deps) languages() (names []string) {
	for _, l := range sandbox.Languages {
		if _, on := d.Manager.Config().Kernels[l.Language]; on && l.Installs != "" {
			names = append(names, string(l.Language))
		}
	}
	return names
}

func (d *Deps) handleInstall(ctx context.Context, p *params) (*render.Answer, error) {
	name, packages, session := p.required("language"), p.texts("packages"), p.session()
	if err := p.check(); err != nil {
		return nil, err
	}
	language, known := sandbox.LanguageCalled(name)
	if !known || !slices.Contains(d.languages(), string(language)) {
		return nil, fault.New(fault.InvalidArgument, "Use one of: "+strings.Join(d.languages(), ", ")+".",
			"language %q is none that packages can be installed for here.", text.Shorten(name, 80))
	}
	if len(packages) == 0 {
		return nil, fault.New(fault.InvalidArgument, "Name at least one package.", "packages is empty.")
	}
	o := sandbox.RunOptions{SessionID: session, Language: language, Times: clientheader.Of(ctx).Times()}
	res, err := d.installed(ctx, o, packages, func() { rpc.Settled(ctx) })
	switch {
	case err != nil:
		return nil, err
	case res.Status == sandbox.Running:
		return d.renderer().Run(ctx, res), nil
	}
	fields := installFields{SessionID: res.SessionID, Language: language}
	fields.Installed, fields.Already = sandbox.Installed(res)
	var lines []string
	for _, i := range fields.Installed {
		lines = append(lines, "installed "+i.Name+" "+i.Version)
	}
	for _, requirement := range fields.Already {
		lines = append(lines, "already there: "+requirement)
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
func (d *Deps) install(o sandbox.RunOptions, packages []string) (*sandbox.Run, error) {
	if len(packages) > mostPackages {
		return nil, fault.New(fault.InvalidArgument, "Install them in several calls.", "There are %d packages, and %d are the most in one call.", len(packages), mostPackages)
	}
	checked := make([]string, len(packages))
	for i, requirement := range packages {
		var err error
		if checked[i], err = d.Packages.Check(o.Language, requirement); err != nil {
			return nil, err
		}
	}
	o.Timeout = d.Packages.Timeout
	return d.Manager.Install(o, checked)
}

// installed installs packages, and waits as long as a call waits: the result has completed, or goes on with the status
// Running. begun is called when the installation is queued, or was refused. The error is a fault, or the end of ctx.
func (d *Deps) installed(ctx context.Context, o sandbox.RunOptions, packages []string, begun func()) (*sandbox.Result, error) {
	run, err := d.install(o, packages)
	begun()
	if err != nil {
		return nil, err
	}
	res, err := d.await(context.WithValue(ctx, roundKey{}, maxQuestions), run, d.SoftWait, true) // it asks for nothing
	if err != nil || res.Status == sandbox.Running {
		return res, err
	}
	if refused := d.Packages.fault(res); refused != nil {
		return nil, refused
	}
	return res, nil
}

// fault reports why an installation did not come to its end; nil: it did.
func (p *Packages) fault(res *sandbox.Result) *fault.Error {
	if res.Status == sandbox.Completed {
		return nil
	}
	output := res.Stdout.Head + res.Stdout.Tail + res.Stderr.Head + res.Stderr.Tail
	for line := range strings.Lines(output) {
		if _, words, found := strings.Cut(line, string(fault.PackageDenied)+": "); found {
			words, _, _ = strings.Cut(words, " for url: ") // which pip adds, and is of no use
			return fault.New(fault.PackageDenied, "Use another package, or have the server's user allow this one.", "%s", text.Shorten(strings.TrimSpace(words), 500))
		}
	}
	why := "The installer failed"
	if res.Error != nil {
		output += "\n" + res.Error.Name + ": " + res.Error.Message
	}
	switch res.Status {
	case sandbox.TimedOut:
		why = fmt.Sprintf("The installation took longer than %v", p.Timeout)
	case sandbox.Cancelled:
		why = "The installation was cancelled"
	case sandbox.Killed:
		why = "The installation was killed (" + res.Cause + ")"
	}
	if output = strings.TrimSpace(output); len(output) > logTail {
		output = "…" + output[strings.IndexByte(output[len(output)-logTail:], '\n')+1+len(output)-logTail:]
	}
	return fault.New(fault.InstallFailed, "Check the name and version; the whole output is in "+engine.WorkDir+"/"+sandbox.InstallLog(res.Language)+".",
		"%s:\n%s", why, output)
}
