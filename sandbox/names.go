package sandbox

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Names of the packages below, where they are described, for callers of this package.
type (
	Config        = runs.Config
	KernelConfig  = runs.KernelConfig
	Quota         = runs.Quota
	WayOut        = runs.WayOut
	SessionLimits = runs.SessionLimits
	Times         = runs.Times
	Language      = kernel.Language
	Run           = runs.Run
	RunOptions    = runs.RunOptions
	RunInfo       = runs.RunInfo
	Progress      = runs.Progress
	Result        = runs.Result
	Status        = runs.Status
	Display       = runs.Display
	Stream        = runs.Stream
	RunError      = runs.RunError
	Artifact      = runs.Artifact
	Background    = runs.Background
	Observer      = runs.Observer
	Observers     = runs.Observers
	Transfer      = runs.Transfer
	Direction     = runs.Direction
	HistoryEntry  = runs.HistoryEntry
	HistoryFields = runs.HistoryFields
	FilesDid      = runs.FilesDid
	Explainer     = place.Explainer
	FileReader    = link.FileReader
	NotRestored   = link.NotRestored
	NotKept       = link.NotKept
	Parts         = link.Parts
	RestoredFiles = link.RestoredFiles
)

// The constants of those.
const (
	Python     = kernel.Python
	JavaScript = kernel.JavaScript
	Bash       = kernel.Bash

	Completed = runs.Completed
	Failed    = runs.Failed
	TimedOut  = runs.TimedOut
	Cancelled = runs.Cancelled
	Running   = runs.Running
	Killed    = runs.Killed

	In  = runs.In
	Out = runs.Out

	MaxArtifacts  = runs.MaxArtifacts
	WayOutPort    = place.WayOutPort
	LabelSession  = runs.LabelSession
	LabelLanguage = runs.LabelLanguage
	LabelHost     = runs.LabelHost
	LabelTenant   = runs.LabelTenant
	LabelNamed    = runs.LabelNamed
	LabelOwner    = runs.LabelOwner
)
