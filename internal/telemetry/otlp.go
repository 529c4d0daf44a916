package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// exporter sends spans to a collector by OTLP over HTTP, as JSON. OpenTelemetry's own has gRPC come along, which makes the
// program a third larger.
type exporter struct {
	url      *url.URL
	resource attributes
	header   http.Header
	gzip     bool
	timeout  time.Duration // of one batch, with its retries
	log      *slog.Logger
	client   *http.Client
	failing  bool
	note     string // of what the variables ask for and is done otherwise; empty: nothing
}

// export sends a batch, and again where the collector has no time. What cannot be sent is lost; the log says so once.
func (e *exporter) export(ctx context.Context, spans []*span) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	list := scopeSpans{Spans: spans}
	list.Scope.Name = serviceName
	body, err := json.Marshal(traceRequest{[]resourceSpans{{e.resource, []scopeSpans{list}}}})
	if err != nil {
		e.log.Error("traces", "error", err) // not reached
		return
	}
	if e.gzip {
		body = compressed(body)
	}
	retry := true
	for wait := time.Second; retry; wait *= 2 {
		if retry, err = e.send(ctx, body); !retry {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			retry = false
		}
	}
	if failing := err != nil; e.failing != failing {
		e.failing = failing
		e.log.Warn("whether the collector takes traces has changed", "takes_them", !failing, "error", err)
	}
}

// send sends a batch, and reports whether to try again.
func (e *exporter) send(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header = e.header.Clone()
	if e.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection is used again
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answers %s", answer.Status)
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // into memory, which does not fail
	_ = z.Close()
	return b.Bytes()
}

// The messages of OTLP around spans, in their form as JSON: ids in hexadecimal, 64-bit integers as text.
type (
	traceRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []*span `json:"spans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	keyValue struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	}
)

// set adds an attribute, a text or an int.
func (a *attributes) set(key string, value any) {
	kind := "stringValue"
	if _, is := value.(int); is {
		kind = "intValue"
	}
	a.Attributes = append(a.Attributes, keyValue{key, map[string]string{kind: fmt.Sprint(value)}})
}
