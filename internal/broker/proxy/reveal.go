package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxWholeBody is the largest body, in bytes, that is read before it is sent.
const maxWholeBody = 256 << 10

// reveal replaces the placeholders of the route's secrets by the values, and refuses a request in which there is
// one that may not be there. A body that is longer, or of unknown length, is not looked through for that.
func (p *Proxy) reveal(out *http.Request, rt *route) *refusal {
	inHeaders := rt.replacer(func(Secret) bool { return true }, plainly)
	for _, values := range out.Header {
		for i, value := range values {
			values[i] = replaceHeader(value, inHeaders)
			if s, ok := p.placeholderIn(decoded(values[i])); ok {
				return rt.misplaced(s, "in a header")
			}
		}
	}
	out.URL.RawQuery = rt.replacer(func(s Secret) bool { return s.Query }, url.QueryEscape).Replace(out.URL.RawQuery)
	if s, ok := p.placeholderIn(out.URL.RawQuery); ok {
		return rt.misplaced(s, "in the query of an address")
	}
	if s, ok := p.placeholderIn(out.URL.String()); ok {
		return rt.misplaced(s, "in an address")
	}
	return p.revealBody(out, rt)
}

func (p *Proxy) revealBody(out *http.Request, rt *route) *refusal {
	if out.ContentLength == 0 || out.Header.Get("Content-Encoding") != "" {
		return nil
	}
	inBody := rt.replacer(func(s Secret) bool { return s.Body }, escaper(out.Header.Get("Content-Type")))
	if out.ContentLength < 0 || out.ContentLength > maxWholeBody {
		if held := rt.placeholders(func(s Secret) bool { return s.Body }); len(held) > 0 {
			out.Body = &revealingBody{ReadCloser: out.Body, replacer: inBody, placeholders: held}
			out.ContentLength = -1
			out.Header.Del("Content-Length")
		}
		return nil
	}
	whole, err := io.ReadAll(out.Body)
	if err != nil {
		return &refusal{status: http.StatusBadRequest, rule: "bad_request", words: "the body of the request ended too early"}
	}
	text := inBody.Replace(string(whole))
	if s, ok := p.placeholderIn(text); ok {
		return rt.misplaced(s, "in a body")
	}
	out.Body, out.ContentLength = struct {
		io.Reader
		io.Closer
	}{strings.NewReader(text), out.Body}, int64(len(text))
	out.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// placeholderIn returns the first secret with its placeholder in the text.
func (p *Proxy) placeholderIn(text string) (Secret, bool) {
	for _, s := range p.options.Secrets {
		if strings.Contains(text, s.placeholder()) {
			return s, true
		}
	}
	return Secret{}, false
}

// replacer replaces placeholders for the route's secrets that may be there, each by its value as it is written there.
func (rt *route) replacer(allowed func(Secret) bool, escape func(string) string) *strings.Replacer {
	var pairs []string
	for _, s := range rt.secrets {
		if allowed(s) {
			pairs = append(pairs, s.placeholder(), escape(s.Value))
		}
	}
	return strings.NewReplacer(pairs...)
}

func (rt *route) placeholders(allowed func(Secret) bool) []string {
	var all []string
	for _, s := range rt.secrets {
		if allowed(s) {
			all = append(all, s.placeholder())
		}
	}
	return all
}

// misplaced reports why a request with a placeholder is not sent.
func (rt *route) misplaced(s Secret, where string) *refusal {
	var hosts []string
	for _, h := range s.Hosts {
		hosts = append(hosts, h.String())
	}
	words := "the placeholder of " + s.Name + " is " + where + " of a request to " + rt.address() + ", which was not sent: "
	switch {
	case !s.isFor(rt.target):
		words += "the value goes to " + strings.Join(hosts, ", ") + " alone"
	case !rt.isSecure:
		words += "the value goes out by https:// alone"
	case strings.Contains(where, "query"):
		words += "put it into a header, or the server's user can add ,query to --secret " + s.Name + "@" + strings.Join(hosts, ",")
	case strings.Contains(where, "body"):
		words += "put it into a header, or the server's user can add ,body to --secret " + s.Name + "@" + strings.Join(hosts, ",")
	default:
		words += "put it into a header"
	}
	return &refusal{status: http.StatusForbidden, rule: "placeholder_denied", words: words}
}

const basic = "Basic "

// decoded decodes a header's value: the name and basic authentication's password.
func decoded(value string) string {
	if len(value) > len(basic) && strings.EqualFold(value[:len(basic)], basic) {
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[len(basic):])); err == nil {
			return string(pair)
		}
	}
	return value
}

// replaceHeader replaces placeholders in a header's value.
func replaceHeader(value string, replacer *strings.Replacer) string {
	said := decoded(value)
	replaced := replacer.Replace(said)
	switch {
	case replaced == said:
		return value
	case said == value:
		return replaced
	}
	return basic + base64.StdEncoding.EncodeToString([]byte(replaced))
}

func plainly(value string) string { return value }

// escaper returns how a value is written in a body with some type.
func escaper(contentType string) func(string) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch {
	case kind == "application/x-www-form-urlencoded":
		return url.QueryEscape
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return func(value string) string {
			var b bytes.Buffer
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			if encoder.Encode(value) != nil {
				return value
			}
			quoted := strings.TrimSpace(b.String())
			return quoted[1 : len(quoted)-1]
		}
	}
	return plainly
}

// revealingBody replaces placeholders while a body is read. It holds back a possible beginning of one.
type revealingBody struct {
	io.ReadCloser
	replacer     *strings.Replacer
	placeholders []string
	held         string
	ready        string
	err          error
}

func (b *revealingBody) Read(p []byte) (int, error) {
	buffer := make([]byte, 32<<10)
	for b.ready == "" && b.err == nil {
		var n int
		n, b.err = b.ReadCloser.Read(buffer)
		text := b.held + string(buffer[:n])
		end := len(text)
		if b.err == nil {
			end = b.beginning(text)
		}
		// A placeholder that ends before the place is whole, and none goes over it.
		b.ready, b.held = b.replacer.Replace(text[:end]), text[end:]
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if b.ready != "" {
		return n, nil
	}
	return n, b.err
}

// beginning returns where the text's end may be a placeholder's beginning, or its length.
func (b *revealingBody) beginning(text string) int {
	first := len(text)
	for _, placeholder := range b.placeholders {
		for length := min(len(placeholder)-1, len(text)); length > len(text)-first; length-- {
			if strings.HasSuffix(text, placeholder[:length]) {
				first = len(text) - length
			}
		}
	}
	return first
}
