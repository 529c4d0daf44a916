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

// Init is the message init. Each bound is the server's, and the nearest that a supervisor can keep; a limit of zero is none.
type Init struct {
	Type         string            `json:"type"`
	Protocol     int               `json:"protocol"`
	WorkDir      string            `json:"work_dir"`
	Env          map[string]string `json:"env"`
	Preload      []string          `json:"preload"`
	Warm         bool              `json:"warm"`
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

// Request is any message that comes after those: run, interrupt, peek, ping or stop.
type Request struct {
	Type      string `json:"type"`
	ID        string `json:"id,omitempty"`
	Code      string `json:"code,omitempty"` // of run, as what follows
	Fresh     bool   `json:"fresh,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	GraceMS   int64  `json:"grace_ms,omitempty"`
	LingerMS  int64  `json:"linger_ms,omitempty"`
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
