// Package protocol has the messages of docs/kernel-protocol.md, which a server and a supervisor exchange over a channel.
// Both ends use it. A message is a JSON object whose Type says which one it is; one that has been received is as the
// other end wrote it, which may be hostile: the receiver bounds and checks each field.
package protocol

import "encoding/json"

const (
	// Version is the protocol's.
	Version = 2
	// MaxToSupervisor bounds a message to a supervisor, in bytes.
	MaxToSupervisor = 1 << 20
	// MaxToServer bounds one to a server.
	MaxToServer = 8 << 20
)

// Head is what every message begins with. ID is empty where it is about no run.
type Head struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// To a supervisor ----------------------------------------------------------------------

// Init is the message init, and bind, which replaces it for a container that was made for no session yet. Each bound is the
// server's, and the nearest that a supervisor can keep; a limit of zero is none.
type Init struct {
	Type         string            `json:"type"`
	Protocol     int               `json:"protocol"`
	WorkDir      string            `json:"work_dir"`
	Env          map[string]string `json:"env"`
	Preload      []string          `json:"preload"`
	Warm         bool              `json:"warm"`
	Spare        bool              `json:"spare,omitempty"` // no run begins before bind, which has the rest
	IdleSeconds  int64             `json:"idle_seconds"`
	OnEOF        string            `json:"on_eof"`
	OutputBytes  int               `json:"output_bytes"`
	SpoolBytes   int64             `json:"spool_bytes"`
	ImageBytes   int               `json:"image_bytes"`
	MaxDisplays  int               `json:"max_displays"`
	MaxArtifacts int               `json:"max_artifacts"`
	Token        string            `json:"token"`
	VolumeBytes  int64             `json:"volume_bytes"`
	VolumeFiles  int64             `json:"volume_files"`
	// MemoryBytes is what the container may take in all; 0: it is not known, and nothing is stopped for it.
	MemoryBytes int64 `json:"memory_bytes"`
	// FreezeBytes and FreezeSeconds bound what a kernel writes of its variables when it ends in order; 0 bytes: it writes none.
	FreezeBytes   int64 `json:"freeze_bytes"`
	FreezeSeconds int   `json:"freeze_seconds"`
	// Twins is how many copies of a kernel are kept to go back to, and TwinBytes what they may take together.
	Twins     int   `json:"twins"`
	TwinBytes int64 `json:"twin_bytes"`
	// WayOut is the port of loopback whose connections become streams to the server; 0: nobody listens.
	WayOut int `json:"way_out,omitempty"`
	// Trust has certificates in PEM, of authorities that the code trusts beside those of the image.
	Trust string `json:"trust,omitempty"`
}

// WayOutVariable is the variable of a supervisor with the port of Init.WayOut, which is taken before any interpreter runs
// what a session has put beside its packages.
const WayOutVariable = "CODE_SANDBOX_WAY_OUT"

// TrustFile is where a supervisor writes what TLS in its container trusts, when init has Trust.
const TrustFile = "/tmp/.code-sandbox-mcp/certificates.pem"

// Attach is the message attach.
type Attach struct {
	Type     string `json:"type"`
	Protocol int    `json:"protocol"`
	Token    string `json:"token"`
	// FilesOnly joins beside the server that there may be, for streams about files and for nothing else.
	FilesOnly bool `json:"files_only,omitempty"`
}

