package tools

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// slowStore is a store that takes files only when it is let.
type slowStore struct {
	*Store
	log     locked.Buffer
	arrived chan string   // the path of each request
	let     chan struct{} // closed: they are answered
	broken  chan string   // the path of each request whose client gave up
}

func newSlowStore(t *testing.T) *slowStore {
	s := &slowStore{arrived: make(chan string, 200), let: make(chan struct{}), broken: make(chan string, 10)}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.arrived <- r.URL.Path
		select {
		case <-s.let:
		case <-r.Context().Done():
			s.broken <- r.URL.Path
		}
	}))
	t.Cleanup(web.Close)
	address, err := artifactstore.Parse("s3://bucket?region=here&endpoint=" + web.URL)
	must.OK(t, err)
	variables := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter22"}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.Store = NewStore(artifactstore.Open(address, artifactstore.Options{
		LinkLifetime: 1e9, FileBytes: 1 << 20, Logger: log,
		Lookup: func(name string) (string, bool) { value, set := variables[name]; return value, set },
	}), nil, log)
	return s
}

// send brings files to the store.
func (s *slowStore) send(session string, paths ...string) *delivery {
	open := func(string) artifactstore.OpenFile {
		return func(context.Context, string) (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader("content")), 7, nil
		}
	}
	return s.deliver(nil, open, func() (string, []artifactstore.File, int) {
		var list []artifactstore.File
		for _, path := range paths {
			list = append(list, storeFile(path, 7))
		}
		return session, list, 0
	})
}

func TestFilesOnTheirWayAreWaitedForAtTheEnd(t *testing.T) {
	s := newSlowStore(t)
	way := s.send("s", "a.txt")
	<-s.arrived
	ended := make(chan struct{})
	go func() { s.Close(context.Background()); close(ended) }()
	close(s.let)
	<-ended
	if <-way.done; len(way.outcome.Links) != 1 || s.log.String() != "" {
		t.Errorf("%+v, the log is %s", way.outcome, s.log.String())
	}
}

func TestFilesThatAreGivenUpAtTheEndAreLogged(t *testing.T) {
	s := newSlowStore(t)
	way := s.send("s", "a.txt", "b c.txt")
	<-s.arrived
	<-s.arrived
	late, cancel := context.WithCancel(t.Context())
	cancel()
	s.Close(late)
	if want := `msg="the server is ending; files may not be in the store" store=s3://bucket session=s files=2 paths="[a.txt b c.txt]"`; !strings.Contains(s.log.String(), want) {
		t.Errorf("%s is not in the log: %s", want, s.log.String())
	}
	<-s.broken // nothing goes on in secret
	<-s.broken
	if <-way.done; len(way.outcome.Links) > 0 || !strings.Contains(way.outcome.Note, "the server is ending") {
		t.Errorf("%+v", way.outcome)
	}
	// What ends only now has nowhere to go.
	if after := s.send("later", "c.txt"); after != nil {
		<-after.done
	}
	should.Contain(t, s.log.String(), "session=later files=1 paths=[c.txt]", "the log")
	var none *Store
	none.Close(t.Context())
}

// Of a run, in the process of a real supervisor: more files than its result lists, and a name that no list has.
func TestFilesThatARunDoesNotListAreNoted(t *testing.T) {
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
	}
	manager := sandbox.NewManager(config)
	t.Cleanup(func() { manager.Close(context.Background()) })
	s := newSlowStore(t)
	close(s.let)
	d := &Deps{Manager: manager, Store: s.Store}
	for _, test := range []struct {
		code  string
		links int
		note  string
	}{
		{"for i in range(104): open(f'{i}.txt', 'w').close()", 100, "4 of 104 files"},
		{"open('a\\tb', 'w').close(); open('c', 'w').close()", 1, "1 of 2 files"},
		{"open('a\\nb', 'w').close()", 0, "1 of 1 files"},
		{"open('d', 'w').close()", 1, ""},
	} {
		run, err := manager.Run(sandbox.RunOptions{Language: sandbox.Python, Code: test.code})
		must.OK(t, err)
		way := d.Store.deliverRun(t.Context(), d.Manager, run)
		<-way.done
		if test.note != "" {
			test.note += " not uploaded to s3://bucket: at most the 100 newest of a run are, and none with control characters in its name. Pack many into an archive."
		}
		if o := way.outcome; len(o.Links) != test.links || o.Note != test.note {
			t.Errorf("%s: %d links, %q", test.code, len(o.Links), o.Note)
		}
	}
}

// Over REST a run is asked for by requests that may have other headers: addresses in a client's own store are for that client alone.
func TestAddressesInAClientsStoreAreForIt(t *testing.T) {
	done := make(chan struct{})
	close(done)
	own := map[string]string{"X-Blob-Connection-String": "AccountKey=abcdef", "X-Blob-Container-Name": "mine"}
	asks := func(headers map[string]string) context.Context {
		h := make(http.Header)
		for name, value := range headers {
			h.Set(name, value)
		}
		return clientheader.With(t.Context(), clientheader.Read(h, clientheader.Bounds{}, true))
	}
	w := &delivery{of: clientheader.Of(asks(own)).OwnStore(), done: done, outcome: artifactstore.Outcome{Links: map[string]string{"a.txt": "https://signed"}}}
	for name, test := range map[string]struct {
		headers map[string]string
		want    int
	}{
		"its own":           {own, 1},
		"none":              {nil, 0},
		"another container": {map[string]string{"X-Blob-Connection-String": own["X-Blob-Connection-String"], "X-Blob-Container-Name": "other"}, 0},
		"another key":       {map[string]string{"X-Blob-Connection-String": "AccountKey=x", "X-Blob-Container-Name": "mine"}, 0},
	} {
		if links, note := w.await(asks(test.headers), ""); len(links) != test.want || (note == "") != (test.want == 1) {
			t.Errorf("%s: %v, %q", name, links, note)
		}
	}
}
