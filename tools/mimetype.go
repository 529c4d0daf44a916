package tools

import (
	"mime"
	"path"
	"strings"
)

// mimeTypes has the names that data work makes and that the mime package does not know on every
// machine; it asks the host's own tables, so these make the answer the same everywhere.
var mimeTypes = map[string]string{
	".bmp":     "image/bmp",
	".csv":     "text/csv",
	".docx":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".geojson": "application/geo+json",
	".gz":      "application/gzip",
	".ipynb":   "application/x-ipynb+json",
	".jsonl":   "application/jsonl",
	".log":     "text/plain",
	".md":      "text/markdown",
	".mp3":     "audio/mpeg",
	".mp4":     "video/mp4",
	".npy":     "application/x-npy",
	".parquet": "application/vnd.apache.parquet",
	".pptx":    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".py":      "text/x-python",
	".sqlite":  "application/vnd.sqlite3",
	".tar":     "application/x-tar",
	".ts":      "text/typescript",
	".tsv":     "text/tab-separated-values",
	".txt":     "text/plain",
	".wav":     "audio/wav",
	".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".yaml":    "application/yaml",
	".yml":     "application/yaml",
	".zip":     "application/zip",
}

// mimeType tells a file's type by its name, without parameters.
func mimeType(name string) string {
	ext := strings.ToLower(path.Ext(name))
	if t, ok := mimeTypes[ext]; ok {
		return t
	}
	t, _, _ := strings.Cut(mime.TypeByExtension(ext), ";")
	if t == "" {
		return "application/octet-stream"
	}
	return t
}
