package content

import (
	"bytes"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// mimeTypes maps the endings that data work uses and that the mime package does not know on every machine; it asks the host's own tables, so
// these make the answer the same everywhere.
var mimeTypes = map[string]string{
	".bmp":     "image/bmp",
	".csv":     "text/csv",
	".arrow":   "application/vnd.apache.arrow.file",
	".db":      "application/vnd.sqlite3",
	".doc":     "application/msword",
	".docx":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".duckdb":  "application/vnd.duckdb",
	".eml":     Letter,
	".epub":    "application/epub+zip",
	".feather": "application/vnd.apache.arrow.file",
	".geojson": "application/geo+json",
	".gz":      "application/gzip",
	".ipynb":   Notebook,
	".jsonl":   "application/jsonl",
	".log":     "text/plain",
	".mbox":    "application/mbox",
	".md":      "text/markdown",
	".mp3":     "audio/mpeg",
	".mp4":     "video/mp4",
	".msg":     "application/vnd.ms-outlook",
	".npy":     "application/x-npy",
	".odg":     "application/vnd.oasis.opendocument.graphics",
	".odp":     "application/vnd.oasis.opendocument.presentation",
	".ods":     "application/vnd.oasis.opendocument.spreadsheet",
	".odt":     "application/vnd.oasis.opendocument.text",
	".otg":     "application/vnd.oasis.opendocument.graphics-template",
	".otp":     "application/vnd.oasis.opendocument.presentation-template",
	".ots":     "application/vnd.oasis.opendocument.spreadsheet-template",
	".ott":     "application/vnd.oasis.opendocument.text-template",
	".parquet": "application/vnd.apache.parquet",
	".ppt":     "application/vnd.ms-powerpoint",
	".pptx":    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".py":      "text/x-python",
	".rtf":     "text/rtf",
	".sqlite":  "application/vnd.sqlite3",
	".tar":     "application/x-tar",
	".ts":      "text/typescript",
	".tsv":     "text/tab-separated-values",
	".txt":     "text/plain",
	".wav":     "audio/wav",
	".xls":     "application/vnd.ms-excel",
	".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".yaml":    "application/yaml",
	".yml":     "application/yaml",
	".zip":     "application/zip",

	// Stata, SPSS, SAS
	".dta": "application/x-stata-dta", ".sav": "application/x-spss-sav", ".zsav": "application/x-spss-sav",
	".sas7bdat": "application/x-sas-data", ".xpt": "application/x-sas-xport",
}

// The types of texts that contain other text: Jupyter's notebooks, and letters as they are sent.
const (
	Notebook = "application/x-ipynb+json"
	Letter   = "message/rfc822"
)

// IsDocument reports whether people read the text of a file of a type, and not the file: office documents, PDFs, books, letters, and
// files of data, whose first rows they look at.
func IsDocument(mime string) bool {
	switch mime {
	case "application/pdf", "application/vnd.ms-excel", "application/x-ole-storage", Letter, mimeTypes[".epub"], mimeTypes[".rtf"], mimeTypes[".mbox"],
		mimeTypes[".doc"], mimeTypes[".ppt"], mimeTypes[".msg"], mimeTypes[".parquet"], mimeTypes[".arrow"], mimeTypes[".duckdb"], mimeTypes[".sqlite"],
		mimeTypes[".dta"], mimeTypes[".sav"], mimeTypes[".sas7bdat"], mimeTypes[".xpt"]:
		return true
	}
	return strings.HasPrefix(mime, "application/vnd.openxmlformats-officedocument.") || strings.HasPrefix(mime, "application/vnd.oasis.opendocument.")
}

// TypeByName is a file's MIME type by its name, without parameters.
func TypeByName(name string) string {
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

// SniffBytes is how much of a file's beginning shows its type.
const SniffBytes = 3072

// Detected is the type of a file by its content.
type Detected struct {
	MIME   string // without parameters
	IsText bool
	// Image is the MIME type of a format that every client shows, or empty.
	Image string
}

// Detect finds a file's type by its first SniffBytes. The name decides only between types that look
// the same from within, such as a table and other text.
func Detect(head []byte, name string) Detected {
	found := mimetype.Detect(head)
	d := Detected{MIME: bare(found.String())}
	for m := found; m != nil; m = m.Parent() {
		d.IsText = d.IsText || m.Is("text/plain")
		for _, image := range ImageTypes {
			if m.Is(image) {
				d.Image = image
			}
		}
	}
	if len(head) == 0 {
		d.IsText = true
	}
	if byName := TypeByName(name); d.allows(byName, head) {
		d.MIME = byName
	}
	return d
}

// allows reports whether a file that looks like d can be of the type that its name says.
func (d Detected) allows(byName string, head []byte) bool {
	switch {
	case byName == "application/octet-stream":
		return false
	case len(head) == 0:
		return true
	case d.MIME == "text/plain" && strings.HasSuffix(byName, "json"): // cut in the middle, it is seldom found to be so
		begin := bytes.TrimSpace(head)
		return len(begin) > 0 && (begin[0] == '{' || begin[0] == '[')
	case d.MIME == "text/plain", d.MIME == Letter: // other texts begin with lines as letters do
		return looksLikeText(byName)
	case d.MIME == "application/json":
		return strings.HasSuffix(byName, "json")
	case d.MIME == "application/zip", d.MIME == "application/java-archive": // the first file in one may not show which document it is
		return byName == mimeTypes[".epub"] || strings.Contains(byName, "opendocument.") || strings.Contains(byName, "-officedocument.")
	case d.MIME == "application/x-ole-storage":
		return slices.Contains([]string{mimeTypes[".doc"], mimeTypes[".msg"], mimeTypes[".ppt"], mimeTypes[".xls"]}, byName)
	case d.MIME == "application/octet-stream":
		// If the content would show this type and did not, the name is wrong.
		return mimetype.Lookup(byName) == nil
	}
	return false
}

// looksLikeText names the types that only their names distinguish from plain text.
func looksLikeText(mime string) bool {
	if strings.HasPrefix(mime, "text/") {
		return true
	}
	switch mime {
	case Letter, mimeTypes[".mbox"], "application/jsonl", "application/yaml", "application/javascript", "application/sql", "application/toml", "application/x-sh":
		return true
	}
	return false
}

// bare is a MIME type without its parameters.
func bare(mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.TrimSpace(mime)
}
