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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// codeTools describe each language's tool and its argument code.
var codeTools = map[sandbox.Language]func(d *Deps) (description, code string){
	sandbox.Python: func(d *Deps) (string, string) {
		return sentences(
			"Run Python in a persistent, isolated session; return output, value, figures, new files.",
			"Variables, imports, files in /mnt/data stay.",
			d.ofImage(sandbox.Python, "IPython works (magics, !cmd, await).",
				"Top-level await works, and IPython syntax (magics, !cmd) where the image has IPython."),
			d.network(),
			describeMounts(d.Manager.Config().Mounts),
			d.packagesOf(sandbox.Python, "numpy, pandas, matplotlib, scikit-learn and more"),
			d.toolServers("from sandbox import tools"),
		), "A cell."
	},
	sandbox.JavaScript: func(d *Deps) (string, string) {
		return sentences(
			"Run "+d.ofImage(sandbox.JavaScript, "JavaScript or TypeScript", "JavaScript, and TypeScript where the image can,")+
				" (Node.js) in a persistent, isolated session; return output, value, new files.",
			"Variables and files in /mnt/data stay.",
			"Top-level await and import work.", d.network(),
			describeMounts(d.Manager.Config().Mounts),
			d.packagesOf(sandbox.JavaScript, "lodash, mathjs, exceljs, sharp and more"),
			d.toolServers("sandbox.tools"),
		), "A cell."
	},
	sandbox.Bash: func(d *Deps) (string, string) {
		return sentences(
			"Run bash in a persistent, isolated session; return output, exit code, new files.",
			"Directory, variables, functions, jobs, files in /mnt/data stay.", d.network(),
			describeMounts(d.Manager.Config().Mounts),
		), "A script."
	},
}

func sentences(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), " ")
}

// mountsNamed is how many folders of the user's machine a description names: it is short.
const mountsNamed = 5

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

// network describes the egress of code.
func (d *Deps) network() string {
	if d.Network == "" {
		return "No network."
	}
	return "Network: " + d.Network + "."
}

// toolServersBytes bounds the sentence of toolServers, where the first name leaves it.
const toolServersBytes = 60

