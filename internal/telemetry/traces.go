package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// batchTime is how long a span waits for others, batchSize how many are sent at once, and queueSize how many wait at
	// the most: what is over that is lost.
	batchTime = 5 * time.Second
	batchSize = 512
	queueSize = 2048
)

type (
	traceID [16]byte
	spanID  [8]byte
)

func (t traceID) low() uint64 { return binary.BigEndian.Uint64(t[8:]) }

// place is where in a trace something happens.
type place struct {
	trace   traceID
	span    spanID
	sampled bool
}

func (p place) isValid() bool { return p.trace != traceID{} && p.span != spanID{} }

type placeKey struct{}

// under returns a context that is part of the trace that a W3C traceparent says, if it is one.
func under(ctx context.Context, traceparent string) context.Context {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) > 4 {
		return ctx
	}
	var p place
	var version, flags [1]byte
	for i, into := range [][]byte{version[:], p.trace[:], p.span[:], flags[:]} {
		if len(parts[i]) != 2*len(into) || strings.ToLower(parts[i]) != parts[i] {
			return ctx
		}
		if _, err := hex.Decode(into, []byte(parts[i])); err != nil {
			return ctx
		}
	}
	if p.sampled = flags[0]&1 == 1; !p.isValid() {
		return ctx
	}
	return context.WithValue(ctx, placeKey{}, p)
}

// tracer sends spans in batches. A nil one records nothing.
type tracer struct {
	sampler  sampler
	exporter *exporter
	queue    chan *span
	lost     atomic.Int64
	now      chan struct{}        // has room for one: not to wait for others
	stop     chan context.Context // how long there is for what is left
	stopped  chan struct{}
}

// newTracer returns what the variables ask for; nil: nothing. Bad ones end no server: the log has them.
func newTracer(o Options) *tracer {
	e, err := exporterOf(o)
	if err != nil {
		o.Logger.Warn("no traces are sent", "error", err)
	}
	if e == nil {
		return nil
	}
	o.Logger.Info("sending traces", "url", e.url.Redacted(), "protocol", jsonProtocol)
	if e.note != "" {
		o.Logger.Warn("traces are sent otherwise than asked", "note", e.note)
	}
	t := &tracer{sampler: samplerOf(o), exporter: e, queue: make(chan *span, queueSize), now: make(chan struct{}, 1), stop: make(chan context.Context), stopped: make(chan struct{})}
	go t.run()
	return t
}

// run sends what comes until it is to stop, and then what is left.
func (t *tracer) run() {
	defer close(t.stopped)
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var batch []*span
	drain := func() {
		for len(t.queue) > 0 {
			batch = append(batch, <-t.queue)
		}
	}
	send := func() {
		if len(batch) > 0 {
			t.exporter.export(ctx, batch)
		}
		batch = nil
		if lost := t.lost.Swap(0); lost > 0 {
			t.exporter.log.Warn("spans were lost: there were too many at once", "spans", lost)
		}
	}
	for {
		select {
		case s := <-t.queue:
			if batch = append(batch, s); len(batch) == batchSize {
				send()
			}
		case <-tick.C:
			send()
		case <-t.now:
			drain()
			send()
		case ending := <-t.stop:
			defer context.AfterFunc(ending, cancel)()
			drain()
			send()
			return
		}
	}
}

// flush has what there is sent at once, and does not wait for that.
func (t *tracer) flush() {
	if t == nil {
		return
	}
	select {
	case t.now <- struct{}{}:
	default:
	}
}

// close sends what is left, while ctx lasts.
func (t *tracer) close(ctx context.Context) {
	if t == nil {
		return
	}
	select {
	case t.stop <- ctx:
	case <-ctx.Done(): // the collector does not answer
		return
	}
	<-t.stopped
}

// Kinds of spans.
const (
	kindInternal = 1
	kindServer   = 2
)

// span is a span, in OTLP's form as JSON. A nil one is not recorded. Its methods are for one goroutine, and after end for none.
type span struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
	Parent  string `json:"parentSpanId,omitempty"`
	Flags   int    `json:"flags"`
	Name    string `json:"name"`
	Kind    int    `json:"kind"`
	Start   string `json:"startTimeUnixNano"`
	End     string `json:"endTimeUnixNano"`
	attributes
	Status struct {
		Code int `json:"code,omitempty"`
	} `json:"status"`

	tracer *tracer
	began  time.Time
}

// start begins a span under that of ctx. The context is for what is under it.
func (t *tracer) start(ctx context.Context, name string, kind int) (context.Context, *span) {
	if t == nil {
		return ctx, nil
	}
	parent, _ := ctx.Value(placeKey{}).(place)
	at := place{trace: parent.trace}
	if !parent.isValid() {
		_, _ = rand.Read(at.trace[:]) // which never fails
	}
	_, _ = rand.Read(at.span[:])
	at.sampled = t.sampler.takes(parent, at.trace)
	ctx = context.WithValue(ctx, placeKey{}, at)
	if !at.sampled {
		return ctx, nil
	}
	s := &span{
		TraceID: hex.EncodeToString(at.trace[:]), SpanID: hex.EncodeToString(at.span[:]), Flags: 1,
		Name: name, Kind: kind, tracer: t, began: time.Now(),
	}
	if parent.isValid() {
		s.Parent = hex.EncodeToString(parent.span[:])
	}
	return ctx, s
}

func (s *span) name(name string) {
	if s != nil {
		s.Name = name
	}
}

// with adds an attribute.
func (s *span) with(key string, value any) *span {
	if s != nil {
		s.set(key, value)
	}
	return s
}

// statusFailed is OTLP's.
const statusFailed = 2

// fail marks the span as failed.
func (s *span) fail() {
	if s != nil {
		s.Status.Code = statusFailed
	}
}

// end ends the span, and has it sent.
func (s *span) end() {
	if s == nil {
		return
	}
	s.Start, s.End = nanoseconds(s.began), nanoseconds(s.began.Add(time.Since(s.began)))
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.lost.Add(1)
	}
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
