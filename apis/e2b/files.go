package e2b

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// helper runs in the container, as the sandbox's user: no path is resolved here.
//
//go:embed fs.py
var helper string

const (
	maxLine     = 64 << 10  // bytes of the helper's answer
	maxEntries  = 10_000    // of a listed folder
	maxWatchers = 16        // of one sandbox
	maxList     = 4 << 20   // bytes per list
	maxWaiting  = 256 << 10 // bytes of events that wait to be asked for; newer ones are dropped
	perValue    = 64        // bytes of a value in a list beside its text
	gzipRoom    = 1 << 20   // bytes of memory that packing takes
)

// entry is filesystem.proto's EntryInfo.
type entry struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Path        string            `json:"path"`
	Size        string            `json:"size"`
	Mode        uint32            `json:"mode"`
	Permissions string            `json:"permissions"`
	Owner       string            `json:"owner"`
	Group       string            `json:"group"`
	Modified    string            `json:"modifiedTime"`
	Target      string            `json:"symlinkTarget,omitempty"`
	IsSymlink   bool              `json:"isSymlink,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// valueList is a JSON list of values, with bounded length.
type valueList struct {
	all   []json.RawMessage
	bytes int
	room  room.Growing
}

// add adds a value, if there is room for it in the server too.
func (l *valueList) add(ctx context.Context, value any) error {
	text := web.Encode(value)
	if l.bytes += len(text) + perValue; len(l.all) >= maxEntries || l.bytes > maxList {
		return &rpcError{Code: "resource_exhausted", Message: "the list has more than " + strconv.Itoa(maxEntries) + " entries or " + strconv.Itoa(maxList) + " bytes"}
	}
	l.all = append(l.all, text)
	return l.room.Add(ctx, 3*int64(len(text)+perValue)) // as a value, and as the answer in a buffer that grew
}

func (s *server) envdRoutes(add router) {
	serve := func(serve func(c *call, b *box) error) func(*call) error {
		return func(c *call) error {
			b, err := c.awake(envdPort)
			if err != nil {
				return err
			}
			return serve(c, b)
		}
	}
	with := func(path, id, tool string, do func(c *call, b *box) error) {
		add("POST", "/sandbox/"+path, id, tool, "Serve envd's "+path+".", serve(do))
	}
	at := func(method, path, id, tool, summary string, do func(c *call, b *box) error) {
		add(method, "/sandbox"+path, id, tool, summary, serve(do))
	}
	at("GET", "/files", "read_file", read, "Read a file.", (*call).readFile)
	at("POST", "/files", "write_files", write, "Write files.", (*call).writeFiles)
	const fs, process = "filesystem.Filesystem/", "process.Process/"
	with(fs+"Stat", "stat", see, unary(onPath("stat")))
	with(fs+"MakeDir", "make_dir", write, unary(onPath("make")))
	with(fs+"Move", "move", write, unary(onPath("move")))
	with(fs+"Remove", "remove", write, unary(onPath("remove")))
	with(fs+"ListDir", "list_dir", see, unary((*call).listDir))
	with(fs+"WatchDir", "watch_dir", see, streaming(func(ctx context.Context, c *call, b *box, r pathRequest, out *stream) error {
		return c.watchDir(ctx, b, r, out)
	}))
	with(fs+"CreateWatcher", "create_watcher", see, unary((*call).createWatcher))
	with(fs+"GetWatcherEvents", "watcher_events", see, unary((*call).watcherEvents))
	with(fs+"RemoveWatcher", "remove_watcher", see, unary((*call).removeWatcher))
	with(process+"List", "list_processes", bash, unary((*call).listProcesses))
	with(process+"Start", "start_process", bash, streaming(func(ctx context.Context, c *call, b *box, r startRequest, out *stream) error {
		return c.startProcess(ctx, b, r, out)
	}))
	with(process+"Connect", "connect_process", bash, streaming(func(ctx context.Context, c *call, b *box, r processRequest, out *stream) error {
		return c.connectProcess(ctx, b, r, out)
	}))
	with(process+"StreamInput", "stream_input", bash, streaming(func(ctx context.Context, c *call, b *box, r inputEvent, out *stream) error {
		return c.streamInput(ctx, b, r, out)
	}))
	with(process+"SendInput", "send_input", bash, onProcess(func(ctx context.Context, p *program, r processRequest) error { return p.write(ctx, r.Input) }))
	with(process+"SendSignal", "send_signal", bash, onProcess(signalProcess))
	with(process+"Update", "update_process", bash, onProcess(resizeProcess))
	with(process+"CloseStdin", "close_stdin", bash, onProcess(closeInput))
}

// awake finds the sandbox for a request to one of its ports.
func (c *call) awake(port string) (*box, error) {
	b, err := c.find(c.r.Header.Get(headerID))
	if err != nil {
		return nil, refuse(gone, notRunning)
	}
	b.mu.Lock()
	sleeps, wakes := b.record.Paused, b.record.AutoWake
	b.mu.Unlock()
	switch {
	case sleeps && !wakes:
		return nil, refuse(gone, notRunning)
	case sleeps:
		if err := c.update(b, func(of *record) { of.Paused, of.Ends = false, time.Now().Add(defaultWake) }); err != nil {
			return nil, err
		}
		c.schedule(b)
	}
	if given := c.r.Header.Get(headerPort); given != "" && given != port {
		return nil, refuse(gone, portClosed)
	}
	return b, nil
}

const defaultWake = 5 * time.Minute // of a sandbox that a request wakes

// pathRequest is any message in filesystem.proto.
type pathRequest struct {
	Path         string            `json:"path,omitempty"`
	Source       string            `json:"source,omitempty"`
	Destination  string            `json:"destination,omitempty"`
	Depth        int               `json:"depth,omitempty"`
	Recursive    bool              `json:"recursive,omitempty"`
	IncludeEntry bool              `json:"includeEntry,omitempty"`
	Watcher      string            `json:"watcherId,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// launch starts a helper operation.
