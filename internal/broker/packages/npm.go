package packages

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const abbreviated = "application/vnd.npm.install-v1+json"

// serveNPM answers below /npm/: NAME, NAME/VERSION and NAME/-/FILE.tgz, where NAME may be @SCOPE/NAME.
func (h *Handler) serveNPM(x *reply, rest string) error {
	if strings.HasPrefix(rest, "-/npm/v1/security/") {
		// This request is for no package. npm prints an error if it gets no answer, and says nothing of an empty one.
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

// ask returns the registry's data on a package: all of it, or the part that an installation needs, if the policy can do with that: only all
// of it tells when versions were published.
func (h *Handler) ask(x *reply, name string, all bool) (*packument, error) {
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

// packument answers with the versions of a package that the policy allows. Refused versions stand in the policyRestrictions: npm takes those
// last, and prints the message instead of installing one.
func (h *Handler) packument(x *reply, name string) error {
	all := !strings.Contains(x.r.Header.Get("Accept"), abbreviated)
	p, err := h.ask(x, name, all)
	if err != nil {
		return err
	}
	allowed, messages := make(map[string]bool), make(map[any]string) // a message of each rule
	for number := range p.numbers {
		f := h.checkNPM(p, name, number)
		allowed[number] = f == nil
		if f != nil && messages[f.Fields["setting"]] == "" {
			messages[f.Fields["setting"]] = f.Error()
		}
	}
	kind := abbreviated
	if all || h.policy.rules.MinAge > 0 {
		kind = "application/json"
	}
	x.stream(kind, func(out *bufio.Writer) { p.write(out, x, name, allowed, messages) })
	return nil
}

// tarballAt is the address of a tarball here.
func tarballAt(x *reply, name, number string) string {
	here := url.URL{Scheme: "http", Host: x.r.Host, Path: "/npm/" + name + "/-/" + path.Base(name) + "-" + number + ".tgz"}
	return here.String()
}

// manifest answers with one version, by its number or a tag.
func (h *Handler) manifest(x *reply, name, asked string) error {
	p, err := h.ask(x, name, false)
	if err != nil {
		return err
	}
	number := asked
	if tagged, ok := p.tags[asked]; ok {
		number = tagged
	}
	if !p.numbers[number] {
		return fault.New(fault.NotFound, "", "%s has no version or tag %s", name, clip(asked))
	}
	if f := h.checkNPM(p, name, number); f != nil {
		return f
	}
	manifest, _ := p.find(number, tarballAt(x, name, number))
	x.send(http.StatusOK, "application/json", manifest)
	return nil
}

// tarball answers with the file of a version that the registry lists.
func (h *Handler) tarball(x *reply, name, file string) error {
	number, ok := strings.CutPrefix(strings.TrimSuffix(file, ".tgz"), path.Base(name)+"-")
	p, err := h.ask(x, name, false)
	if err != nil {
		return err
	}
	if !ok || !p.numbers[number] || !strings.HasSuffix(file, ".tgz") {
		return fault.New(fault.NotFound, "", "%s has no file %s", name, clip(file))
	}
	if f := h.checkNPM(p, name, number); f != nil {
		return f
	}
	manifest, tarball := p.find(number, "")
	var m struct{ Dist npmDist }
	address, err := h.npm.base.Parse(tarball)
	if err != nil || tarball == "" || json.Unmarshal(manifest, &m) != nil {
		return failed(h.npm.base.Host, "it does not say where "+file+" is")
	}
	return h.file(x, h.npm, wanted{name: file, address: address, digest: m.Dist.digest(), size: -1})
}

func (d npmDist) digest() digest {
	sums := map[string]string{"sha1": d.Shasum}
	for part := range strings.FieldsSeq(d.Integrity) {
		algorithm, sum, _ := strings.Cut(part, "-")
		sum, _, _ = strings.Cut(sum, "?") // options follow, and npm defines none yet
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			sums[algorithm] = hex.EncodeToString(raw)
		}
	}
	return strongest(sums)
}
