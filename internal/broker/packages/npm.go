package packages

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const abbreviated = "application/vnd.npm.install-v1+json"

// packument is what a registry says of a package. Only what is judged and changed is parsed.
type packument struct {
	fields   map[string]json.RawMessage
	tags     map[string]string
	versions map[string]json.RawMessage
	dist     map[string]npmDist
	times    map[string]time.Time
}

type npmDist struct {
	Tarball   string `json:"tarball"`
	Integrity string `json:"integrity"`
	Shasum    string `json:"shasum"`
}

func parsePackument(_ *http.Response, body []byte) (any, error) {
	p := &packument{}
	if err := json.Unmarshal(body, &p.fields); err != nil {
		return nil, err
	}
	var times map[string]any // of a package that was taken away, one is an object
	for name, into := range map[string]any{"dist-tags": &p.tags, "versions": &p.versions, "time": &times} {
		if field := p.fields[name]; field != nil {
			if err := json.Unmarshal(field, into); err != nil {
				return nil, err
			}
		}
		delete(p.fields, name)
	}
	p.dist, p.times = make(map[string]npmDist, len(p.versions)), make(map[string]time.Time, len(times))
	for number, manifest := range p.versions {
		var m struct {
			Dist npmDist `json:"dist"`
		}
		if err := json.Unmarshal(manifest, &m); err != nil {
			return nil, err
		}
		p.dist[number] = m.Dist
	}
	for number, at := range times {
		s, _ := at.(string)
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			p.times[number] = t
		}
	}
	return p, nil
}

// serveNPM answers below /npm/: NAME, NAME/VERSION and NAME/-/FILE.tgz, where NAME may be @SCOPE/NAME.
func (h *Handler) serveNPM(x *exchange, rest string) error {
	if strings.HasPrefix(rest, "-/npm/v1/security/") {
		// What is asked for here is no package. npm prints an error where there is no answer, and says nothing of an empty one.
		_, _ = io.Copy(io.Discard, io.LimitReader(x.r.Body, maxPage))
		x.send(http.StatusOK, "application/json", []byte("{}"))
		return nil
	}
	parts := strings.Split(rest, "/")
	name := parts[0]
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		name, parts = parts[0]+"/"+parts[1], parts[1:]
	}
	parts = parts[1:]
	if _, ok := NPM.normalise(name); !ok || name == "-" || x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return nothingHere(x.r.Method + " " + x.r.URL.Path)
	}
	if f := h.policy.checkName(NPM, name); f != nil {
		return f
	}
	switch {
	case len(parts) == 0 || len(parts) == 1 && parts[0] == "":
		return h.packument(x, name)
	case len(parts) == 1:
		return h.manifest(x, name, parts[0])
	case len(parts) == 2 && parts[0] == "-":
		return h.tarball(x, name, parts[1])
	}
	return nothingHere(x.r.URL.Path)
}

// ask returns what the registry says of a package: all of it, or what an installation needs, where that is enough for
// the policy: only all of it tells when versions were published.
func (h *Handler) ask(x *exchange, name string, all bool) (*packument, error) {
	accept := abbreviated + ", application/json;q=0.5"
	if all || h.policy.rules.MinAge > 0 {
		accept = "application/json"
	}
	address := h.npm.base.JoinPath(name)
	address.RawPath = h.npm.base.EscapedPath() + strings.Replace(name, "/", "%2f", 1)
	parsed, err := h.page(x, h.npm, address, accept, parsePackument)
	if err != nil {
		return nil, err
	}
	return parsed.(*packument), nil
}

func (h *Handler) checkNPM(p *packument, name, number string) *fault.Error {
	if f := h.policy.checkVersion(NPM, name, number); f != nil {
		return f
	}
	return h.policy.checkAge(name+" "+number, p.times[number], h.now())
}

// packument answers with what the policy leaves of a package. Refused versions are where npm looks for those: it takes
// them last, and prints the message instead of installing one.
func (h *Handler) packument(x *exchange, name string) error {
	all := !strings.Contains(x.r.Header.Get("Accept"), abbreviated)
	p, err := h.ask(x, name, all)
	if err != nil {
		return err
	}
	allowed, refused := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	messages := make(map[any]string) // one of each rule
	for _, number := range p.newestFirst() {
		manifest, err := rewrite(p.versions[number], p.tarballAt(x, name, number))
		if err != nil {
			return failed(h.npm.base.Host, "its page is not one of a registry").Because(err)
		}
		f := h.checkNPM(p, name, number)
		if f == nil {
			allowed[number] = manifest
			continue
		}
		refused[number] = manifest
		if setting := f.Fields["setting"]; messages[setting] == "" {
			messages[setting] = f.Error()
		}
	}
	fields := maps.Clone(p.fields)
	set := func(field string, value any) {
		fields[field], err = json.Marshal(value)
	}
	set("versions", allowed)
	set("dist-tags", p.tagsOf(allowed))
	if len(p.times) > 0 {
		times := maps.Clone(p.times)
		maps.DeleteFunc(times, func(number string, _ time.Time) bool { return refused[number] != nil })
		set("time", times)
	}
	if len(refused) > 0 {
		set("policyRestrictions", map[string]any{
			"message": strings.Join(slices.Sorted(maps.Values(messages)), "\n"), "versions": refused,
		})
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	kind := abbreviated
	if all || h.policy.rules.MinAge > 0 {
		kind = "application/json"
	}
	x.send(http.StatusOK, kind, body)
	return nil
}

// newestFirst returns the versions, the highest first, and last those whose numbers cannot be read.
func (p *packument) newestFirst() []string {
	type numbered struct {
		text   string
		number semver.Version
	}
	all := make([]numbered, 0, len(p.versions))
	for text := range p.versions {
		number, _ := semver.Parse(text)
		all = append(all, numbered{text, number})
	}
	slices.SortFunc(all, func(a, b numbered) int { return b.number.Compare(a.number) })
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = n.text
	}
	return texts
}