func (c *call) launch(ctx context.Context, b *box, operation string, request any) (*sandbox.Program, *lines, error) {
	given, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	timeout, changes := helperTime, slices.Contains([]string{"write", "make", "move", "remove"}, operation)
	if operation == "watch" {
		timeout = 0
	}
	p, err := c.program(ctx, b, sandbox.ProgramSpec{
		SessionID: b.record.ID, Argv: []string{"python3", "-I", "-S", "-c", helper, operation, string(given)}, Title: operation + " " + string(given),
		NoGrowth: operation == "remove" || !changes, NoChange: !changes, Unlisted: true, Timeout: timeout,
	})
	if err != nil {
		return nil, nil, err
	}
	answer := newLines(p)
	context.AfterFunc(ctx, answer.close) // a waiting helper ends with its caller
	return p, answer, nil
}

// lines reads the lines of a helper's answer, and what follows them.
type lines struct {
	*bufio.Reader
	pipe    *io.PipeReader
	program *sandbox.Program
}

func newLines(p *sandbox.Program) *lines {
	read, write := io.Pipe()
	go func() {
		var err error
		for out := range p.Output {
			if out.Stream == "stdout" && err == nil {
				_, err = write.Write(out.Data)
			}
			if out.Exit != nil && (out.Exit.Code != 0 || out.Exit.Lost != nil) && err == nil {
				err = &rpcError{Code: codeUnavailable, Message: "the sandbox could not do it"}
				_ = write.CloseWithError(err)
			}
		}
		_ = write.Close()
	}()
	return &lines{bufio.NewReaderSize(read, maxLine), read, p}
}

// close ends the helper, if it goes on.
func (l *lines) close() {
	_ = l.pipe.CloseWithError(io.ErrClosedPipe)
	l.program.Kill()
}

// next returns the next line; io.EOF behind the last one. An error in it is the error.
func (l *lines) next() ([]byte, error) {
	line, err := l.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	var answer struct{ Error *rpcError }
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, &rpcError{Code: codeUnavailable, Message: "the sandbox's answer makes no sense"}
	}
	if answer.Error != nil {
		if statuses[answer.Error.Code] == 0 {
			answer.Error.Code = codeInternal
		}
		return nil, answer.Error
	}
	return line, nil
}

