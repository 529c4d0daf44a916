//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// api is how a model is talked to.
type api struct {
	path   string // where it is asked
	header string // by which it gets the key
	env    func(url string) []string
	answer func(number int, a answer) object
	sees   bool // whether it is given figures
}

// answer is a call of a tool, or a text.
type answer struct {
	tool string
	args object
	text string
}

const modelKey = "not-a-real-key"

var anthropic = api{
	path: "/v1/messages", header: "Authorization", sees: true,
	env: func(url string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=" + modelKey}
	},
	answer: func(number int, a answer) object {
		stop, block := "tool_use", object{"type": "tool_use", "id": fmt.Sprint("toolu_", number), "name": a.tool, "input": a.args}
		if a.text != "" {
			stop, block = "end_turn", object{"type": "text", "text": a.text}
		}
		return object{
			"id": fmt.Sprint("msg_", number), "type": "message", "role": "assistant", "model": "scripted", "content": []any{block},
			"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1},
		}
	},
}

var openAI = api{
	path: "/v1/chat/completions", header: "Authorization",
	env: func(url string) []string {
		return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=" + modelKey}
	},
	answer: chatCompletion,
}

var responses = api{
	path: "/v1/responses", header: "Authorization", sees: true,
	env: openAI.env,
	answer: func(number int, a answer) object {
		args, _ := json.Marshal(a.args)
		item := object{
			"id": fmt.Sprint("fc_", number), "type": "function_call", "call_id": fmt.Sprint("call_", number), "name": a.tool,
			"arguments": string(args), "status": "completed",
		}
		if a.text != "" {
			item = object{
				"id": fmt.Sprint("msg_", number), "type": "message", "role": "assistant", "status": "completed",
				"content": []any{object{"type": "output_text", "text": a.text, "annotations": []any{}}},
			}
		}
		return object{
			"id": fmt.Sprint("resp_", number), "object": "response", "created_at": 1, "status": "completed", "model": "scripted",
			"output": []any{item}, "usage": object{
				"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
				"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0},
			},
		}
	},
}

var azure = api{
	path: "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21", header: "Api-Key",
	env: func(url string) []string {
		return []string{"AZURE_OPENAI_ENDPOINT=" + url, "AZURE_OPENAI_API_KEY=" + modelKey, "AZURE_OPENAI_DEPLOYMENT=my-gpt", "OPENAI_API_VERSION=2024-10-21"}
	},
	answer: chatCompletion,
}

func chatCompletion(number int, a answer) object {
	stop, message := "stop", object{"role": "assistant", "content": a.text}
	if a.text == "" {
		args, _ := json.Marshal(a.args)
		stop = "tool_calls"
		message = object{"role": "assistant", "content": nil, "tool_calls": []any{object{
			"id": fmt.Sprint("call_", number), "type": "function", "function": object{"name": a.tool, "arguments": string(args)},
		}}}
	}
	return object{
		"id": fmt.Sprint("chatcmpl-", number), "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{object{"index": 0, "message": message, "finish_reason": stop}},
		"usage":   object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	}
}

var gemini = api{
	path: "/v1/models/gemini-flash-latest:generateContent", header: "X-Goog-Api-Key",
	env: func(url string) []string {
		return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=" + modelKey}
	},
	answer: func(_ int, a answer) object {
		part := object{"text": a.text}
		if a.text == "" {
			part = object{"functionCall": object{"name": a.tool, "args": a.args}}
		}
		return object{"candidates": []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": []any{part}}}}}
	},
}

const countPrimes = `import matplotlib.pyplot as plt
primes = [n for n in range(2, 10_000) if all(n % d for d in range(2, int(n ** .5) + 1))]
plt.plot(primes, range(len(primes)))
plt.savefig("output/primes.png")
plt.show()
print(len(primes), "primes")`

var primesCounted = regexp.MustCompile(`(\d+) primes`)

// startModel starts a server with a model that asks for a file that is not there, counts primes by the sandbox, saves a
// figure of them to the host, and says how many the sandbox has told it. It returns the server's URL.
func startModel(t *testing.T, a api, figure string) (url string) {
	t.Helper()
	script := []answer{
		{tool: "read_artifact", args: object{"path": "output/primes.png"}},
		{tool: python, args: object{"code": countPrimes}},
		{tool: "read_artifact", args: object{"path": "output/primes.png", "save_to": figure}},
	}
	var mu sync.Mutex
	var told strings.Builder // the whole conversation: some clients send only what is new
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, err := io.Copy(&told, r.Body)
		if key := strings.TrimPrefix(r.Header.Get(a.header), "Bearer "); err != nil || !strings.HasPrefix(r.URL.RequestURI(), a.path) || key != modelKey {
			t.Errorf("asked at %s with the headers %v: %v", r.URL, r.Header, err)
		}
		for _, part := range []string{`"run_python_code"`, "How many primes are there", "not_found"}[:min(2+asked, 3)] {
			should.Hold(t, strings.Contains(told.String(), part), "the model was not told %s: %.3000s", part, told.String())
		}
		said := answer{text: "Nobody has counted."}
		if asked < len(script) {
			said = script[asked]
		} else if counted := primesCounted.FindStringSubmatch(told.String()); counted != nil {
			said.text = "There are " + counted[1] + " primes."
			should.Equal(t, strings.Contains(told.String(), "iVBORw0KGgo"), a.sees, "the model was given the figure")
		}
		asked++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.answer(asked, said))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