// tagsOf returns the tags of versions that are allowed. The tag latest goes to the highest version below the one that had
// it, or else to the highest there is, and to one before its release only where there is no other.
func (p *packument) tagsOf(allowed map[string]json.RawMessage) map[string]string {
	tags := maps.Clone(p.tags)
	maps.DeleteFunc(tags, func(_, number string) bool { return allowed[number] == nil })
	latest, had := p.tags["latest"]
	if _, still := tags["latest"]; still || !had || len(allowed) == 0 {
		return tags
	}
	most, _ := semver.Parse(latest)
	best, score := "", -1
	for _, text := range p.newestFirst() {
		number, err := semver.Parse(text)
		if allowed[text] == nil || err != nil {
			continue
		}
		of := 0
		if len(number.Pre) == 0 {
			of += 2
		}
		if number.LT(most) {
			of++
		}
		if of > score {
			best, score = text, of
		}
	}
	if best != "" {
		tags["latest"] = best
	}
	return tags
}

// tarballAt is the address of a tarball here.
func (p *packument) tarballAt(x *exchange, name, number string) string {
	here := url.URL{Scheme: "http", Host: x.r.Host, Path: "/npm/" + name + "/-/" + path.Base(name) + "-" + number + ".tgz"}
	return here.String()
}

// rewrite puts another address into a manifest.
func rewrite(manifest json.RawMessage, tarball string) (json.RawMessage, error) {
	var fields, dist map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["dist"], &dist); err != nil {
		return nil, fmt.Errorf("dist: %w", err)
	}
	var err error
	if dist["tarball"], err = json.Marshal(tarball); err != nil {
		return nil, err
	}
	if fields["dist"], err = json.Marshal(dist); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// manifest answers with one version, by its number or a tag.
func (h *Handler) manifest(x *exchange, name, asked string) error {
	p, err := h.ask(x, name, false)
	if err != nil {
		return err
	}
	number := asked
	if tagged, ok := p.tags[asked]; ok {
		number = tagged
	}
	if p.versions[number] == nil {
		return fault.New(fault.NotFound, "", "%s has no version or tag %s", name, clip(asked))
	}
	if f := h.checkNPM(p, name, number); f != nil {
		return f
	}
	manifest, err := rewrite(p.versions[number], p.tarballAt(x, name, number))
	if err != nil {
		return failed(h.npm.base.Host, "its page is not one of a registry").Because(err)
	}
	x.send(http.StatusOK, "application/json", manifest)
	return nil
}

// tarball answers with the file of a version that the registry lists.
func (h *Handler) tarball(x *exchange, name, file string) error {
	number, ok := strings.CutPrefix(strings.TrimSuffix(file, ".tgz"), path.Base(name)+"-")
	p, err := h.ask(x, name, false)
	if err != nil {
		return err
	}
	dist, listed := p.dist[number]
	if !ok || !listed || !strings.HasSuffix(file, ".tgz") {
		return fault.New(fault.NotFound, "", "%s has no file %s", name, clip(file))
	}
	if f := h.checkNPM(p, name, number); f != nil {
		return f
	}
	address, err := h.npm.base.Parse(dist.Tarball)
	if err != nil || dist.Tarball == "" {
		return failed(h.npm.base.Host, "it does not say where "+file+" is")
	}
	return h.file(x, h.npm, wanted{name: file, address: address, digest: dist.digest(), size: -1})
}

func (d npmDist) digest() digest {
	sums := map[string]string{"sha1": d.Shasum}
	for part := range strings.FieldsSeq(d.Integrity) {
		algorithm, sum, _ := strings.Cut(part, "-")
		sum, _, _ = strings.Cut(sum, "?") // what follows are options, of which there are none yet
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			sums[algorithm] = hex.EncodeToString(raw)
		}
	}
	return strongest(sums)
}
