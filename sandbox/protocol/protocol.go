// Package protocol defines the messages of docs/kernel-protocol.md, which a server and a supervisor exchange over a channel. Both
// ends use it. A message is a JSON object with a Type; a received one is in the words of the other end, which may be hostile: the
// receiver bounds and checks each field.
package protocol

import (
	"encoding/json"
	"strconv"
)

const (
	// Version is the protocol's version.
	Version = 4
	// MaxToSupervisor bounds a message to a supervisor, in bytes.
	MaxToSupervisor = 1 << 20
	// MaxToServer bounds a message to a server, in bytes.
	MaxToServer = 8 << 20
)

// Head begins every message. ID is empty if it is about no run, and Language if it is about no kernel.
type Head struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Language string `json:"language"`
}

// To a supervisor ----------------------------------------------------------------------

// Init is the message init, and bind, which replaces it for a spare. Each bound is the server's, and the nearest that a supervisor
// can keep; a limit of zero is none.
type Init struct {
	Type     string `json:"type"`
	Protocol int    `json:"protocol"`
	WorkDir  string `json:"work_dir"`
	// StateDir is the folder with what is kept of kernels and files; if it is not there, .state in WorkDir.
	StateDir string            `json:"state_dir,omitempty"`
	Env      map[string]string `json:"env"`
	// Preload names, by language, modules to import before the first run. Warm names the languages whose kernels are made ready
	// before they are asked for.
	Preload      map[string][]string `json:"preload"`
	Warm         []string            `json:"warm"`
	Spare        bool                `json:"spare,omitempty"` // no run begins before bind, which carries the rest
	IdleSeconds  int64               `json:"idle_seconds"`
	OnEOF        string              `json:"on_eof"`
	OutputBytes  int                 `json:"output_bytes"`
	SpoolBytes   int64               `json:"spool_bytes"`
	ImageBytes   int                 `json:"image_bytes"`
	MaxDisplays  int                 `json:"max_displays"`
	MaxArtifacts int                 `json:"max_artifacts"`
	Token        string              `json:"token"`
	VolumeBytes  int64               `json:"volume_bytes"`
	VolumeFiles  int64               `json:"volume_files"`
	// MemoryBytes is the container's memory limit; 0: unknown, and nothing is stopped for it.
	MemoryBytes int64 `json:"memory_bytes"`
	// FreezeBytes and FreezeSeconds bound the snapshot that a kernel writes at an orderly end; 0 bytes: it writes none.
	FreezeBytes   int64 `json:"freeze_bytes"`
	FreezeSeconds int   `json:"freeze_seconds"`
	// UndoBytes bounds the versions of files; 0: none are kept.
	UndoBytes int64 `json:"undo_bytes"`
	// UndoMounts are the folders below the work directory that are mounted, and whose files have versions too.
	UndoMounts []string `json:"undo_mounts,omitempty"`
	// Twins is the number of restorable copies of a kernel, and TwinBytes bounds them together.
	Twins     int   `json:"twins"`
	TwinBytes int64 `json:"twin_bytes"`
	// SnapshotBytes bounds the file that stands in for one where kernels cannot be forked; 0: none is written.
	SnapshotBytes int64 `json:"snapshot_bytes"`
	// WayOut is the loopback port for egress: connections to it become streams to the server; 0: nobody listens.
	WayOut int `json:"way_out,omitempty"`
	// Trust holds the PEM certificates of authorities that the code trusts beside those of the image.
	Trust string `json:"trust,omitempty"`
}

// WayOutVariable is the variable of a supervisor with the port of Init.WayOut, which it takes before any interpreter runs a
// session's code beside its packages.
const WayOutVariable = "CODE_SANDBOX_WAY_OUT"

// TrustFile is the file in which a supervisor writes the trusted certificates of TLS in its container, if init contains Trust.
const TrustFile = "/tmp/.code-sandbox-mcp/certificates.pem"

// Attach is the message attach.
type Attach struct {
	Type     string `json:"type"`
	Protocol int    `json:"protocol"`
	Token    string `json:"token"`
	// FilesOnly joins beside the server that there may be, for streams about files and for nothing else.
	FilesOnly bool `json:"files_only,omitempty"`
}

