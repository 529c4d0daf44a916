package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The frames of the files program (docs/kernel-protocol.md): a JSON header and bytes as they are.

const (
	maxFilesHeader = 1 << 20 // from the program
	maxFilesBlob   = 1 << 20
	filesChunk     = 256 << 10 // what the server sends in one frame
)

var errFilesFrame = errors.New("a frame of the files program breaks the protocol")

type filesRequest struct {
	Op         string `json:"op"`
	WorkDir    string `json:"work_dir,omitempty"`
	Path       string `json:"path,omitempty"`
	Target     string `json:"target,omitempty"`
	Overwrite  bool   `json:"overwrite,omitempty"`
	LimitBytes int64  `json:"limit_bytes,omitempty"`
	LimitFiles int64  `json:"limit_files,omitempty"`
	Mode       uint32 `json:"mode,omitempty"`
	ModifiedMS int64  `json:"modified_ms,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Limit      int64  `json:"limit,omitempty"`
	Unit       string `json:"unit,omitempty"`
	MaxBytes   int64  `json:"max_bytes,omitempty"`
	Everything bool   `json:"everything,omitempty"`
	Exact      bool   `json:"exact,omitempty"`
}

// filesAnswer is any frame from the program.
type filesAnswer struct {
	OK         bool                `json:"ok"`
	Data       bool                `json:"data"`
	End        bool                `json:"end"`
	Error      *filesError         `json:"error"`
	Path       string              `json:"path"`
	SizeBytes  int64               `json:"size_bytes"`
	ModifiedMS int64               `json:"modified_ms"`
	Entries    [][]json.RawMessage `json:"entries"`
	Bytes      int64               `json:"bytes"`
	Files      int64               `json:"files"`
	FirstLine  int64               `json:"first_line"`
	Lines      int64               `json:"lines"`
	Complete   bool                `json:"complete"`
	Changed    bool                `json:"changed"`
	Skipped    int64               `json:"skipped"`
}

type filesError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	SizeBytes int64  `json:"size_bytes"`
}

// writeFilesFrame writes the header and the blob, in one Write where there is no blob to copy.
func writeFilesFrame(w io.Writer, header filesRequest, blob []byte) error {
	body, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	frame := make([]byte, 8, 8+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	binary.BigEndian.PutUint32(frame[4:], uint32(len(blob)))
	if _, err := w.Write(append(frame, body...)); err != nil || len(blob) == 0 {
		return err
	}
	_, err = w.Write(blob)
	return err
}

// readFilesFrame reads one frame. The blob is read into room where that is large enough.
func readFilesFrame(r io.Reader, room []byte) (filesAnswer, []byte, error) {
	var answer filesAnswer
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return answer, nil, err
	}
	header, blob := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if header > maxFilesHeader || blob > maxFilesBlob {
		return answer, nil, fmt.Errorf("%w: %d and %d bytes", errFilesFrame, header, blob)
	}
	body := make([]byte, header)
	if _, err := io.ReadFull(r, body); err != nil {
		return answer, nil, err
	}
	if err := checkShape(body); err != nil {
		return answer, nil, fmt.Errorf("%w: %w", errFilesFrame, err)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, nil, fmt.Errorf("%w: %w", errFilesFrame, err)
	}
	if int(blob) > cap(room) {
		room = make([]byte, blob)
	}
	room = room[:blob]
	_, err := io.ReadFull(r, room)
	return answer, room, err
}
