package telemetry

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// collector is a server that takes traces.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	busy   int // how many requests it still refuses
	header http.Header
	path   string
	spans  map[string]map[string]any // by name
	about  map[string]any            // what the resource says
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: make(map[string]map[string]any), about: make(map[string]any)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// values reads attributes.
func values(list any) map[string]any {
	found := make(map[string]any)
	attributes, _ := list.([]any)
	for _, a := range attributes {
		kv := a.(map[string]any)
		for _, value := range kv["value"].(map[string]any) {
			found[kv["key"].(string)] = value
		}
	}
	return found
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy > 0 {
		c.busy--
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	c.header, c.path = r.Header.Clone(), r.URL.Path
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	var sent struct {
		ResourceSpans []struct {
			Resource   map[string]any
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	if err := json.NewDecoder(body).Decode(&sent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, resource := range sent.ResourceSpans {
		c.about = values(resource.Resource["attributes"])
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s["name"].(string)] = s
			}
		}
	}
}

func tracing(variables map[string]string, log io.Writer) *Recorder {
	return New(Options{Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(log, nil)), Variables: func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}})
}

func TestTracesArrive(t *testing.T) {
	c := newCollector(t)
	c.busy = 1
	w := tracing(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20xyz, X-Tenant = a", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_SERVICE_NAME": "sandbox of a test", "OTEL_RESOURCE_ATTRIBUTES": "service.name=another,deployment.environment.name=a%20b",
	}, t.Output())

	h := w.Requests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		ctx, ended := w.Call(r.Context(), callOf("run_python_code"))
		over := w.RunBegan(ctx, &sandbox.Run{ID: "run-1", SessionID: "s-1", Language: sandbox.Python})
		ended("ok")
		over(nil, fault.New(fault.ImageMissing, "", "no image"))
	}))
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Traceparent", recorded)
	h.ServeHTTP(httptest.NewRecorder(), r)
	get(h, http.MethodGet, HealthPath)
	w.Close(t.Context())

	c.mu.Lock()
	defer c.mu.Unlock()
	request, call, run := c.spans["POST none"], c.spans["tools/call run_python_code"], c.spans["run python"]
	if len(c.spans) != 3 || request == nil || call == nil || run == nil {
		t.Fatalf("got %v", c.spans)
	}
	for child, of := range map[string][2]any{
		"the request": {request["parentSpanId"], "0123456789abcdef"}, "the call": {call["parentSpanId"], request["spanId"]},
		"the run": {run["parentSpanId"], call["spanId"]}, "its trace": {run["traceId"], "0123456789abcdef0123456789abcdef"},
		"the kind of a request": {request["kind"], 2.0}, "the kind of a run": {run["kind"], 1.0},
		"the end of the run":  {run["status"].(map[string]any)["code"], 2.0},
		"the end of the call": {call["status"].(map[string]any)["code"], nil},
	} {
		if of[0] != of[1] {
			t.Errorf("%s: %v, want %v", child, of[0], of[1])
		}
	}
	about := values(run["attributes"])
	if about["code_sandbox.session.id"] != "s-1" || about["code_sandbox.run.id"] != "run-1" || about["error.type"] != "image_missing" {
		t.Errorf("the run has %v", about)
	}
	if status := values(request["attributes"])["http.response.status_code"]; status != "200" {
		t.Errorf("the request has the status %v", status)
	}
	if c.about["service.name"] != "sandbox of a test" || c.about["service.version"] != "1.2.3" || c.about["deployment.environment.name"] != "a b" {
		t.Errorf("the resource has %v", c.about)
	}
	if c.path != "/v1/traces" || c.header.Get("Authorization") != "Bearer xyz" || c.header.Get("X-Tenant") != "a" || c.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %v", c.path, c.header)
	}
}

// A client over stdio says in the message whose child its call is.
func TestACallIsTheChildThatItsMetaSays(t *testing.T) {
	c := newCollector(t)
	w := tracing(map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL + "/own"}, t.Output())
	request := callOf("close_session")
	request.Params.Meta = mcp.NewMetaFromMap(map[string]any{"traceparent": recorded})
	_, ended := w.Call(t.Context(), request)
	ended("session_not_found")
	w.Close(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.spans["tools/call close_session"]
	if call == nil || call["parentSpanId"] != "0123456789abcdef" || values(call["attributes"])["error.type"] != "session_not_found" || c.path != "/own" {
		t.Errorf("got %v at %s", call, c.path)
	}
}