// Request is any message after those: start, run, interrupt, peek, ping, describe, freeze, settle, checkpoint, restore or stop.
type Request struct {
	Type      string `json:"type"`
	Language  string `json:"language,omitempty"` // of start, run, freeze, settle, checkpoint and restore
	ID        string `json:"id,omitempty"`
	Code      string `json:"code,omitempty"` // of run, as the following
	Before    string `json:"before,omitempty"`
	Fresh     bool   `json:"fresh,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	GraceMS   int64  `json:"grace_ms,omitempty"`
	LingerMS  int64  `json:"linger_ms,omitempty"`
	Copy      bool   `json:"copy,omitempty"`  // of run: in a copy of the variables, which restore can restore
	Run       string `json:"run,omitempty"`   // of restore: the run before which the files are to be; of checkpoint: the last run before it
	Name      string `json:"name,omitempty"`  // of checkpoint; of restore: in the place of runs
	Files     bool   `json:"files,omitempty"` // of restore: they go back
	// Languages are, of restore, those whose variables go back, and for each the run with the wanted beginning or copy.
	Languages map[string]string `json:"languages,omitempty"`
	Reason    string            `json:"reason,omitempty"` // of interrupt
	N         int64             `json:"n,omitempty"`      // of ping
}

// To a server --------------------------------------------------------------------------

// Attached is the message attached, the first of every connection.
type Attached struct {
	Type      string    `json:"type"`
	Protocol  int       `json:"protocol"`
	Languages []Started `json:"languages"` // those that the supervisor was started for
	// Runs are all going on, fresh ones too, and Over those with an end behind this message, the newest last.
	Runs []string `json:"runs"`
	Over []string `json:"over"`
}

// Started tells whether a language had a kernel.
type Started struct {
	Language string `json:"language"`
	Started  bool   `json:"started"`
}

// Ready is the message ready, of one language's kernel.
type Ready struct {
	Type     string   `json:"type"`
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Run      string   `json:"run"` // the one going on that keeps its variables, after a take-over
}

// Progress is the message progress.
type Progress struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	ElapsedMS   int64  `json:"elapsed_ms"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
	LastLine    string `json:"last_line"`
}

