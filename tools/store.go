package tools

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

const (
	// storePatience is how long an answer waits for files that go to the store. They go on afterwards.
	storePatience = 10 * time.Second
	// keptDeliveries is of how many runs it is known that their files are in the store.
	keptDeliveries = 200
	// lostFiles is how many of the files that were not uploaded the log names.
	lostFiles = 20
)

// Store brings artifacts to an object store. Its zero value is not usable; nil: there is no store.
type Store struct {
	own  *artifactstore.Store
	open func(clientheader.Store) *artifactstore.Store
	log  *slog.Logger

	ending context.Context // of all uploads
	end    context.CancelFunc

	mu     sync.Mutex
	byRun  map[string]*delivery
	order  []string                 // of the runs, the first delivered first
	onWay  map[*delivery]unfinished // to a store
	closed bool
}

// unfinished is a delivery under way.
type unfinished struct {
	store, session string
	files          []artifactstore.File
}

// NewStore returns a Store that delivers artifacts to the server's own store, or to the one that a client's headers name, which open opens.
// own is nil if the server uses none. The log gets the deliveries that are lost at the end.
func NewStore(own *artifactstore.Store, open func(clientheader.Store) *artifactstore.Store, log *slog.Logger) *Store {
	s := &Store{own: own, open: open, log: log, byRun: make(map[string]*delivery), onWay: make(map[*delivery]unfinished)}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// Close waits for the deliveries under way until ctx ends, and logs those that it gives up. Later deliveries are dropped. It may be called
// on nil.
func (s *Store) Close(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	onWay := maps.Clone(s.onWay)
	s.mu.Unlock()
	for way, what := range onWay {
		select {
		case <-way.done:
			continue
		case <-ctx.Done():
		}
		select {
		case <-way.done:
		default:
			s.lose(what)
		}
	}
	s.end()
}

// lose logs files that are not uploaded, because the server ends.
func (s *Store) lose(lost unfinished) {
	paths := make([]string, 0, lostFiles)
	for _, f := range lost.files[:min(len(lost.files), lostFiles)] {
		paths = append(paths, f.Path)
	}
	s.log.Warn("the server is ending; files may not be in the store", "store", lost.store, "session", lost.session, "files", len(lost.files), "paths", paths)
}

// begin notes that files are on their way, and reports whether they may go.
func (s *Store) begin(way *delivery, what unfinished) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.lose(what)
		return false
	}
	s.onWay[way] = what
	return true
}

func (s *Store) ended(way *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.onWay, way)
}

// delivery is files on their way to the store.
type delivery struct {
	of      *clientheader.Store // nil: it is the server's own
	done    chan struct{}
	outcome artifactstore.Outcome // when that is closed
}

// deliver uploads the files that files returns to the store of a call, in the background. It opens a client's own store for that call alone.
// omitted counts the listed files that are missing from files.
func (s *Store) deliver(asked *clientheader.Asked, open func(session string) artifactstore.OpenFile, files func() (session string, list []artifactstore.File, omitted int)) *delivery {
	of := asked.OwnStore()
	if s == nil || of == nil && s.own == nil {
		return nil
	}
	way := &delivery{of: of, done: make(chan struct{})}
	go func() {
		defer close(way.done)
		session, list, omitted := files()
		if len(list)+omitted == 0 {
			return
		}
		to := s.own
		if of != nil {
			to = s.open(*of)
			defer to.Close()
		}
		if !s.begin(way, unfinished{to.String(), session, list}) {
			return
		}
		defer s.ended(way)
		way.outcome = to.Upload(s.ending, artifactstore.Batch{Session: session, Files: list, Open: open(session), LinkLifetime: asked.Bounds().LinkLifetime})
		if omitted > 0 {
			way.outcome.Note = sentences(fmt.Sprintf("%d of %d files not uploaded to %s: at most the %d newest of a run are, and none with control characters in its name. Pack many into an archive.",
				omitted, len(list)+omitted, to, sandbox.MaxArtifacts), way.outcome.Note)
		}
	}()
	return way
}

// deliverRun brings the files of a run to the store when it is over, once: to that of the call that began it.
func (s *Store) deliverRun(ctx context.Context, from *sandbox.Manager, run *sandbox.Run) *delivery {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if way := s.byRun[run.ID]; way != nil {
		return way
	}
	way := s.deliver(clientheader.Of(ctx), openFrom(from), func() (string, []artifactstore.File, int) {
		<-run.Done()
		res, err := run.Result()
		if err != nil {
			return "", nil, 0
		}
		list := make([]artifactstore.File, len(res.Artifacts))
		for i, a := range res.Artifacts {
			list[i] = storeFile(a.Path, a.SizeBytes)
		}
		return res.SessionID, list, max(0, res.ArtifactsTotal-len(list))
	})
	if way == nil {
		return nil
	}
	if len(s.order) == keptDeliveries {
		delete(s.byRun, s.order[0])
		s.order = s.order[1:]
	}
	s.byRun[run.ID], s.order = way, append(s.order, run.ID)
	return way
}

// deliverFile brings one file to the store, as deliverRun does.
func (s *Store) deliverFile(ctx context.Context, from *sandbox.Manager, session, path string, size int64) *delivery {
	return s.deliver(clientheader.Of(ctx), openFrom(from), func() (string, []artifactstore.File, int) {
		return session, []artifactstore.File{storeFile(path, size)}, 0
	})
}

func storeFile(path string, size int64) artifactstore.File {
	return artifactstore.File{Path: path, SizeBytes: size, MIMEType: content.TypeByName(path)}
}

func openFrom(m *sandbox.Manager) func(session string) artifactstore.OpenFile {
	return func(session string) artifactstore.OpenFile {
		return func(ctx context.Context, path string) (io.ReadCloser, int64, error) {
			r, err := m.OpenFile(ctx, session, path, sandbox.ReadOptions{Limit: -1})
			if err != nil {
				return nil, 0, err
			}
			return r, r.File().SizeBytes, nil
		}
	}
}

// await returns the links of a delivery, and a note if it is not over in time; later names the tool that then gives the addresses. Links
// into a client's own store need its credentials. A nil delivery holds nothing.
func (w *delivery) await(ctx context.Context, later string) (links map[string]string, note string) {
	if w == nil {
		return nil, ""
	}
	if asks := clientheader.Of(ctx).OwnStore(); w.of != nil && (asks == nil || *asks != *w.of) {
		return nil, "The files go to the store of the client that ran the code; the requests that name it get their addresses."
	}
	patience := time.NewTimer(storePatience)
	defer patience.Stop()
	select {
	case <-w.done:
		return w.outcome.Links, w.outcome.Note
	case <-patience.C:
	case <-ctx.Done():
	}
	return nil, "The files are still being uploaded to the store" + later + "."
}

// name is the store as session_info names it. It may be called on nil.
func (s *Store) name(ctx context.Context) string {
	if s == nil {
		return ""
	}
	if of := clientheader.Of(ctx).OwnStore(); of != nil {
		return s.open(*of).String()
	}
	if s.own == nil {
		return ""
	}
	return s.own.String()
}
