package sandbox

import "encoding/json"

// The messages of docs/kernel-protocol.md.

type initMessage struct {
	Type         string            `json:"type"`
	Protocol     int               `json:"protocol"`
	WorkDir      string            `json:"work_dir"`
	Env          map[string]string `json:"env"`
	Preload      []string          `json:"preload"`
	Warm         bool              `json:"warm"`
	IdleSeconds  int               `json:"idle_seconds"`
	OnEOF        string            `json:"on_eof"`
	OutputBytes  int               `json:"output_bytes"`
	SpoolBytes   int               `json:"spool_bytes"`
	ImageBytes   int               `json:"image_bytes"`
	MaxDisplays  int               `json:"max_displays"`
	MaxArtifacts int               `json:"max_artifacts"`
	Token        string            `json:"token"`
	VolumeBytes  int64             `json:"volume_bytes"`
	VolumeFiles  int64             `json:"volume_files"`
}

type attachMessage struct {
	Type     string `json:"type"`
	Protocol int    `json:"protocol"`
	Token    string `json:"token"`
	// FilesOnly joins beside the server that there may be, for streams about files and for nothing else.
	FilesOnly bool `json:"files_only,omitempty"`
}

type runMessage struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Code      string `json:"code"`
	Fresh     bool   `json:"fresh"`
	TimeoutMS int64  `json:"timeout_ms"`
	GraceMS   int64  `json:"grace_ms"`
	LingerMS  int64  `json:"linger_ms"`
}

type interruptMessage struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

type peekMessage struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

type pingMessage struct {
	Type string `json:"type"`
	N    int    `json:"n"`
}

// incoming is any frame from a supervisor: first its type and id, and then the rest into the
// struct of that type.
type incoming struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

type readyMessage struct {
	Protocol int      `json:"protocol"`
	Language Language `json:"language"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Run      string   `json:"run"` // that goes on, after a take-over
	// Runs are all that go on, fresh ones too, and Over those whose ends come behind this message, the newest last.
	Runs []string `json:"runs"`
	Over []string `json:"over"`
}

type progressMessage struct {
	ElapsedMS   int64  `json:"elapsed_ms"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
	LastLine    string `json:"last_line"`
}

type displayMessage struct {
	Data      map[string]json.RawMessage `json:"data"`
	Path      string                     `json:"path"`
	SizeBytes int64                      `json:"size_bytes"`
	Alt       string                     `json:"alt"`
}

type streamMessage struct {
	Head         string `json:"head"`
	Tail         string `json:"tail"`
	Bytes        int64  `json:"bytes"`
	Lines        int64  `json:"lines"`
	OmittedBytes int64  `json:"omitted_bytes"`
	OmittedLines int64  `json:"omitted_lines"`
	Path         string `json:"path"`
}

type peekAnswer struct {
	ID        string        `json:"id"`
	Stdout    streamMessage `json:"stdout"`
	Stderr    streamMessage `json:"stderr"`
	ElapsedMS int64         `json:"elapsed_ms"`
}

type errorMessage struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

type artifactMessage struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	ModifiedMS int64  `json:"modified_ms"`
}

type doneMessage struct {
	Status         string            `json:"status"`
	ExitCode       int               `json:"exit_code"`
	Result         *string           `json:"result"`
	Error          *errorMessage     `json:"error"`
	Stdout         streamMessage     `json:"stdout"`
	Stderr         streamMessage     `json:"stderr"`
	Artifacts      []artifactMessage `json:"artifacts"`
	ArtifactsTotal int               `json:"artifacts_total"`
	DisplaysTotal  int               `json:"displays_total"`
	DurationMS     float64           `json:"duration_ms"`
	Cause          string            `json:"cause"`
	Kernel         string            `json:"kernel"`
	Background     []struct {
		Path         string `json:"path"`
		Text         string `json:"text"`
		OmittedBytes int64  `json:"omitted_bytes"`
	} `json:"background"`
	GoesOn []string `json:"goes_on"`
}

type kernelMessage struct {
	State string `json:"state"`
	Cause string `json:"cause"`
}

type logMessage struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}
