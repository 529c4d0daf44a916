// The tools that run code, their text and arguments, and the wait for a run.

package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// codeTools describe each language's tool and its argument code.
var codeTools = map[sandbox.Language]func(d *Deps) (description, code string){
	sandbox.Python: func(d *Deps) (string, string) {
		return sentences(
			"Run Python, isolated: analyze CSV data, plot or draw a chart; return output, value, figures, new files.",
			"Variables, imports, files in /mnt/data stay.",
			d.ofImage(sandbox.Python, "IPython works (magics, !cmd, await).",
				"Top-level await works, and IPython syntax (magics, !cmd) where the image has IPython."),
			describeNetwork(d.Network),
			describeMounts(d.mounts()),
			d.packagesOf(sandbox.Python, "numpy, pandas, scikit-learn and more"),
			describeToolServers(d.ToolServers, "from sandbox import tools"),
		), "A cell."
	},
	sandbox.JavaScript: func(d *Deps) (string, string) {
		return sentences(
			"Run "+d.ofImage(sandbox.JavaScript, "JavaScript or TypeScript", "JavaScript, and TypeScript where the image can,")+
				" (Node.js), isolated; return output, value, new files.",
			"Variables and files in /mnt/data stay.",
			"Top-level await and import work.", describeNetwork(d.Network),
			describeMounts(d.mounts()),
			d.packagesOf(sandbox.JavaScript, "lodash, mathjs, exceljs, sharp and more"),
			describeToolServers(d.ToolServers, "sandbox.tools"),
		), "A cell."
	},
	sandbox.Bash: func(d *Deps) (string, string) {
		return sentences(
			"Run shell commands (bash), isolated; return output, exit code, new files.",
			"Directory, variables, functions, jobs, files in /mnt/data stay.", describeNetwork(d.Network),
			describeMounts(d.mounts()),
		), "A script."
	},
}

// mountsNamed is how many folders of the user's machine a description names: it is short.
const mountsNamed = 5

// mounts are the folders of the user's machine that code may see.
func (d *Deps) mounts() []engine.Mount {
	mounts := d.Manager.Config().Mounts
	if d.MountProject != nil {
		mounts = WithProject(mounts)
	}
	return mounts
}

// describeMounts describes the folders of the user's machine, if there are some.
func describeMounts(mounts []engine.Mount) string {
	if len(mounts) == 0 {
		return ""
	}
	var names []string
	for _, m := range mounts[:min(len(mounts), mountsNamed)] {
		names = append(names, "mounts/"+m.Name)
	}
	if len(mounts) > mountsNamed {
		names = append(names, "more")
	}
	return "Folders of the user's machine: " + strings.Join(names, ", ") + "."
}

// ofImage returns standard for the image that setup makes, own for a user's image, which is unknown until the engine is asked.
func (d *Deps) ofImage(language sandbox.Language, standard, own string) string {
	if slices.Contains(d.Standard, language) {
		return standard
	}
	return own
}

// packagesOf describes the installed packages, and where to find the rest.
func (d *Deps) packagesOf(language sandbox.Language, some string) string {
	list := "session_info"
	if !d.exists(list) {
		list = "sandbox://environments"
	}
	return d.ofImage(language, some+" are installed.",
		list+" lists the installed packages where the image names them; else look with code.")
}

// describeNetwork describes the egress of code.
func describeNetwork(network string) string {
	if network == "" {
		return "No network."
	}
	return "Network: " + network + "."
}

// toolServersBytes bounds the sentence of describeToolServers, where the first name leaves it.
const toolServersBytes = 60

// describeToolServers names the servers whose tools code calls, and how.
func describeToolServers(servers []string, how string) string {
	sentence := ""
	for n := 1; n <= len(servers); n++ {
		names := strings.Join(servers[:n], ", ")
		if more := len(servers) - n; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		longer := "Tools of " + names + ": " + how + "."
		if n > 1 && len(longer) > toolServersBytes {
			break
		}
		sentence = longer
	}
	return sentence
}