// operate runs a helper operation to its end, with input if that is not nil.
func (c *call) operate(b *box, operation string, request any, content io.Reader, line func([]byte) error) error {
	ctx := c.r.Context()
	p, answer, err := c.launch(ctx, b, operation, request)
	if err != nil {
		return err
	}
	defer answer.close()
	failed := make(chan error, 1)
	var isOver atomic.Bool // then the request's body is not read any more
	defer isOver.Store(true)
	go func() {
		var err error
		if content != nil {
			_, err = io.Copy(writer{ctx, p}, readerFunc(func(into []byte) (int, error) {
				if isOver.Load() {
					return 0, io.ErrClosedPipe
				}
				return content.Read(into)
			}))
		}
		if err == nil {
			_ = p.CloseInput(ctx)
		} else {
			p.Kill()
		}
		failed <- err
	}()
	for {
		text, err := answer.next()
		if err == nil {
			err = line(text)
			if err == nil {
				continue
			}
		}
		if err == io.EOF { //nolint:errorlint // bufio's own
			return <-failed
		}
		if content != nil {
			select {
			case broken := <-failed:
				if broken != nil {
					return broken
				}
			default:
			}
		}
		return err
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

// writer is a program's input.
type writer struct {
	ctx context.Context
	p   *sandbox.Program
}

func (w writer) Write(data []byte) (int, error) { return len(data), w.p.Write(w.ctx, data) }

// onPath serves a call whose answer is the helper's only line, if any.
func onPath(operation string) func(c *call, b *box, r pathRequest) (any, error) {
	return func(c *call, b *box, r pathRequest) (any, error) {
		if err := c.checkUser(c.r.Header.Get(headerUser)); err != nil {
			return nil, err
		}
		r.Metadata = nil
		answer := json.RawMessage("{}")
		err := c.operate(b, operation, r, nil, func(line []byte) error {
			answer = bytes.Clone(line)
			return nil
		})
		return answer, err
	}
}

func (c *call) listDir(b *box, r pathRequest) (any, error) {
	if err := c.checkUser(c.r.Header.Get(headerUser)); err != nil {
		return nil, err
	}
	found := valueList{all: []json.RawMessage{}}
	err := c.operate(b, "list", r, nil, func(line []byte) error {
		var one struct{ Entry entry }
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		return found.add(c.r.Context(), one.Entry)
	})
	return object{"entries": found.all}, err
}

// Files over HTTP ------------------------------------------------------------------

// httpError returns a helper's error with the status that the vendor answers.
func httpError(err error) error {
	var told *refused
	if errors.As(err, &told) {
		return told
	}
	status, rpc := statusOf(err), rpcOf(err)
	var own *rpcError
	if errors.As(err, &own) {
		status = own.status()
	}
	if rpc.Full {
		status = http.StatusInsufficientStorage
	}
	return refuse(status, "%s", rpc.Message)
}

func (c *call) readFile(b *box) error {
	query := c.r.URL.Query()
	if err := c.checkUser(query.Get("username")); err != nil {
		return httpError(err)
	}
	_, answer, err := c.launch(c.r.Context(), b, "read", pathRequest{Path: query.Get("path")})
	if err != nil {
		return err
	}
	defer answer.close()
	line, err := answer.next()
	var head struct{ Size int64 }
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	if err != nil {
		return httpError(err)
	}
	header := c.w.Header()
	file := &moved{to: sandbox.Out, path: query.Get("path"), Reader: httputil.NewChunkedReader(answer)}
	defer func() { c.report(b, file, max(head.Size, file.bytes)) }()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", "attachment") // never a page of this server's origin
	header.Set("Vary", "Accept-Encoding")
	to := io.Writer(paced{c.w, http.NewResponseController(c.w)})
	done := func() error { return nil }
	if strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set(headerEncoding, "gzip")
		if _, err := room.Take(c.r.Context(), gzipRoom); err != nil {
			return err
		}
		packed := gzip.NewWriter(to)
		to, done = packed, packed.Close
	}
	if _, err := io.Copy(to, file); err != nil || done() != nil {
		panic(http.ErrAbortHandler) // the client has a part, and must not take it for the file
	}
	return nil
}

// moved is a file's content on its way.
type moved struct {
	io.Reader
	to    sandbox.Direction
	path  string
	bytes int64
}

func (m *moved) Read(data []byte) (int, error) {
	n, err := m.Reader.Read(data)
	m.bytes += int64(n)
	return n, err
}

// report tells the server's observers of a file that came or went.
func (c *call) report(b *box, m *moved, size int64) {
	path := strings.TrimPrefix(realPath(m.path), engine.WorkDir+"/")
	c.Sessions().FileMoved(c.r.Context(), sandbox.Transfer{Direction: m.to, Session: b.record.ID, Path: path, Size: size, Bytes: m.bytes})
}

// paced is an answer whose reader must go on.
type paced struct {
	io.Writer
	control *http.ResponseController
}

func (p paced) Write(data []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(web.WriteTime))
	return p.Writer.Write(data)
}

