package pypi

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// file is what the index has of a release.
type file struct {
	of                Package
	name              string
	content, metadata []byte // metadata: of a wheel
}

// extra is what a requirement is for, where it is not for all.
var extra = regexp.MustCompile(`extra == "([^"]+)"`)

var runs = regexp.MustCompile(`[-_.]+`)

func normalised(name string) string { return strings.ToLower(runs.ReplaceAllString(name, "-")) }

// build makes the files of a release.
func (p Package) build() (files []file) {
	name, wheel, metadata := p.Wheel()
	if !p.NoWheel {
		files = append(files, file{p, name, wheel, metadata})
	}
	if p.Sdist || p.NoWheel {
		files = append(files, file{of: p, name: p.Name + "-" + p.Version + ".tar.gz", content: p.sdist(name, wheel, metadata)})
	}
	return files
}

// Wheel makes the package's wheel, which runs on every Python 3 unless Tag says otherwise, and returns its name and the METADATA in it too.
func (p Package) Wheel() (name string, content, metadata []byte) {
	stem, tag := runs.ReplaceAllString(p.Name, "_"), cmp.Or(p.Tag, "py3-none-any")
	info := stem + "-" + p.Version + ".dist-info/"
	metadata = p.metadata()
	contents := map[string][]byte{
		info + "METADATA": metadata,
		info + "WHEEL":    []byte("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: " + tag + "\n"),
	}
	if p.Modules == nil {
		contents[strings.ToLower(stem)+".py"] = fmt.Appendf(nil, "__version__ = %q\n", p.Version)
	}
	for module, source := range p.Modules {
		contents[module] = []byte(source)
	}
	if p.Padding > 0 {
		contents[strings.ToLower(stem)+"_padding.txt"] = make([]byte, p.Padding)
	}
	var record strings.Builder
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		sum := sha256.Sum256(contents[name])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(contents[name]))
	}
	contents[info+"RECORD"] = []byte(record.String() + info + "RECORD,,\n")

	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		head := &zip.FileHeader{Name: name, Method: zip.Store}
		head.SetMode(0o644)
		if strings.Contains(name, ".data/scripts/") {
			head.SetMode(0o755)
		}
		w, _ := z.CreateHeader(head) // a buffer takes everything
		_, _ = w.Write(contents[name])
	}
	_ = z.Close()
	return stem + "-" + p.Version + "-" + tag + ".whl", b.Bytes(), metadata
}

func (p Package) metadata() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Metadata-Version: 2.1\nName: %s\nVersion: %s\n", p.Name, p.Version)
	if p.RequiresPython != "" {
		fmt.Fprintf(&b, "Requires-Python: %s\n", p.RequiresPython)
	}
	for _, r := range p.Requires {
		fmt.Fprintf(&b, "Requires-Dist: %s\n", r)
		if found := extra.FindStringSubmatch(r); found != nil {
			fmt.Fprintf(&b, "Provides-Extra: %s\n", found[1])
		}
	}
	return b.Bytes()
}

// sdist makes a source distribution that builds without anything but Python: its backend hands out the wheel that it has.
func (p Package) sdist(wheelName string, wheel, metadata []byte) []byte {
	contents := map[string][]byte{
		"PKG-INFO":       metadata,
		"pyproject.toml": []byte("[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"),
		"backend.py": fmt.Appendf(nil, `import pathlib, shutil
def build_wheel(folder, config_settings=None, metadata_directory=None):
    shutil.copy(pathlib.Path(__file__).parent / %[1]q, folder)
    return %[1]q
`, wheelName),
		wheelName: wheel,
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		_ = t.WriteHeader(&tar.Header{Name: p.Name + "-" + p.Version + "/" + name, Mode: 0o644, Size: int64(len(contents[name]))})
		_, _ = t.Write(contents[name])
	}
	_, _ = t.Close(), z.Close()
	return b.Bytes()
}

// sum is the hash that the index tells of a file, which is "" where it tells none.
func (f file) sum(content []byte) string {
	if f.of.NoHash {
		return ""
	}
	if f.of.WrongHash {
		content = append([]byte("not "), content...)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (f file) address() string {
	if f.of.Elsewhere != "" {
		return f.of.Elsewhere + f.name
	}
	return "../../files/" + f.name
}

// pageOf writes the page of a package, and returns its content type too.
func pageOf(name string, files []file, form Form) ([]byte, string) {
	if form == HTML {
		return htmlOf(files), "text/html; charset=utf-8"
	}
	version := "1.0"
	if form == JSON {
		version = "1.1"
	}
	listed, versions := make([]map[string]any, 0), make([]string, 0)
	for _, f := range files {
		l := map[string]any{"filename": f.name, "url": f.address(), "hashes": map[string]string{}}
		if sum := f.sum(f.content); sum != "" {
			l["hashes"] = map[string]string{"sha256": sum}
		}
		if f.of.RequiresPython != "" {
			l["requires-python"] = f.of.RequiresPython
		}
		if f.of.Yanked != "" {
			l["yanked"] = f.of.Yanked
		}
		if f.metadata != nil {
			sum := sha256.Sum256(f.metadata)
			l["core-metadata"] = map[string]string{"sha256": hex.EncodeToString(sum[:])}
		}
		if form == JSON && !f.of.Endless {
			l["size"] = len(f.content)
			if f.of.WrongSize {
				l["size"] = len(f.content) / 2
			}
		}
		if form == JSON && !f.of.Uploaded.IsZero() {
			l["upload-time"] = f.of.Uploaded.UTC().Format(time.RFC3339Nano)
		}
		listed = append(listed, l)
		if !slices.Contains(versions, f.of.Version) {
			versions = append(versions, f.of.Version)
		}
	}
	page := map[string]any{"meta": map[string]string{"api-version": version}, "name": name, "files": listed}
	if form == JSON {
		page["versions"] = versions
	}
	body, _ := json.Marshal(page) // of texts and numbers alone
	return body, "application/vnd.pypi.simple.v1+json"
}

func htmlOf(files []file) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html><html><body>\n")
	for _, f := range files {
		address := f.address()
		if sum := f.sum(f.content); sum != "" {
			address += "#sha256=" + sum
		}
		fmt.Fprintf(&b, `<a href="%s"`, html.EscapeString(address))
		if f.of.RequiresPython != "" {
			fmt.Fprintf(&b, ` data-requires-python="%s"`, html.EscapeString(f.of.RequiresPython))
		}
		if f.of.Yanked != "" {
			fmt.Fprintf(&b, ` data-yanked="%s"`, html.EscapeString(f.of.Yanked))
		}
		if f.metadata != nil {
			b.WriteString(` data-core-metadata="true"`)
		}
		fmt.Fprintf(&b, ">%s</a><br>\n", html.EscapeString(f.name))
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}
