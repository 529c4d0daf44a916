package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	serviceName  = "code-sandbox-mcp"
	jsonProtocol = "http/json"
)

// Traces reports where traces go by OpenTelemetry's variables, without a password, and what is to be known of that. An empty
// address is nowhere; the error says which value cannot be used.
func Traces(variables func(string) (string, bool)) (address, note string, err error) {
	e, err := exporterOf(Options{Variables: variables, Logger: slog.New(slog.DiscardHandler)})
	if e == nil {
		return "", "", err
	}
	return e.url.Redacted(), e.note, nil
}

// exporterOf reads the variables of OpenTelemetry that say where traces go; nil: nowhere. That is so without a variable that
// asks for them: a server that nobody told so calls nobody.
func exporterOf(o Options) (*exporter, error) {
	// of looks a variable up, first as the one for traces alone.
	of := func(name string) string {
		own, _ := o.Variables("OTEL_EXPORTER_OTLP_TRACES_" + name)
		all, _ := o.Variables("OTEL_EXPORTER_OTLP_" + name)
		return strings.TrimSpace(cmp.Or(own, all))
	}
	kind, _ := o.Variables("OTEL_TRACES_EXPORTER")
	disabled, _ := o.Variables("OTEL_SDK_DISABLED")
	switch {
	case strings.EqualFold(disabled, "true"), kind == "none", kind == "" && of("ENDPOINT") == "":
		return nil, nil
	case kind != "" && kind != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%q is not supported; use otlp or none", kind)
	}
	note := ""
	switch protocol := of("PROTOCOL"); protocol {
	case "", jsonProtocol:
	case "http/protobuf":
		note = "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: traces are sent as http/json all the same, which collectors take at the same address"
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%q is not supported; use http/json, which collectors take on port 4318", protocol)
	}
	address, _ := o.Variables("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") // which is whole
	if address == "" {
		all, _ := o.Variables("OTEL_EXPORTER_OTLP_ENDPOINT")
		address = strings.TrimSuffix(cmp.Or(all, "http://localhost:4318"), "/") + "/v1/traces"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an address such as http://localhost:4318") // which may have a password
	}
	e := &exporter{url: u, header: http.Header{"Content-Type": {"application/json"}}, timeout: 10 * time.Second, log: o.Logger, client: &http.Client{}, resource: resourceOf(o), note: note}
	headers, ok := pairsOf(of("HEADERS"))
	if !ok {
		return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not as name=value,name=value, with special characters as %XX") // it is a secret
	}
	for name, value := range headers {
		e.header.Set(name, value)
	}
	if text := of("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%q is not a number of milliseconds", text)
		}
		e.timeout = time.Duration(ms) * time.Millisecond
	}
	e.gzip = of("COMPRESSION") == "gzip"
	return e, nil
}

// pairsOf reads name=value,name=value, with escapes as in an address.
func pairsOf(text string) (pairs map[string]string, ok bool) {
	pairs, ok = make(map[string]string), true
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, given := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		ok = ok && given && err == nil
		pairs[strings.TrimSpace(name)] = value
	}
	return pairs, ok
}

// resourceOf describes this server.
func resourceOf(o Options) attributes {
	text, _ := o.Variables("OTEL_RESOURCE_ATTRIBUTES")
	said, ok := pairsOf(text)
	if !ok {
		o.Logger.Warn("not used, as it is not as name=value,name=value", "variable", "OTEL_RESOURCE_ATTRIBUTES")
		clear(said)
	}
	name, _ := o.Variables("OTEL_SERVICE_NAME")
	said["service.name"] = cmp.Or(name, said["service.name"], serviceName)
	said["service.version"] = cmp.Or(said["service.version"], o.Version)
	var a attributes
	for key, value := range said {
		a.set(key, value)
	}
	return a
}

// sampler sets which traces are recorded.
type sampler struct {
	asParent bool    // where there is a parent
	ratio    float64 // of the others
}

// samplerOf reads the variables for it. By default all traces are recorded but those whose parents are not.
func samplerOf(o Options) sampler {
	kind, _ := o.Variables("OTEL_TRACES_SAMPLER")
	argument, _ := o.Variables("OTEL_TRACES_SAMPLER_ARG")
	s := sampler{asParent: true, ratio: 1}
	kind, s.asParent = strings.CutPrefix(cmp.Or(kind, "parentbased_always_on"), "parentbased_")
	switch kind {
	case "always_on":
	case "always_off":
		s.ratio = 0
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(argument, "1"), 64)
		if err == nil && ratio >= 0 && ratio <= 1 {
			s.ratio = ratio
			break
		}
		o.Logger.Warn("not used, as it does not lie between 0 and 1", "variable", "OTEL_TRACES_SAMPLER_ARG", "value", argument)
	default:
		o.Logger.Warn("not used, as there is no such sampler; all traces are sent", "variable", "OTEL_TRACES_SAMPLER", "value", kind)
		s.asParent = true
	}
	return s
}

// takes reports whether a span is recorded: as all of its trace, by whoever decides for this trace and ratio.
func (s sampler) takes(parent place, trace traceID) bool {
	if parent.isValid() && s.asParent {
		return parent.sampled
	}
	return s.ratio == 1 || float64(trace.low()>>1) < s.ratio*math.MaxInt64
}