func (c *call) writeFiles(b *box) error {
	query := c.r.URL.Query()
	if err := c.checkUser(query.Get("username")); err != nil {
		return httpError(err)
	}
	metadata, err := metadataOf(c.r.Header)
	if err != nil {
		return err
	}
	written := valueList{all: []json.RawMessage{}}
	put := func(name string, content io.Reader) error {
		if given := query.Get("path"); given != "" {
			name = given
		}
		one, err := c.put(b, name, content, metadata)
		if err == nil {
			err = written.add(c.r.Context(), one)
		}
		if err != nil {
			return httpError(err)
		}
		return nil
	}
	if strings.HasPrefix(strings.ToLower(c.r.Header.Get("Content-Type")), "multipart/") {
		err = apis.EachFile(c, c.w, c.r, put)
	} else {
		var content io.Reader
		if content, err = c.content(); err == nil && query.Get("path") == "" {
			err = refuse(http.StatusBadRequest, "path is missing")
		}
		if err == nil {
			err = put("", content)
		}
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, written.all)
}

// content is a body, perhaps unpacked. It has no more bytes than a file may have.
func (c *call) content() (io.Reader, error) {
	body, most := c.Uploaded(c.w, c.r)
	switch c.r.Header.Get(headerEncoding) {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "the body is no gzip")
		}
		body = unpacked
	default:
		return nil, refuse(http.StatusBadRequest, "the body may be packed by gzip alone")
	}
	if volume := c.Sessions().Config().VolumeBytes; most <= 0 || volume > 0 && volume < most {
		most = volume
	}
	if most <= 0 {
		return body, nil
	}
	return &bounded{body, most}, nil
}

// bounded is a content with an error behind its bound.
type bounded struct {
	io.Reader
	left int64 // bytes
}

func (b *bounded) Read(data []byte) (int, error) {
	n, err := b.Reader.Read(data)
	if b.left -= int64(n); b.left < 0 {
		return 0, refuse(http.StatusInsufficientStorage, "the file is longer than the sandbox's disk")
	}
	return n, err
}

// writtenFile is a file in the answer to a write.
type writtenFile struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// put writes a file, with its folders.
func (c *call) put(b *box, name string, content io.Reader, metadata map[string]string) (writtenFile, error) {
	var one struct{ Entry writtenFile }
	file := &moved{Reader: content, to: sandbox.In, path: name}
	err := c.operate(b, "write", metadataRequest{pathRequest{Path: name}, metadata}, file, func(line []byte) error {
		return json.Unmarshal(line, &one)
	})
	one.Entry.Type = "file"
	if err == nil {
		c.report(b, file, file.bytes)
	}
	return one.Entry, err
}

// metadataRequest sets a file's metadata, also to none.
type metadataRequest struct {
	pathRequest
	Metadata map[string]string `json:"metadata"`
}

const (
	metadataHeader = "X-Metadata-"
	maxKey         = 246
	maxMetadata    = 4096
)