func (d *Deps) runCode(language kernel.LanguageInfo) tool {
	config := d.Manager.Config()
	description, code := codeTools[language.Language](d)
	number := map[string]any{"type": "number"}
	none := func(*mcp.Tool) {}
	dependencies, asCopy := none, none
	// An object must name its properties: Gemini's API refuses one that does not, and OpenAI's strict mode rejects it.
	limits := mcp.WithObject("limits", nullable, mcp.Properties(map[string]any{limitMemory: number, limitCPUs: number})) // and limitTimeout, for which there is an argument
	fresh := mcp.WithBoolean("fresh", nullable, mcp.Description("New interpreter, same files."))
	switch language.Language {
	case sandbox.Python:
		asCopy = mcp.WithBoolean("copy", nullable, mcp.Description("In a copy (branch) of the variables."))
	case sandbox.Bash:
		limits, fresh = none, none // they are taken, and rarely wanted
	}
	if d.Packages != nil && language.Installs != "" {
		dependencies = mcp.WithArray("dependencies", nullable, mcp.WithStringItems(), mcp.Description("To install first."))
	}
	uses := []clientheader.Use{clientheader.Runs, clientheader.Sessions, clientheader.Stores}
	if !d.exists("exec_sql") { // a note on a database has no other place
		uses = append(uses, clientheader.Queries)
	}
	return tool{
		output:  mcp.WithOutputSchema[render.RunFields](),
		ordered: true, runs: true, long: true, uses: uses,
		definition: mcp.NewTool(language.Tool(),
			mcp.WithToolTitle("Run "+language.Title), mcp.WithDescription(description),
			mcp.WithString("code", mcp.Required(), mcp.Description(code)),
			mcp.WithString("session_id", nullable), // the instructions say more, once for all tools
			mcp.WithNumber("timeout_seconds", nullable, mcp.Description(fmt.Sprintf("Default %v, max %v.",
				config.RunTimeout.Seconds(), config.MaxRunTimeout.Seconds()))),
			limits, fresh, asCopy, dependencies,
			hints(false), loadedAtOnce,
		),
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			if command, given := p.given["command"]; given && language.Language == sandbox.Bash && p.given["code"] == nil {
				p.given["code"] = command // as other tools for shells name it
				delete(p.given, "command")
			}
			options := sandbox.RunOptions{
				Language: language.Language, Code: p.required("code"), Before: before(ctx), SessionID: p.session(),
				Timeout: p.seconds("timeout_seconds"), Limits: p.limits("limits"), Fresh: p.flag("fresh"), Copy: p.flag("copy"), Times: clientheader.Of(ctx).Times(), Caller: ctx,
			}
			longest := clientheader.Lower(config.MaxRunTimeout, clientheader.Of(ctx).Bounds().RunTimeout)
			if longest < cmp.Or(options.Timeout, config.RunTimeout) {
				options.Timeout = longest
			}
			var missing []string
			if d.Packages != nil && language.Installs != "" {
				missing = p.texts("dependencies")
			}
			if err := p.check(); err != nil {
				return nil, err
			}
			needs, err := d.Packages.needs(options)
			if err != nil {
				return nil, err
			}
			began, wait := time.Now(), d.wait(ctx)
			if missing = append(missing, needs...); len(missing) > 0 {
				rpc.Settled(ctx) // for other sessions: the run behind it takes the place in the order of this one
				res, err := d.installed(ctx, options, missing, wait, func() {})
				if err != nil {
					return nil, err
				}
				if res.Status == sandbox.Running {
					return d.renderer().Run(ctx, res).Noting("Note: the dependencies are still being installed, and the code was not run; call again when that run is over."), nil
				}
			}
			run, repeats, err := patienceOf(ctx).run(ctx, options, p.given, d.Manager.Run)
			settled(ctx)
			if err != nil {
				return nil, err
			}
			d.Store.deliverRun(ctx, d.Manager, run)
			a, err := d.answer(ctx, run, max(0, wait-time.Since(began)), true)
			if repeats {
				a.Noting("Note: this is the run of the same call before, which had no answer yet: the code was not run twice.")
			}
			return a.Noting(p.lowered("timeout_seconds", longest.Seconds())), err
		},
	}
}

type beforeKey struct{}

// WithBefore returns a context with calls that run code behind other code, see sandbox.RunOptions.
func WithBefore(ctx context.Context, code string) context.Context {
	return context.WithValue(ctx, beforeKey{}, code)
}

func before(ctx context.Context) string {
	code, _ := ctx.Value(beforeKey{}).(string)
	return code
}