// Request is any message that comes after those: run, interrupt, peek, ping, freeze, restore or stop.
type Request struct {
	Type      string `json:"type"`
	ID        string `json:"id,omitempty"`
	Code      string `json:"code,omitempty"` // of run, as what follows
	Before    string `json:"before,omitempty"`
	Fresh     bool   `json:"fresh,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	GraceMS   int64  `json:"grace_ms,omitempty"`
	LingerMS  int64  `json:"linger_ms,omitempty"`
	Copy      bool   `json:"copy,omitempty"`   // of run: in a copy of the variables, which restore can go to
	Run       string `json:"run,omitempty"`    // of restore: the run to go back to the beginning of, or whose copy to go to
	Reason    string `json:"reason,omitempty"` // of interrupt
	N         int64  `json:"n,omitempty"`      // of ping
}

// To a server --------------------------------------------------------------------------

// Ready is the message ready.
type Ready struct {
	Type     string   `json:"type"`
	Protocol int      `json:"protocol"`
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Run      string   `json:"run"` // that goes on and keeps its variables, after a take-over
	// Runs are all that go on, fresh ones too, and Over those whose ends come behind this message, the newest last.
	Runs []string `json:"runs"`
	Over []string `json:"over"`
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
	// Key: it takes the place of the run's earlier display with the same one. Empty: of none.
	Key string `json:"key,omitempty"`
	// Saved is the file that the code itself has saved it to, as it is, relative to the work directory.
	Saved string `json:"saved,omitempty"`
}

// Data has what is displayed, by its MIME type.
type Data map[string]string

// UnmarshalJSON leaves out what is no text: that is no reason to refuse the rest.
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

// Stream is what is reported of an output stream.
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
	Error          *Error       `json:"error"`
	Stdout         Stream       `json:"stdout"`
	Stderr         Stream       `json:"stderr"`
	Artifacts      []Artifact   `json:"artifacts"`
	ArtifactsTotal int          `json:"artifacts_total"`
	DisplaysTotal  int          `json:"displays_total"`
	DurationMS     float64      `json:"duration_ms"`
	Cause          string       `json:"cause"`
	Kernel         string       `json:"kernel"`
	Background     []Background `json:"background"`
	GoesOn         []string     `json:"goes_on"`
	// Origin is where the variables came from that the run began with, the first time that a run sees them; or, where the
	// kernel is "restored", those that its session goes on with. Nil: from the run before, or there were none.
	Origin *Origin `json:"origin,omitempty"`
	// Memory is what there was when the run was stopped for it, or failed for want of it.
	Memory *Memory `json:"memory,omitempty"`
	// Copied: the run had a copy of the variables, which can be gone to.
	Copied bool `json:"copied,omitempty"`
}

// Origin is what a kernel's variables came from that did not begin empty.
type Origin struct {
	From      string `json:"from"`      // "frozen" or "twin"
	Variables int    `json:"variables"` // how many are there
	AtMS      int64  `json:"at_ms"`     // when they were as they are, in Unix milliseconds
	Run       string `json:"run"`       // the run behind which they were so; of a twin
	Lost      []Lost `json:"lost"`
	LostTotal int    `json:"lost_total"`         // Lost may be cut
	Doubtful  []Lost `json:"doubtful,omitempty"` // variables that another version of a package has made
	Error     string `json:"error,omitempty"`    // why there are none
}

// Lost is a variable that could not be kept, and why.
type Lost struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Memory is what a session has taken of its memory, and the variables that take most of it.
type Memory struct {
	UsedBytes  int64      `json:"used_bytes"`
	LimitBytes int64      `json:"limit_bytes"`
	Largest    []Variable `json:"largest"`
}

// Variable is one of the code's, and about what it takes.
type Variable struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes"`
}

// Frozen answers the message freeze.
type Frozen struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Variables int    `json:"variables"`
	Bytes     int64  `json:"bytes"`
	Lost      []Lost `json:"lost"`
	LostTotal int    `json:"lost_total"`
	Error     string `json:"error,omitempty"` // why nothing was written; what was there before stays
}

// Restored answers the message restore.
type Restored struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Run   string `json:"run"`             // that the variables are as before, or as behind where it was a copy
	Error string `json:"error,omitempty"` // why nothing was changed
	// Runs are those that can be gone back to the beginning of, and Copies the copies that can be gone to; the newest last.
	Runs   []string `json:"runs"`
	Copies []string `json:"copies"`
}

// Twins is the message twins: what there is to go back to, whenever that changes.
type Twins struct {
	Type   string   `json:"type"`
	Runs   []string `json:"runs"` // as in Restored
	Copies []string `json:"copies"`
	Why    string   `json:"why"` // why there is none of the present variables; empty where there is
}

// Error is how code failed.
type Error struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

// Artifact is a file that a run has made or changed.
type Artifact struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	ModifiedMS int64  `json:"modified_ms"`
}

// Background is what a run that is over has printed on one stream since the last answer.
type Background struct {
	Path         string `json:"path"` // of the stream's file, which has all of it up to its limit; empty where nothing is kept
	Text         string `json:"text"` // the end of it, as a terminal shows it
	OmittedBytes int64  `json:"omitted_bytes"`
}

// KernelState is the message kernel.
type KernelState struct {
	Type  string `json:"type"`
	State string `json:"state"`
	Cause string `json:"cause"`
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
