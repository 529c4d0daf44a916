//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const pemKey = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu
-----END PRIVATE KEY-----`

// vault is a server that passes secrets on, and what no byte that leaves it may have.
type vault struct {
	*server
	absent []string
}

func openVault(t *testing.T, more ...string) *vault {
	t.Helper()
	values := map[string]string{
		"TOKEN": `s3cr&t/"Va<lue>+$1\x ü%`, "LONGER": "correct-horse-battery", "PREFIX": "correct-horse", "KEY": pemKey, "SHORT": "abc12", "COMMON": "localhost",
	}
	with := setup{args: append([]string{"--pass-through-env", "TOKEN,LONGER,PREFIX,KEY,SHORT,COMMON"}, more...)}
	v := &vault{absent: []string{"Va<lue", "va%3Clue", "s3cr", "correct-", "-battery", "MIIEvQ", "MzEfYy", hex.EncodeToString([]byte("correct"))}}
	for name, value := range values {
		with.env = append(with.env, name+"="+value)
	}
	for shift := range 3 {
		for _, value := range []string{values["TOKEN"], values["LONGER"], values["KEY"]} {
			text := base64.RawStdEncoding.EncodeToString([]byte("xyz"[:shift] + value))
			v.absent = append(v.absent, text[4:16])
		}
	}
	v.server = start(t, with)
	return v
}

// silent checks that a line has none of the secrets, though it was asked for them.
func (v *vault) silent(what string, line []byte) {
	v.t.Helper()
	for _, secret := range v.absent {
		quoted, _ := json.Marshal(secret)
		if text := string(line); strings.Contains(text, secret) || strings.Contains(text, strings.Trim(string(quoted), `"`)) {
			v.t.Errorf("%s: %q is told: %s", what, secret, tail(text))
		}
	}
}

func TestSecretsDoNotLeave(t *testing.T) {
	t.Parallel()
	v := openVault(t, "--output-limit", "2KiB")
	v.py("import os, sys\nall = [os.environ[n] for n in ('TOKEN', 'LONGER', 'PREFIX', 'KEY')]")
	for _, code := range []string{
		"for s in all: print(s)",
		"for s in all: print(s, file=sys.stderr)",
		"all", "'\\n'.join(all)", "{s: [s] for s in all}",
		"for s in all: os.write(1, s.encode()[:7]); os.write(1, s.encode()[7:] + b'\\n')",
		"print((all[1] + 'x') * 200)", "all[1] * 200", "raise ValueError(all[1] * 200)", // and always in a secret
		"!echo \"$TOKEN\"; echo $KEY; env; printf '%q' \"$TOKEN\"",
		"from IPython.display import display, Markdown, HTML\nfor s in all: display(Markdown(s)); display(HTML(s))",
		"import matplotlib.pyplot as plt\nplt.plot([1]); plt.title(all[1]); plt.savefig('output/p.png', metadata={'Title': all[1]}); plt.show()",
		"for s in all[1:3]: open('output/a ' + s + '.txt', 'w').write(s)",
	} {
		res := v.call(python, object{"code": code})
		v.silent(code, res.line)
		should.Hold(t, strings.Contains(code, "open(") || strings.Contains(string(res.line), "[masked"),
			"%s: nothing is masked: %s", code, res.text())
	}
	v.js("const all = ['TOKEN', 'LONGER', 'PREFIX', 'KEY'].map(n => process.env[n])")
	for _, code := range []string{
		"all", "all.join('\\n')", "console.log(JSON.stringify(all), all.map(encodeURIComponent)); console.error(all)",
		"for (const s of all) for (const c of s) process.stdout.write(c)", "throw new Error(all[0])", "throw all[3]", "console.table(all.slice(0, 3))",
	} {
		v.silent(code, v.call(javascript, object{"code": code}).line)
	}
	res := v.py("print(os.environ['SHORT'], os.environ['COMMON'])")
	res.wantText(t, "abc12 localhost")

	v.silent("list_artifacts", v.call("list_artifacts", nil).line)
	v.py("open('output/t.txt', 'w').write('\\n'.join(all))")
	id := v.py("1").Meta.Run.SessionID
	for _, name := range []string{"t.txt", "p.png"} {
		v.silent(name, v.call("read_artifact", object{"path": "output/" + name}).line)
		v.silent(name, v.request("resources/read", object{"uri": "artifact://" + id + "/output/" + name}).line)
	}
	v.silent("session_info", v.call("session_info", nil).line)
	v.silent("sessions", v.request("resources/read", object{"uri": "session://" + id}).line)
	v.silent("the log", []byte(v.stderr.String()))
	h := mustHold(t, v.sessionIDs())
	out := must.Get(podman(append([]string{"inspect"}, h.Containers...)...))(t)
	v.silent("podman inspect", []byte(out))
	looked := 0
	for _, p := range processes() {
		if !strings.Contains(p.line(), "conmon") && !strings.Contains(p.line(), "system service") {
			continue
		}
		if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)); err == nil {
			looked++
			v.silent("the environment of "+p.args[0], environ)
		}
	}
	should.Hold(t, looked != 0, "no conmon and no service to look at")
}

// A client whose user can be asked is: before a request leaves that no setting allows.
func TestCodeAsksByTheClient(t *testing.T) {
	t.Parallel()
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.Host) }, nil)
	const fetch = "import urllib.request as u, urllib.error\ntry:\n    print(u.urlopen('http://%s.example/').read())\nexcept urllib.error.HTTPError as e:\n    print(e)"
	s := start(t, setup{args: []string{"--ask"}, env: env, program: program, silent: true})
	s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{"elicitation": object{}}, "clientInfo": object{"name": "e2e", "version": "1"}})
	s.notify("notifications/initialized", nil)
	asked := 0
	for _, step := range []struct{ host, decision, want string }{
		{"a", "Deny", "HTTP Error 403: host_denied: a.example is not an allowed host"},
		{"a", "", "has denied it"}, // in this session it is not asked again
		{"b", "Allow for good", "hello from b.example"},
		{"b", "", "hello from b.example"},
	} {
		r := s.beginCall(python, object{"code": fmt.Sprintf(fetch, step.host)})
		if step.decision != "" {
			asked++
			q, id := s.question(asked)
			if !strings.Contains(q, step.host+".example:80") || !strings.Contains(q, "line 3: print(u.urlopen") || !strings.Contains(q, "GET /") {
				t.Errorf("%+v: asked %q", step, q)
			}
			s.send(object{"jsonrpc": "2.0", "id": id, "result": object{"action": "accept", "content": object{"decision": step.decision}}})
		}
		r.result().wantText(t, step.want)
	}
}

// question waits for the question of that number.
func (s *server) question(number int) (text string, id json.RawMessage) {
	s.t.Helper()
	q := s.asked("elicitation/create", number)
	var asks struct{ Message string }
	decode(s.t, q.Params, &asks)
	return asks.Message, q.ID
}

// asked waits for the server's request of that number with this method.
func (s *server) asked(method string, number int) (request message) {
	s.t.Helper()
	s.waitFor("a "+method, func(all []message) bool {
		asked := slices.DeleteFunc(all, func(m message) bool { return m.Method != method })
		if len(asked) < number {
			return false
		}
		request = asked[number-1]
		return true
	})
	return request
}