// toolServers names the servers whose tools code calls, and how.
func (d *Deps) toolServers(how string) string {
	sentence := ""
	for n := 1; n <= len(d.ToolServers); n++ {
		names := strings.Join(d.ToolServers[:n], ", ")
		if more := len(d.ToolServers) - n; more > 0 {
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

func (d *Deps) runCode(language sandbox.LanguageInfo) tool {
	config := d.Manager.Config()
	description, code := codeTools[language.Language](d)
	description = sentences(description, d.describeSkills())
	number := map[string]any{"type": "number"}
	none := func(*mcp.Tool) {}
	dependencies, asCopy := none, none
	// An object must name its properties: Gemini's API refuses one that does not, and OpenAI's strict mode rejects it.
	limits := mcp.WithObject("limits", nullable, mcp.Properties(map[string]any{limitMemory: number, limitCPUs: number})) // and limitTimeout, for which there is an argument
	fresh := mcp.WithBoolean("fresh", nullable, mcp.Description("New interpreter, same files."))
	switch language.Language {
	case sandbox.Python:
		asCopy = mcp.WithBoolean("copy", nullable, mcp.Description("In a copy of the variables."))
	case sandbox.Bash:
		limits, fresh = none, none // they are taken, and rarely wanted
	}
	if d.Packages != nil && language.Installs != "" {
		dependencies = mcp.WithArray("dependencies", nullable, mcp.WithStringItems(), mcp.Description("To install first."))
	}
	return tool{
		output:  mcp.WithOutputSchema[render.RunFields](),
		ordered: true, runs: true, uses: []clientheader.Use{clientheader.Runs, clientheader.Sessions, clientheader.Stores},
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
			needs, err := d.needs(options)
			if err != nil {
				return nil, err
			}
			if missing = append(missing, needs...); len(missing) > 0 {
				res, err := d.installed(ctx, options, missing, func() {}) // the run behind it takes the place in the order
				if err != nil {
					return nil, err
				}
				if res.Status == sandbox.Running {
					return d.renderer().Run(ctx, res).Noting("Note: the dependencies are still being installed, and the code was not run; call again when that run is over."), nil
				}
			}
			run, repeats, err := patienceOf(ctx).run(ctx, options, p.given, d.Manager.Run)
			rpc.Settled(ctx)
			if err != nil {
				return nil, err
			}
			d.deliverRun(ctx, run)
			a, err := d.answer(ctx, run, d.wait(ctx), true)
			if repeats {
				a.Noting("Note: this is the run of the same call before, which had no answer yet: the code was not run twice.")
			}
			return a.Noting(p.lowered("timeout_seconds", longest.Seconds())), err
		},
	}
}

// progressEvery is how often a client that asked for progress hears of a run that says nothing.
const progressEvery = 5 * time.Second

// answer waits for a run as await does, and describes the result.
func (d *Deps) answer(ctx context.Context, run *sandbox.Run, wait time.Duration, own bool) (*render.Answer, error) {
	res, err := d.await(ctx, run, wait, own)
	if err != nil {
		return nil, err
	}
	patienceOf(ctx).answered(run, res.Status)
	r := d.renderer()
	if res.Status == sandbox.Running {
		return r.Run(ctx, res), nil
	}
	links, note := d.deliverRun(ctx, run).await(ctx, "; wait_for_run with run_id "+run.ID+" gives their addresses")
	r.StoreLinks = links
	a := linked(ctx, r.Run(ctx, res), res)
	if note != "" {
		a.Noting("Note: " + note)
	}
	return a, nil
}

// await waits until a run is over or the soft wait ends; the result then is partial, with the status Running. A client's cancel interrupts
// the run if it is this call's own. The error is a *questionError if the client must be asked.
func (d *Deps) await(ctx context.Context, run *sandbox.Run, wait time.Duration, own bool) (*sandbox.Result, error) {
	soft := time.NewTimer(wait)
	defer soft.Stop()
	var tick <-chan time.Time
	if rpc.WantsProgress(ctx) {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	reported := -1
	for {
		question, another := d.question(ctx, run)
		if question != nil {
			if own {
				interruptWith(ctx, run)
			}
			return nil, question
		}
		select {
		case <-another:
		case <-run.Done():
			return run.Result()
		case <-ctx.Done():
			end(ctx, run, own)
			return nil, context.Cause(ctx)
		case <-run.Moved():
			reported = notifyProgress(ctx, run, reported)
		case <-tick:
			reported = notifyProgress(ctx, run, reported)
		case <-soft.C:
			sofar := run.SoFar(ctx)
			select {
			case <-run.Done(): // it ended while its output was asked for
				continue
			default:
				return sofar, nil
			}
		}
	}
}

// notifyProgress reports the seconds so far, where they are more than were reported. There is no total: the timeout is
// when a run is stopped, and not when it is done.
func notifyProgress(ctx context.Context, run *sandbox.Run, reported int) int {
	p := run.Progress()
	now := int(p.Elapsed.Seconds())
	if now > reported {
		message := fmt.Sprintf("running for %d s", now)
		if p.WaitsFor != "" {
			message = "waits for " + p.WaitsFor
		}
		rpc.NotifyProgress(ctx, float64(now), 0, cmp.Or(p.LastLine, message))
	}
	return max(now, reported)
}

// nullable marks an optional parameter of common calls: some clients, such as smolagents, cannot omit any other. It costs every model
// tokens, so it is not used everywhere.
func nullable(schema map[string]any) { schema["nullable"] = true }

// sessionParam is described only in the tools that make sessions: a description costs every model tokens in every conversation.
func sessionParam() mcp.ToolOption { return mcp.WithString("session_id") }

// loadedAtOnce keeps a tool from being hidden behind a client's search for tools, which costs a turn.
func loadedAtOnce(t *mcp.Tool) {
	t.Meta = mcp.NewMetaFromMap(map[string]any{"anthropic/alwaysLoad": true})
}

// hints sets the annotations of a tool that reaches only its own session and replaces only files that can be made again. Other tools change
// them. Only a tool that can be repeated for a non-obvious reason says so.
func hints(readOnly bool) mcp.ToolOption {
	return func(t *mcp.Tool) {
		t.Annotations = mcp.ToolAnnotation{
			ReadOnlyHint: mcp.ToBoolPtr(readOnly), DestructiveHint: mcp.ToBoolPtr(false),
			OpenWorldHint: mcp.ToBoolPtr(false),
		}
	}
}
