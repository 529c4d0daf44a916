//go:build unix

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// fileFields is what upload_file and read_artifact tell of a file.
type fileFields struct {
	SessionID  string `json:"session_id"`
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	SHA256     string `json:"sha256"`
	MIMEType   string `json:"mime_type"`
	Encoding   string `json:"encoding"`
	NextOffset *int64 `json:"next_offset"`
	Artifacts  []struct {
		Path        string `json:"path"`
		SizeBytes   int64  `json:"size_bytes"`
		MIMEType    string `json:"mime_type"`
		DownloadURL string `json:"download_url"`
	} `json:"artifacts"`
	DownloadURL string `json:"download_url"`
	UploadURL   string `json:"upload_url"`
	LimitBytes  int64  `json:"limit_bytes"`
	Total       int    `json:"total"`
}

// fields decodes the fields of an answer that must not be an error.
func (r toolResult) fields(t *testing.T) (f fileFields) {
	t.Helper()
	if r.IsError {
		t.Fatalf("refused:\n%s", r.text())
	}
	decode(t, r.StructuredContent, &f)
	return f
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}
