// The tool session_info: limits, packages.

package tools

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

type limitFields struct {
	MemoryBytes        int64   `json:"memory_bytes"`
	CPUs               float64 `json:"cpus"`
	Processes          int64   `json:"processes"`
	TmpBytes           int64   `json:"tmp_bytes"`
	FileBytes          int64   `json:"file_bytes"`
	VolumeBytes        int64   `json:"volume_bytes"`
	VolumeFiles        int64   `json:"volume_files"`
	CodeBytes          int     `json:"code_bytes"`
	OutputBytes        int     `json:"output_bytes"`
	RunSeconds         float64 `json:"run_seconds"`
	MaxRunSeconds      float64 `json:"max_run_seconds"`
	IdleSeconds        float64 `json:"idle_seconds"`
	LifetimeSeconds    float64 `json:"lifetime_seconds"`
	Sessions           int     `json:"sessions"`
	AnswerAfterSeconds float64 `json:"answer_after_seconds"`
	// AllSessions is the quota of all sessions together, if there is one.
	AllSessions *totalFields `json:"all_sessions,omitempty"`
}

type totalFields struct {
	Kernels     int     `json:"kernels,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	Calls       int     `json:"calls_per_minute,omitempty"`
}

func totals(q sandbox.Quota, callsPerMinute int) *totalFields {
	f := totalFields{q.MaxKernels, q.MemoryBytes, q.CPUs, q.DiskBytes, callsPerMinute}
	if f == (totalFields{}) {
		return nil
	}
	return &f
}

type mountFields struct {
	Path     string `json:"path"`
	Folder   string `json:"folder,omitempty"` // of the user's machine, for the owner there
	Writable bool   `json:"writable"`
	Undo     bool   `json:"undo,omitempty"`
}

type infoFields struct {
	SessionFields
	WorkDir   string `json:"work_dir"`
	InputDir  string `json:"input_dir"`
	OutputDir string `json:"output_dir"`
	// Mounts are folders of the user's machine, and whether code may write to them.
	Mounts  []mountFields `json:"mounts,omitempty"`
	Network string        `json:"network"`
	// ToolServers are the MCP servers with tools that code may call.
	ToolServers []string `json:"tool_servers,omitempty"`
	// ArtifactStore is where new files go besides, if there is such a place.
	ArtifactStore string      `json:"artifact_store,omitempty"`
	Limits        limitFields `json:"limits"`
	// Versions are the runs whose files can be brought back, and files that cannot.
	Versions *sandbox.FileVersions `json:"versions,omitempty"`
	// Holds are the variables, imports and files of a session with kernels here.
	Holds *sandbox.Holding `json:"holds,omitempty"`
	// Packages maps names to versions, for the languages with a listing image, if packages are asked for.
	Packages map[sandbox.Language]map[string]string `json:"packages,omitempty"`
	// Installed lists the session's own installations, if packages are asked for.
	Installed map[sandbox.Language][]sandbox.Package `json:"installed,omitempty"`
	// PackagesLeftOut is how many there was no room for.
	PackagesLeftOut int `json:"packages_left_out,omitempty"`
}

func (f infoFields) Meta() any { return f.sessionMeta }

func (d *Deps) sessionInfo() tool {
	return tool{
		output: mcp.WithOutputSchema[infoFields](),
		definition: mcp.NewTool("session_info",
			mcp.WithToolTitle("Session info"),
			mcp.WithDescription("A session of the code sandbox: folders, kernels and what they run, limits, age."),
			sessionParam(), mcp.WithBoolean("packages", mcp.Description("List packages.")), hints(true),
		),
		uses: clientheader.AllUses,
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			id, packages := p.session(), p.flag("packages")
			if err := p.check(); err != nil {
				return nil, err
			}
			info, err := d.Manager.Session(ctx, id)
			if err != nil {
				return nil, err
			}
			fields := d.infoFields(ctx, info)
			if info.Containers > 0 {
				fields.Holds = d.Manager.Holding(ctx, info.ID)
			}
			if !packages {
				return render.JSON(fields)
			}
			all := d.imagePackages(ctx)
			most := 0
			var installed map[sandbox.Language][]sandbox.Package
			if info.Owner == sandbox.OwnerThis && info.SizeBytes != nil { // a container is there to look with
				if installed, err = d.Manager.Packages(ctx, info.ID); err != nil {
					return nil, err
				}
			}
			for _, list := range installed {
				most = max(most, len(list))
			}
			for _, versions := range all {
				most = max(most, len(versions))
			}
			return d.renderer().Fit(ctx, most, func(each int) *render.Answer {
				a, _ := render.JSON(fields.with(all, installed, each)) // texts and numbers
				return a
			}), nil
		},
	}
}

// with adds the first packages of each language.
func (f infoFields) with(all map[sandbox.Language]map[string]string, installed map[sandbox.Language][]sandbox.Package, each int) infoFields {
	f.Installed = make(map[sandbox.Language][]sandbox.Package)
	for language, list := range installed {
		f.Installed[language] = list[:min(each, len(list))]
		f.PackagesLeftOut += max(len(list)-each, 0)
	}
	f.Packages = make(map[sandbox.Language]map[string]string)
	for language, versions := range all {
		f.Packages[language] = make(map[string]string)
		names := slices.Sorted(maps.Keys(versions))
		for _, name := range names[:min(each, len(names))] {
			f.Packages[language][name] = versions[name]
		}
		f.PackagesLeftOut += max(len(names)-each, 0)
	}
	return f
}

func (d *Deps) infoFields(ctx context.Context, info sandbox.SessionInfo) infoFields {
	var mounts []mountFields
	for _, m := range d.Manager.Config().Mounts {
		f := mountFields{Path: engine.MountsDir + "/" + m.Name, Writable: m.Writable, Undo: m.Undo}
		if d.Local {
			f.Folder = m.Folder
		}
		mounts = append(mounts, f)
	}
	return infoFields{
		SessionFields: FieldsOf(ctx, info), Mounts: mounts, Versions: info.Versions,
		WorkDir: engine.WorkDir, InputDir: engine.WorkDir + "/input", OutputDir: engine.WorkDir + "/output",
		Network: cmp.Or(d.Network, "none"), ToolServers: d.ToolServers, ArtifactStore: d.Store.name(ctx), Limits: d.limitsOf(ctx, info),
	}
}

// packagesTimeout bounds the wait for an engine that describes images; the answer is then without them.
const packagesTimeout = 5 * time.Second

func (d *Deps) imagePackages(ctx context.Context) map[sandbox.Language]map[string]string {
	ctx, cancel := context.WithTimeout(ctx, packagesTimeout)
	defer cancel()
	packages := make(map[sandbox.Language]map[string]string)
	for _, e := range d.Environments(ctx) {
		if e.Problem != "" {
			d.Logger.Info("list packages", "language", e.Language, "problem", e.Problem)
			continue
		}
		packages[e.Language] = e.Packages
	}
	return packages
}

// limitsOf returns the limits of a session, which may differ from the server's, and of a call to it.
func (d *Deps) limitsOf(ctx context.Context, info sandbox.SessionInfo) limitFields {
	l := d.limits()
	l.MemoryBytes, l.CPUs = info.Limits.MemoryBytes, info.Limits.CPUs
	l.MaxRunSeconds = clientheader.Lower(info.Limits.RunTimeout, clientheader.Of(ctx).Bounds().RunTimeout).Seconds()
	l.IdleSeconds, l.LifetimeSeconds = info.Times.IdleTimeout.Seconds(), info.Times.Lifetime.Seconds()
	l.RunSeconds = min(l.RunSeconds, l.MaxRunSeconds)
	return l
}

// limits returns the limits of every session of this server.
func (d *Deps) limits() limitFields {
	c := d.Manager.Config()
	return limitFields{
		MemoryBytes: c.Limits.MemoryBytes, CPUs: c.Limits.CPUs, Processes: c.Limits.PIDs,
		TmpBytes: c.Limits.TmpBytes, FileBytes: c.Limits.FileBytes,
		VolumeBytes: c.VolumeBytes, VolumeFiles: c.VolumeFiles, CodeBytes: c.CodeBytes, OutputBytes: c.OutputBytes,
		RunSeconds: c.RunTimeout.Seconds(), MaxRunSeconds: c.MaxRunTimeout.Seconds(),
		IdleSeconds: c.IdleTimeout.Seconds(), LifetimeSeconds: c.Lifetime.Seconds(),
		Sessions: c.MaxSessions, AnswerAfterSeconds: d.SoftWait.Seconds(), AllSessions: totals(c.Quota, d.CallsPerMinute),
	}
}
