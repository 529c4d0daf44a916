package packages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// wheels answers as an index (PEP 691) with a folder's files, which it looks through for each page. It reads nothing outside the folder.
type wheels struct{ *os.Root }

// newWheels makes an index of a folder of this machine.
func newWheels(dir string) (*index, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--wheels is no folder that can be read: %w", err)
	}
	x, err := newIndex(PyPI, pypiSetting, "https://pypi.internal/simple/")
	if err == nil {
		x.sites, x.trusted.Transport = x.sites[:1], wheels{root}
	}
	return x, err
}

// CountWheels returns how many distributions of Python packages a folder has.
func CountWheels(dir string) (count int, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if namesIn(entry.Name()) != nil {
			count++
		}
	}
	return count, err
}

// RoundTrip implements http.RoundTripper.
func (w wheels) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: make(http.Header), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	name := path.Base(r.URL.Path)
	var err error
	if strings.HasSuffix(r.URL.Path, "/") {
		response.Body, err = w.page(name)
		response.Header.Set("Content-Type", simpleJSON)
	} else {
		response.Body, err = w.Open(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		response.StatusCode, response.Status, response.Body, err = http.StatusNotFound, "404 Not Found", http.NoBody, nil
	case err != nil:
		return nil, fmt.Errorf("the folder of --wheels: %w", err)
	}
	return response, err
}

// page lists a package's files. They have no hashes, which would read all of them each time.
func (w wheels) page(name string) (io.ReadCloser, error) {
	entries, err := fs.ReadDir(w.FS(), ".")
	if err != nil {
		return nil, err
	}
	page := struct {
		Meta  map[string]string `json:"meta"`
		Name  string            `json:"name"`
		Files []map[string]any  `json:"files"`
	}{map[string]string{"api-version": "1.1"}, name, nil}
	for _, entry := range entries {
		if info, err := fs.Stat(w.FS(), entry.Name()); err == nil && info.Mode().IsRegular() && slices.Contains(namesIn(entry.Name()), name) {
			page.Files = append(page.Files, map[string]any{
				"filename": entry.Name(), "url": url.PathEscape(entry.Name()), "hashes": struct{}{}, "size": info.Size(),
				"upload-time": info.ModTime().UTC().Format(time.RFC3339),
			})
		}
	}
	if page.Files == nil {
		return nil, fs.ErrNotExist
	}
	var body bytes.Buffer
	err = json.NewEncoder(&body).Encode(page)
	return io.NopCloser(&body), err
}