// Display is the message display.
type Display struct {
	Type      string `json:"type,omitempty"`
	ID        string `json:"id,omitempty"`
	Data      Data   `json:"data"`
	Path      string `json:"path,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	Alt       string `json:"alt"`
	// Key: it replaces the run's earlier display with the same key. Empty: of none.
	Key string `json:"key,omitempty"`
	// Saved is the file to which the code itself saved it unchanged, relative to the work directory.
	Saved string `json:"saved,omitempty"`
}

// Data is a display's content by MIME type.
type Data map[string]string

// UnmarshalJSON leaves out values other than text: they are no reason to refuse the rest.
func (d *Data) UnmarshalJSON(body []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return err
	}
	*d = make(Data, len(raw))
	for mime, value := range raw {
		var text string
		if json.Unmarshal(value, &text) == nil {
			(*d)[mime] = text
		}
	}
	return nil
}

// Stream is the report on an output stream.
type Stream struct {
	Head         string `json:"head"`
	Tail         string `json:"tail"` // empty unless something was left out before it
	Bytes        int64  `json:"bytes"`
	Lines        int64  `json:"lines"`
	OmittedBytes int64  `json:"omitted_bytes"`
	OmittedLines int64  `json:"omitted_lines"`
	Path         string `json:"path,omitempty"`
}

// Peek answers the message peek.
type Peek struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Stdout    Stream `json:"stdout"`
	Stderr    Stream `json:"stderr"`
	ElapsedMS int64  `json:"elapsed_ms"`
}

// Done is the message done.
type Done struct {
	Type           string       `json:"type,omitempty"`
	ID             string       `json:"id,omitempty"`
	Status         string       `json:"status"`
	ExitCode       int          `json:"exit_code"`
	Result         *string      `json:"result"`
	ResultLeft     *Left        `json:"result_left,omitempty"`
	Error          *Error       `json:"error"`
	ErrorLeft      *Left        `json:"error_left,omitempty"` // out of the error's traceback; nil: nothing
	Stdout         Stream       `json:"stdout"`
	Stderr         Stream       `json:"stderr"`
	Artifacts      []Artifact   `json:"artifacts"`
	ArtifactsTotal int          `json:"artifacts_total"`
	Removed        []string     `json:"removed,omitempty"` // paths, at most 20 of RemovedTotal
	RemovedTotal   int          `json:"removed_total,omitempty"`
	DisplaysTotal  int          `json:"displays_total"`
	DurationMS     float64      `json:"duration_ms"`
	DrawingMS      float64      `json:"drawing_ms,omitempty"` // after that, until the pictures of its pages were drawn
	Cause          string       `json:"cause"`
	Kernel         string       `json:"kernel"`
	Background     []Background `json:"background"`
	GoesOn         []string     `json:"goes_on"`
	// Origin is the origin of the variables at the run's beginning, reported to the first run that sees them; or, if the kernel is
	// "restored", of those that its session goes on with. Nil: from the run before, or there were none.
	Origin *Origin `json:"origin,omitempty"`
	// Memory is the state of memory when lack of it stopped or failed the run.
	Memory *Memory `json:"memory,omitempty"`
	// Copied: the run kept a restorable copy of the variables.
	Copied bool `json:"copied,omitempty"`
	// NotKept are files without a copy of what they were before the run, if no answer has named them since they were last copied.
	NotKept []NotKept `json:"not_kept,omitempty"`
	// Dropped are checkpoints that were dropped for want of room, if no answer has named them.
	Dropped []string `json:"dropped,omitempty"`
}

// Origin is the origin of a kernel's variables, unless it began empty.
type Origin struct {
	From      string `json:"from"`      // "frozen" or "twin"
	Variables int    `json:"variables"` // their number
	AtMS      int64  `json:"at_ms"`     // the time of their state, in Unix milliseconds
	Run       string `json:"run"`       // the run that left that state; of a twin
	Lost      []Lost `json:"lost"`
	LostTotal int    `json:"lost_total"`         // Lost may be cut
	Doubtful  []Lost `json:"doubtful,omitempty"` // variables that another version of a package made
	Error     string `json:"error,omitempty"`    // why there are none
}

// Lost is a lost variable, and why.
type Lost struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Memory is a session's memory usage, and its largest variables.
type Memory struct {
	UsedBytes  int64 `json:"used_bytes"`
	LimitBytes int64 `json:"limit_bytes"`
	// Interpreter is the language whose kernels and programs took most. Largest are its variables, if the run was in that language.
	Interpreter string     `json:"interpreter,omitempty"`
	Largest     []Variable `json:"largest"`
}

// Variable is one of the code's, with its approximate size.
type Variable struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes"`
}

// Frozen answers the message freeze.
type Frozen struct {
	Type      string `json:"type"`
	Language  string `json:"language"`
	ID        string `json:"id"`
	Variables int    `json:"variables"`
	Bytes     int64  `json:"bytes"`
	Lost      []Lost `json:"lost"`
	LostTotal int    `json:"lost_total"`
	Error     string `json:"error,omitempty"` // why nothing was written; an earlier snapshot stays
}

// MaxHeld bounds the variables and imports that a language names.
const MaxHeld = 60

// Described answers the message describe.
type Described struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Languages []Holding `json:"languages"` // those that have something, or may
}

// Holding is what a language's kernel holds.
type Holding struct {
	Language string   `json:"language"`
	Holds    []string `json:"holds,omitempty"`    // "df DataFrame 1,204 × 8": by turns the newest and the largest, at most MaxHeld of Total
	Imported []string `json:"imported,omitempty"` // "pandas as pd"
	Total    int      `json:"total,omitempty"`
	Asleep   bool     `json:"asleep,omitempty"` // they are in a file until the next run, and their kinds are not known
	Busy     bool     `json:"busy,omitempty"`   // a run goes on, or the kernel does not answer
}

// Checkpoint is a state of variables and files that has a name.
type Checkpoint struct {
	Name      string   `json:"name"`
	After     string   `json:"after"` // the last run before it
	AtMS      int64    `json:"at_ms"`
	Languages []string `json:"languages"` // that had variables
}

