package tools

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

const secret = `s3cret/Pa+ss "word"&%`

func TestSecretsAreMaskedInEveryForm(t *testing.T) {
	m := NewMasker(map[string]string{"API_KEY": secret, "SHORT": "abc", "OUTER": secret + "-more"})
	quoted, _ := json.Marshal(secret)
	for name, text := range map[string]string{
		"plain":             "key=" + secret + ";",
		"longer one first":  secret + "-more",
		"JSON":              string(quoted),
		"query":             url.QueryEscape(secret),
		"path":              url.PathEscape(secret),
		"base64":            base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, shifted 1": base64.StdEncoding.EncodeToString([]byte("a" + secret + "zz")),
		"base64, shifted 2": base64.StdEncoding.EncodeToString([]byte("ab" + secret + "z")),
		"base64 URL":        base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
	} {
		t.Run(name, func(t *testing.T) {
			got := m.Mask(text)
			if !strings.Contains(got, "[masked: ") || strings.Contains(got, "s3cret") {
				t.Errorf("%q became %q", text, got)
			}
		})
	}
	if got := m.Mask("abc stays, and so does the rest"); got != "abc stays, and so does the rest" {
		t.Errorf("harmless text became %q", got)
	}
}

func TestMaskingReachesContentAndFields(t *testing.T) {
	m := NewMasker(map[string]string{"KEY": "hunter22"})
	content := m.maskContent([]mcp.Content{mcp.NewTextContent("a hunter22 b"), mcp.NewImageContent("aHVudGVy", "image/png")})
	if got := content[0].(mcp.TextContent).Text; got != "a [masked: KEY] b" {
		t.Errorf("content is %q", got)
	}
	fields, _ := json.Marshal(m.maskJSON(struct {
		A string
		B []map[string]string
	}{"hunter22", []map[string]string{{"x hunter22": "hunter22"}}}))
	if want := `{"A":"[masked: KEY]","B":[{"x [masked: KEY]":"[masked: KEY]"}]}`; string(fields) != want {
		t.Errorf("fields are %s", fields)
	}
}

func TestASecretCutInTwoIsMasked(t *testing.T) {
	m := NewMasker(map[string]string{"KEY": "hunter22"})
	for text, want := range map[string]string{
		"it is hunt": "it is [masked]", "it is hunter2": "it is [masked]", "hunter22 and hun": "[masked: KEY] and [masked]", "hu": "hu", "": "",
	} {
		if got := m.MaskHead(text); got != want {
			t.Errorf("head %q became %q", text, got)
		}
	}
	if got := NewMasker(map[string]string{"KEY": "hunter2-hunter2"}).MaskHead("0 hunter2-hunter2"); got != "0 [masked: KEY]" {
		t.Errorf("a secret that ends as it begins became %q", got)
	}
	for text, want := range map[string]string{"er22 it was": "[masked] it was", "22": "22", "nter22hunter22": "[masked][masked: KEY]"} {
		if got := m.MaskTail(text); got != want {
			t.Errorf("tail %q became %q", text, got)
		}
	}
}

func TestWithoutSecretsNothingChanges(t *testing.T) {
	for _, m := range []*Masker{nil, NewMasker(nil), NewMasker(map[string]string{"A": "short"})} {
		if got := m.Mask("short text"); got != "short text" {
			t.Errorf("became %q", got)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("hunter22", "a", "b")
	f.Add(secret, "", "\x00")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		m := NewMasker(map[string]string{"X": value})
		if m == nil || strings.Contains(before+"[masked: X]", value) {
			return
		}
		if got := m.Mask(before + value + after); strings.HasPrefix(got, before+value) {
			t.Errorf("%q is not masked in %q: %q", value, before+value+after, got)
		}
	})
}