func metadataOf(h http.Header) (map[string]string, error) {
	found := make(map[string]string)
	bytes := 0
	for name, values := range h {
		key, is := strings.CutPrefix(name, metadataHeader)
		if !is {
			continue
		}
		plain := strings.ContainsFunc(key+values[0], func(r rune) bool { return r < ' ' || r > '~' })
		if bytes += len("user.e2b.") + len(key) + len(values[0]); plain || key == "" || len(key) > maxKey || bytes > maxMetadata {
			return nil, refuse(http.StatusBadRequest, "the metadata must be printable ASCII of at most %d bytes", maxMetadata)
		}
		found[strings.ToLower(key)] = values[0]
	}
	return found, nil
}

// Watching -------------------------------------------------------------------------

// watch starts to watch a folder, and returns when it is watched.
func (c *call) watch(ctx context.Context, b *box, r pathRequest) (*lines, error) {
	if err := c.checkUser(c.r.Header.Get(headerUser)); err != nil {
		return nil, err
	}
	_, answer, err := c.launch(ctx, b, "watch", r)
	if err != nil {
		return nil, err
	}
	if _, err := answer.next(); err != nil {
		answer.close()
		return nil, err
	}
	return answer, nil
}

type watchedEvent struct {
	Event struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Entry *entry `json:"entry,omitempty"`
	} `json:"event"`
}

func (c *call) watchDir(ctx context.Context, b *box, r pathRequest, out *stream) error {
	answer, err := c.watch(ctx, b, r)
	if err != nil {
		return err
	}
	defer answer.close()
	if err := out.send(0, object{"start": object{}}); err != nil {
		return err
	}
	pings := c.pings()
	defer pings.Stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-pings.C:
				if out.send(0, object{"keepalive": object{}}) != nil {
					answer.close()
				}
			case <-done:
				return
			}
		}
	}()
	for {
		line, err := answer.next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var one watchedEvent
		if err == nil {
			err = json.Unmarshal(line, &one)
		}
		if err == nil {
			err = out.send(0, object{"filesystem": one.Event})
		}
		if err != nil {
			return err
		}
	}
}

// watcher keeps events until they are asked for.
type watcher struct {
	lines  *lines
	mu     sync.Mutex
	events []json.RawMessage
	bytes  int // of them
	err    error
}

func (c *call) createWatcher(b *box, r pathRequest) (any, error) {
	id := state.NewID("w")
	b.mu.Lock()
	full := len(b.watchers) >= maxWatchers
	if !full {
		b.watchers[id] = nil // it takes its place
	}
	b.mu.Unlock()
	if full {
		return nil, &rpcError{Code: "resource_exhausted", Message: "too many watchers"}
	}
	answer, err := c.watch(context.WithoutCancel(c.r.Context()), b, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		delete(b.watchers, id)
		return nil, err
	}
	w := &watcher{lines: answer}
	b.watchers[id] = w
	go w.collect()
	return object{"watcherId": id}, nil
}

func (w *watcher) collect() {
	for {
		line, err := w.lines.next()
		var one watchedEvent
		if err == nil {
			err = json.Unmarshal(line, &one)
		}
		text := web.Encode(one.Event)
		w.mu.Lock()
		if w.err = err; err == nil && w.bytes+len(text)+perValue <= maxWaiting {
			w.events, w.bytes = append(w.events, text), w.bytes+len(text)+perValue
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (b *box) watcher(id string, remove bool) (*watcher, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watchers[id]
	if w == nil {
		return nil, &rpcError{Code: codeNotFound, Message: "watcher with that id not found"}
	}
	if remove {
		delete(b.watchers, id)
	}
	return w, nil
}

func (c *call) watcherEvents(b *box, r pathRequest) (any, error) {
	w, err := b.watcher(r.Watcher, false)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	events := append([]json.RawMessage{}, w.events...)
	w.events, w.bytes = nil, 0
	if len(events) == 0 && w.err != nil {
		_, _ = b.watcher(r.Watcher, true)
		return nil, &rpcError{Code: codeNotFound, Message: "the watcher has ended: make another one"}
	}
	return object{"events": events}, nil
}

func (c *call) removeWatcher(b *box, r pathRequest) (any, error) {
	w, err := b.watcher(r.Watcher, true)
	if err == nil {
		w.lines.close()
	}
	return object{}, err
}