// Restored answers the messages settle, restore and checkpoint.
type Restored struct {
	Type     string `json:"type"`
	Language string `json:"language"`
	ID       string `json:"id"`
	Error    string `json:"error,omitempty"` // why nothing changed
	// Went are the languages whose variables went back. Stay says of others why theirs stay as they are.
	Went []string `json:"went,omitempty"`
	Stay []Lost   `json:"stay,omitempty"`
	// Runs are the restorable runs, and Copies the runs with a restorable copy; the newest last.
	Runs   []string `json:"runs"`
	Copies []string `json:"copies"`
	// Lost are variables that could not be brought back, at most 50 of LostTotal.
	Lost      []Lost `json:"lost,omitempty"`
	LostTotal int    `json:"lost_total,omitempty"`
	// Files is nil if they were to stay. Of a checkpoint it has the files without a copy.
	Files *RestoredFiles `json:"files,omitempty"`
	// Checkpoint is what was made, or gone back to, and Checkpoints are all that there are, the newest last; where a name was asked for.
	Checkpoint  *Checkpoint  `json:"checkpoint,omitempty"`
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
	// Dropped are as in Done.
	Dropped []string `json:"dropped,omitempty"`
}

// RestoredFiles is what became of files in a restore.
type RestoredFiles struct {
	Restored int `json:"restored"` // files and links that are as they were
	Removed  int `json:"removed"`
	// NotKept are paths that are not as they were, and why; at most 20, of NotKeptTotal.
	NotKept      []NotKept `json:"not_kept"`
	NotKeptTotal int       `json:"not_kept_total"`
	// Error says why nothing has changed, neither files nor variables; Code is busy, unknown, full or failed.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
}

// NotKept is a file of which there is no copy, and why.
type NotKept struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Versions is the message versions: the runs whose beginning the files can go back to, the oldest first, and the present files of which
// there is no copy, at most 20, and what the last runs did; whenever that changes.
type Versions struct {
	Type         string    `json:"type"`
	Runs         []string  `json:"runs"`
	NotKept      []NotKept `json:"not_kept"`
	NotKeptTotal int       `json:"not_kept_total"`
	Did          []Did     `json:"did"`            // by the last runs, the oldest first
	Gone         []string  `json:"gone,omitempty"` // the paths in Did that are not there now
	// Checkpoints are the newest last.
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
}

// Did is what runs did to files and links; several runs did it together if nobody looked between their ends.
type Did struct {
	Runs    []string  `json:"runs"`
	Added   int       `json:"added"`
	Changed int       `json:"changed"`
	Removed int       `json:"removed"`
	Paths   []Touched `json:"paths"` // at most 10
}

// Touched is a path and what happened to it: added, changed or removed.
type Touched struct {
	Path string `json:"path"`
	How  string `json:"how"`
}

// Twins is the message twins: the restorable runs, whenever they change.
type Twins struct {
	Type     string   `json:"type"`
	Language string   `json:"language"`
	Runs     []string `json:"runs"` // as in Restored
	Copies   []string `json:"copies"`
	Why      string   `json:"why"` // why the present variables are not restorable; empty if they are
	// Present: so are those that the next run begins with, also once its kernel has died.
	Present bool `json:"present"`
	// Looked are the last runs of which it is known that they changed no variable.
	Looked []string `json:"looked,omitempty"`
}

// Error is a failure of code.
type Error struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

// Left counts what a kernel left out of a text: where LeftMark is, else at its end.
type Left struct {
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
	More  bool  `json:"more,omitempty"` // these and an unknown number
}

// LeftMark is the line of a text for what is left out there.
func (l *Left) LeftMark() string {
	return "\n... " + strconv.FormatInt(l.Bytes, 10) + " bytes left out ...\n"
}

// Artifact is a file that a run created or changed.
type Artifact struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	ModifiedMS int64  `json:"modified_ms"`
}

// Background is the output of finished runs to one stream since the last answer.
type Background struct {
	Path         string `json:"path"` // of the stream's file, with all of it up to its limit; empty if nothing is kept
	Text         string `json:"text"` // the end of it, as a terminal shows it
	OmittedBytes int64  `json:"omitted_bytes"`
}

// KernelState is the message kernel.
type KernelState struct {
	Type     string `json:"type"`
	Language string `json:"language"`
	State    string `json:"state"`
	Cause    string `json:"cause"`
}

// Pong is the message pong.
type Pong struct {
	Type string `json:"type"`
	N    int64  `json:"n"`
}

// Log is the message log.
type Log struct {
	Type    string `json:"type"`
	Level   string `json:"level"`
	Message string `json:"message"`
}

// Truncated reports whether something lies between Head and Tail.
func (s Stream) Truncated() bool { return s.OmittedBytes > 0 }
