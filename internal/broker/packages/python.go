package packages

import (
	"bufio"
	"io"
	"net/http"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// servePython answers below /pypi/: simple/NAME/, files/NAME/FILE and files/NAME/FILE.metadata.
func (h *Handler) servePython(x *reply, rest string) error {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return nothingHere(x.r.Method + " " + x.r.URL.Path)
	}
	parts := strings.Split(rest, "/")
	switch {
	case rest == "simple" || rest == "simple/":
		x.send(http.StatusOK, "text/plain; charset=utf-8", []byte("This is the package index of a sandbox. It lists no names; ask for /pypi/simple/NAME/.\n"))
		return nil
	case parts[0] == "simple" && len(parts) == 2:
		if name, ok := PyPI.normalise(parts[1]); ok {
			http.Redirect(x, x.r, name+"/", http.StatusMovedPermanently)
			return nil
		}
	case parts[0] == "simple" && len(parts) == 3 && parts[2] == "":
		x.isPage = true
		return h.simple(x, parts[1])
	case parts[0] == "files" && len(parts) == 3:
		return h.pythonFile(x, parts[1], parts[2])
	}
	return nothingHere(x.r.URL.Path)
}

// pythonPage returns the index's page of a package, named in any spelling.
func (h *Handler) pythonPage(x *reply, said string) (page pythonPage, err error) {
	name, ok := PyPI.normalise(said)
	if !ok {
		return page, fault.New(fault.NotFound, "", "%s is not the name of a package", clip(said))
	}
	if f := h.policy.checkName(PyPI, name); f != nil {
		return page, f
	}
	accept := simpleJSON + ", " + simpleHTML + ";q=0.2, text/html;q=0.1"
	parsed, err := h.page(x, h.pypi, h.pypi.base.JoinPath(name+"/"), accept, func(response *http.Response, body io.Reader, into *packer) (any, error) {
		return parseSimple(name, response, body, into)
	})
	if err != nil {
		return page, err
	}
	return parsed.(pythonPage), nil
}

func (h *Handler) simple(x *reply, said string) error {
	page, err := h.pythonPage(x, said)
	if err != nil {
		return err
	}
	// Resolvers for several systems need the page; pip would say no more than that it finds no version.
	if platform := page.elsewhere(); platform != "" && isPip(x.r) {
		return fault.New(fault.DownloadFailed, "Use another package.", "%s: its wheels are for other systems alone (%s), and this is Linux",
			page.name, clip(platform))
	}
	kind, write := "text/html; charset=utf-8", h.writeHTML
	if wantsJSON(x.r.Header.Get("Accept")) {
		kind, write = simpleJSON, h.writeJSON
	}
	o := h.overview(page)
	x.why = o.why()
	x.stream(kind, func(out *bufio.Writer) { write(out, page, o, isPip(x.r)) })
	return nil
}

// elsewhere returns the platform of a package that is for other systems alone, and otherwise nothing.
func (p pythonPage) elsewhere() (platform string) {
	for f := range p.files() {
		if !f.elsewhere() {
			return ""
		}
		platform = f.platform
	}
	return platform
}

// checkPythonFile is the verdict on one file of a package that is allowed.
func (h *Handler) checkPythonFile(name string, f pythonFile) *fault.Error {
	if refused := h.policy.checkVersion(PyPI, name, f.version); refused != nil {
		return refused
	}
	if refused := h.policy.checkAge(f.name, f.uploaded, h.now()); refused != nil {
		return refused
	}
	if !f.wheel {
		if refused := h.policy.checkSdist(f.name); refused != nil {
			return refused
		}
	}
	return h.policy.checkSize(f.name, f.size)
}

// pythonFile answers with a file that the page of its package lists; there is no other way to name one.
func (h *Handler) pythonFile(x *reply, said, filename string) error {
	page, err := h.pythonPage(x, said)
	if err != nil {
		return err
	}
	whole, isMetadata := strings.CutSuffix(filename, ".metadata")
	for f := range page.files() {
		if f.name != whole || isMetadata && !f.metadata {
			continue
		}
		if refused := h.checkPythonFile(page.name, f); refused != nil {
			return refused
		}
		w := wanted{name: f.name, address: f.address, digest: strongest(f.hashes), size: f.size}
		if isMetadata {
			address := *f.address
			address.Path, address.RawPath = address.Path+".metadata", ""
			w = wanted{name: filename, address: &address, digest: strongest(f.metadataHashes), size: -1}
		}
		return h.file(x, h.pypi, w)
	}
	return fault.New(fault.NotFound, "", "the index does not list the file %s of %s", clip(filename), page.name)
}