func TestWhetherTracesAreSent(t *testing.T) {
	const endpoint, secret = "OTEL_EXPORTER_OTLP_ENDPOINT", "hunter22"
	for name, test := range map[string]struct {
		variables map[string]string
		url       string // empty: none are sent
		log       string
	}{
		"nothing said":          {nil, "", ""},
		"an endpoint":           {map[string]string{endpoint: "http://c:4318"}, "http://c:4318/v1/traces", ""},
		"an endpoint with path": {map[string]string{endpoint: "https://c/otlp/"}, "https://c/otlp/v1/traces", ""},
		"its own endpoint":      {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://d/x"}, "http://d/x", ""},
		"an exporter":           {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces", ""},
		"none":                  {map[string]string{"OTEL_TRACES_EXPORTER": "none", endpoint: "http://c"}, "", ""},
		"disabled":              {map[string]string{"OTEL_SDK_DISABLED": "TRUE", endpoint: "http://c"}, "", ""},
		"another exporter":      {map[string]string{"OTEL_TRACES_EXPORTER": "console"}, "", `OTEL_TRACES_EXPORTER=\"console\" is not supported`},
		"gRPC":                  {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", `OTEL_EXPORTER_OTLP_PROTOCOL=\"grpc\" is not supported; use http/json`},
		"gRPC for traces alone": {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", "use http/json"},
		"JSON":                  {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http://c/v1/traces", "protocol=http/json"},
		"a binary protocol":     {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "http://c/v1/traces", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: traces are sent as http/json"},
		"no address":            {map[string]string{endpoint: "c:4318?" + secret}, "", endpoint + " is not an address"},
		"a header that is none": {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": secret}, "", "OTEL_EXPORTER_OTLP_HEADERS is not"},
		"bad escapes":           {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=%" + secret}, "", "OTEL_EXPORTER_OTLP_HEADERS is not"},
		"a bad time":            {map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "", `OTEL_EXPORTER_OTLP_TIMEOUT=\"soon\"`},
		"a password":            {map[string]string{endpoint: "http://me:" + secret + "@c"}, "http://me:xxxxx@c/v1/traces", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			tracing(test.variables, &log).Close(t.Context())
			told := log.String()
			if sends := strings.Contains(told, "sending traces"); sends != (test.url != "") || !strings.Contains(told, "url="+test.url) && sends || !strings.Contains(told, test.log) || strings.Contains(told, secret) {
				t.Errorf("the log is %s", told)
			}
			if otherwise := strings.Contains(told, "otherwise than asked"); otherwise != (name == "a binary protocol") {
				t.Errorf("the log is %s", told)
			}
		})
	}
}

const (
	recorded    = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	notRecorded = "00-0123456789abcdefffffffffffffffff-0123456789abcdef-00"
	late        = "00-0123456789abcdefffffffffffffffff-0123456789abcdef-01"
)

func TestWhichTracesAreSent(t *testing.T) {
	for name, test := range map[string]struct{ sampler, argument, parent, want string }{
		"by default":                     {"", "", "", "yes"},
		"as the parent":                  {"", "", recorded, "yes"},
		"not as the parent":              {"", "", notRecorded, "no"},
		"all":                            {"always_on", "", notRecorded, "yes"},
		"none":                           {"always_off", "", recorded, "no"},
		"none without a parent":          {"parentbased_always_off", "", "", "no"},
		"only with a parent":             {"parentbased_always_off", "", recorded, "yes"},
		"a part, of an early trace":      {"traceidratio", "0.9", recorded, "yes"},
		"a part, of a late trace":        {"traceidratio", "0.9", late, "no"},
		"a part, by the parent":          {"parentbased_traceidratio", "0", recorded, "yes"},
		"a part that is none":            {"traceidratio", "2", "", "yes"},
		"a sampler that is none":         {"jaeger_remote", "", notRecorded, "no"},
		"a parent that is none":          {"", "", "00-0123456789abcdef0123456789abcdef-0123456789abcdef", "yes"},
		"a parent of zeros":              {"parentbased_always_off", "", "00-00000000000000000000000000000000-0123456789abcdef-01", "no"},
		"a parent in capitals":           {"parentbased_always_off", "", "00-0123456789ABCDEF0123456789abcdef-0123456789abcdef-01", "no"},
		"a parent of no version":         {"parentbased_always_off", "", strings.Replace(recorded, "00", "ff", 1), "no"},
		"a parent of a later version":    {"parentbased_always_off", "", strings.Replace(recorded, "00", "01", 1) + "-more", "yes"},
		"a parent with more than it has": {"parentbased_always_off", "", recorded + "-more", "no"},
		"a parent in other letters":      {"parentbased_always_off", "", strings.Replace(recorded, "c", "x", 1), "no"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			w := tracing(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.argument}, t.Output())
			ctx, ended := w.Call(under(t.Context(), test.parent), callOf("session_info"))
			w.RunBegan(ctx, &sandbox.Run{Language: sandbox.Python})(&sandbox.Result{Status: sandbox.Completed}, nil)
			ended("ok")
			w.Close(t.Context())
			c.mu.Lock()
			defer c.mu.Unlock()
			if want := map[string]int{"yes": 2, "no": 0}[test.want]; len(c.spans) != want {
				t.Errorf("got %v", c.spans)
			}
		})
	}
}

// A collector that is down costs its traces and one line of the log.
func TestACollectorThatIsDown(t *testing.T) {
	c := newCollector(t)
	c.Close()
	var log strings.Builder
	w := tracing(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL}, &log)
	for range queueSize * 2 {
		_, ended := w.Call(t.Context(), callOf("session_info"))
		ended("ok")
	}
	w.Close(t.Context())
	if told := log.String(); strings.Count(told, "takes_them=false") != 1 {
		t.Errorf("the log is %s", told)
	}
}
