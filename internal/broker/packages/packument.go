package packages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
)

// packument is a registry's data on a package. Only the fields that the policy judges are parsed.
type packument struct {
	fields    map[string]json.RawMessage // but those below
	tags      map[string]string
	numbers   map[string]bool // of the versions
	manifests packed          // for each version its number, its manifest up to the tarball's address, and that address
	times     map[string]time.Time
}

type npmDist struct {
	Integrity string `json:"integrity"`
	Shasum    string `json:"shasum"`
}

func parsePackument(_ *http.Response, body io.Reader, into *packer) (any, error) {
	p := &packument{fields: make(map[string]json.RawMessage), numbers: make(map[string]bool), times: make(map[string]time.Time)}
	v := readValues(body)
	err := v.object(func(name string) error {
		switch name {
		case "versions":
			return v.object(func(number string) error { return p.addVersion(v, number, into) })
		case "dist-tags":
			return v.into(&p.tags)
		case "time":
			return p.addTimes(v, into)
		}
		field, err := v.raw()
		p.fields[name] = field
		return errors.Join(err, into.spend(len(name)+len(field)+mapEntry))
	})
	if err == nil {
		err = v.end()
	}
	for tag, number := range p.tags {
		err = errors.Join(err, into.spend(len(tag)+len(number)+mapEntry))
	}
	p.manifests = into.close()
	return p, err
}

func (p *packument) addVersion(v *values, number string, into *packer) error {
	manifest, err := v.raw()
	if err != nil {
		return err
	}
	head, tarball, err := cutTarball(manifest)
	if err == nil && p.numbers[number] {
		err = errors.New("a version that is listed twice")
	}
	if err != nil {
		return err
	}
	p.numbers[number] = true
	return errors.Join(into.list(), into.spend(len(number)), into.add([]byte(number), head, []byte(tarball)))
}

func (p *packument) addTimes(v *values, into *packer) error {
	var times map[string]any // of a package that was taken away, one is an object
	if err := v.into(&times); err != nil {
		return err
	}
	for number, at := range times {
		s, _ := at.(string)
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			p.times[number] = t
		}
	}
	return into.spend(len(p.times) * 2 * mapEntry)
}

// cutTarball returns a manifest up to where the tarball's address belongs, and that address. Behind another one, the
// manifest ends by tarballEnd.
func cutTarball(manifest json.RawMessage) (head []byte, tarball string, err error) {
	var fields, dist map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &fields); err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(fields["dist"], &dist); err != nil {
		return nil, "", fmt.Errorf("dist: %w", err)
	}
	if address := dist["tarball"]; address != nil {
		err = json.Unmarshal(address, &tarball)
	}
	delete(fields, "dist")
	delete(dist, "tarball")
	outer, failed := json.Marshal(fields)
	inner, failedToo := json.Marshal(dist)
	return slices.Concat(openEnded(outer), []byte(`"dist":`), openEnded(inner), []byte(`"tarball":`)), tarball, errors.Join(err, failed, failedToo)
}

const tarballEnd = "}}"

// openEnded is a JSON object to which a member can be added.
func openEnded(object []byte) []byte {
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	return object
}

// find returns the manifest of a version, with the address of its tarball here, and the one that the registry says.
func (p *packument) find(number string, here string) (manifest []byte, tarball string) {
	for version := range p.manifests.each(3) {
		if string(version[0]) == number {
			return withTarball(bytes.Clone(version[1]), here), string(version[2])
		}
	}
	return nil, ""
}

func withTarball(head []byte, address string) []byte {
	quoted, _ := json.Marshal(address) // a text
	return append(append(head, quoted...), tarballEnd...)
}

func (p *packument) write(out *bufio.Writer, x *reply, name string, allowed map[string]bool, messages map[any]string) {
	member := func(name string, value any) {
		text, _ := json.Marshal(value) // of parsed data
		fmt.Fprintf(out, "%q:%s,", name, text)
	}
	_ = out.WriteByte('{')
	for field, value := range p.fields {
		quoted, _ := json.Marshal(field)
		fmt.Fprintf(out, "%s:%s,", quoted, value)
	}
	member("dist-tags", p.tagsOf(allowed))
	if len(p.times) > 0 {
		times := maps.Clone(p.times)
		maps.DeleteFunc(times, func(number string, _ time.Time) bool { return p.numbers[number] && !allowed[number] })
		member("time", times)
	}
	_, _ = out.WriteString(`"versions":`)
	p.writeVersions(out, x, name, func(number string) bool { return allowed[number] })
	if len(messages) > 0 {
		message, _ := json.Marshal(strings.Join(slices.Sorted(maps.Values(messages)), "\n"))
		fmt.Fprintf(out, `,"policyRestrictions":{"message":%s,"versions":`, message)
		p.writeVersions(out, x, name, func(number string) bool { return !allowed[number] })
		_ = out.WriteByte('}')
	}
	_ = out.WriteByte('}')
}

// writeVersions writes an object of manifests, until the client does not take them.
func (p *packument) writeVersions(out *bufio.Writer, x *reply, name string, has func(number string) bool) {
	before := byte('{')
	for version := range p.manifests.each(3) {
		number := string(version[0])
		if !has(number) {
			continue
		}
		quoted, _ := json.Marshal(number)
		_ = out.WriteByte(before)
		before = ','
		_, _ = out.Write(quoted)
		_ = out.WriteByte(':')
		_, _ = out.Write(version[1])
		if _, err := out.Write(withTarball(nil, tarballAt(x, name, number))); err != nil {
			return
		}
	}
	if before == '{' {
		_ = out.WriteByte('{')
	}
	_ = out.WriteByte('}')
}

// newestFirst returns the versions, the highest first, and last those with invalid numbers.
func (p *packument) newestFirst() []string {
	type numbered struct {
		text   string
		number semver.Version
	}
	all := make([]numbered, 0, len(p.numbers))
	for text := range p.numbers {
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
// it, or else to the highest there is, and to one before its release only if there is no other.
func (p *packument) tagsOf(allowed map[string]bool) map[string]string {
	tags := maps.Clone(p.tags)
	maps.DeleteFunc(tags, func(_, number string) bool { return !allowed[number] })
	latest, had := p.tags["latest"]
	if _, still := tags["latest"]; still || !had {
		return tags
	}
	most, _ := semver.Parse(latest)
	best, score := "", -1
	for _, text := range p.newestFirst() {
		number, err := semver.Parse(text)
		if !allowed[text] || err != nil {
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
