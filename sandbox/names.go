package sandbox

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Names of the packages below, where they are described, for callers of this package.
type (
	KernelConfig  = place.KernelConfig
	Quota         = runs.Quota
	WayOut        = place.WayOut
	SessionLimits = runs.SessionLimits
	Times         = runs.Times
	Language      = kernel.Language
	Run           = runs.Run
	RunOptions    = runs.RunOptions
	RunInfo       = runs.RunInfo
	Result        = runs.Result
	Status        = runs.Status
	Display       = runs.Display
	Stream        = runs.Stream
	RunError      = runs.RunError
	Left          = runs.Left
	Artifact      = runs.Artifact
	Background    = runs.Background
	Observer      = runs.Observer
	Observers     = runs.Observers
	Transfer      = runs.Transfer
	Direction     = runs.Direction
	HistoryEntry  = runs.HistoryEntry
	HistoryFields = runs.HistoryFields
	FilesDid      = runs.FilesDid
	FileReader    = link.FileReader
	NotRestored   = link.NotRestored
	NotKept       = link.NotKept
	Checkpoint    = link.Checkpoint
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
	LabelSession  = place.LabelSession
	LabelLanguage = place.LabelLanguage
	LabelHost     = place.LabelHost
	LabelNamed    = place.LabelNamed
)
