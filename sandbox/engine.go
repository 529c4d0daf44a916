package sandbox

import "github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"

// What package engine has, by the names that this package's users know.
type (
	// Engine owns containers.
	Engine = engine.Engine
	// Spec describes a container.
	Spec = engine.Spec
	// Limits bounds one.
	Limits = engine.Limits
	// Mount is a folder of this machine in one.
	Mount = engine.Mount
	// Container is what a list says of a container.
	Container = engine.Container
	// Volume is what it says of a volume.
	Volume = engine.Volume
	// Inventory is such a list.
	Inventory = engine.Inventory
	// Process is the stdio of a program.
	Process = engine.Process
	// ImageInfo describes an image.
	ImageInfo = engine.ImageInfo
)

// WorkDir is where every container has its session's volume.
const WorkDir = engine.WorkDir

// MountsDir is where every container has the folders of Config.Mounts, by their names.
const MountsDir = engine.MountsDir

// Errors that an Engine returns, wrapped with the details for the log.
var (
	ErrEngineUnavailable = engine.ErrEngineUnavailable
	ErrImageMissing      = engine.ErrImageMissing
	ErrContainerGone     = engine.ErrContainerGone
	ErrNoInterpreter     = engine.ErrNoInterpreter
	ErrArchitecture      = engine.ErrArchitecture
	ErrNotOnHost         = engine.ErrNotOnHost
	ErrNoPlaceForMounts  = engine.ErrNoPlaceForMounts
)
