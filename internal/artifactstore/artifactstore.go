// Package artifactstore copies files of sessions to an object store, and makes an address for each by which anybody can read it
// for a while.
//
// Start with Parse, which parses the store's address, and Open. A store is not contacted before there is a file
// for it. Credentials come from the environment, or from the caller of OpenAzure; no error, note or address of this package
// contains one.
package artifactstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	uploadTime = 5 * time.Minute  // for all files of a run
	attempts   = 3                // at a file, where the store or the way to it fails
	firstPause = time.Second / 2  // before the second attempt; twice that before the third
	downPause  = 30 * time.Second // in which a store that did not answer is not asked again
	atOnce     = 4                // uploads
	maxKey     = 1024             // bytes; the limit of all stores
	namedFiles = 3                // of those that a note is about
)

// Options configure a store.
type Options struct {
	LinkLifetime time.Duration                    // of an address
	FileBytes    int64                            // the largest file that is uploaded
	Lookup       func(name string) (string, bool) // of the environment
	Logger       *slog.Logger                     // hears why uploads failed
	Now          func() time.Time                 // nil: time.Now
	Shared       *semaphore.Weighted              // bounds the uploads of several stores together; nil: nothing does
}

// File is a file of a session that goes to the store.
type File struct {
	Path      string // below the session's work directory, in its shortest form
	SizeBytes int64
	MIMEType  string
}

// OpenFile opens a file of the session for reading, and says how large it is.
type OpenFile func(ctx context.Context, path string) (content io.ReadCloser, size int64, err error)

// Store is a place for files. It is safe for use by several goroutines.
type Store struct {
	address Address
	options Options
	client  *http.Client
	bucket  bucket
	problem error // why there is no bucket
	slots   *semaphore.Weighted

	mu        sync.Mutex
	downUntil time.Time
	down      string // why

	creating sync.Mutex
}

// bucket is the part that differs between the kinds of stores. Errors are the store's own library's; see explain.
type bucket interface {
	// put writes an object of exactly size bytes, and replaces an existing one.
	put(ctx context.Context, key, mime string, size int64, content io.Reader) error
	// create makes the bucket. That there is one is no error.
	create(ctx context.Context) error
	// link returns an address that reads an object until the lifetime is over.
	link(ctx context.Context, key string, lifetime time.Duration) (string, error)
}

// Open returns the store. It makes no connection; each upload reports an error in the credentials.
func Open(address Address, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{address: address, options: o, client: &http.Client{Transport: newTransport()}, slots: semaphore.NewWeighted(atOnce)}
	s.bucket, s.problem = kinds[address.scheme].open(address, s.client, o.Lookup)
	return s
}

// OpenAzure returns the store of a container of Azure Blob, by a connection string alone: nothing of the environment opens it. Each upload
// reports an error in either.
func OpenAzure(connection, container string, o Options) *Store {
	o.Lookup = func(name string) (string, bool) { return connection, name == "AZURE_STORAGE_CONNECTION_STRING" }
	s := Open(Address{scheme: "azblob", bucket: container}, o)
	if !bucketName.MatchString(container) {
		s.problem, s.address.bucket = badName(container), text.Shorten(container, 80)
	}
	return s
}

// Close closes the connections that no upload uses any more. The store can be used afterwards.
func (s *Store) Close() { s.client.CloseIdleConnections() }

// Problem reports why nothing can be uploaded, as far as that is known without asking the store; nil: nothing is known.
func (s *Store) Problem() error { return s.problem }

// String returns the store's address, without its parameters.
func (s *Store) String() string { return s.address.String() }

// Outcome is the result of uploading files.
type Outcome struct {
	// Links are the addresses, by the files' paths.
	Links map[string]string
	// Note reports which files were not uploaded and why; empty: all were.
	Note string
}

// Batch is files of a session.
type Batch struct {
	Session string
	Files   []File
	Open    OpenFile
	// LinkLifetime is the addresses' lifetime if it is shorter than that of Options; 0: it is not.
	LinkLifetime time.Duration
}

// Upload copies files of a session to <prefix>/<session>/<path>, and replaces existing ones. It returns when that is done or failed, after
// some minutes at the most. A file is never held in memory.
func (s *Store) Upload(ctx context.Context, b Batch) Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, uploadTime, errSlow)
	defer cancel()
	o := Outcome{Links: make(map[string]string)}
	failed := make(map[string][]string) // paths, by the reason
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, f := range b.Files {
		wg.Go(func() {
			link, err := s.upload(ctx, b, f)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				reason := explain(err).words
				failed[reason] = append(failed[reason], f.Path)
			}
			if link != "" {
				o.Links[f.Path] = link
			}
		})
	}
	wg.Wait()
	o.Note = s.note(failed, len(b.Files))
	return o
}

// upload takes a file to the store, in its turn.
func (s *Store) upload(ctx context.Context, b Batch, f File) (string, error) {
	if s.problem != nil {
		return "", s.problem
	}
	key := s.address.key(b.Session, f.Path)
	if len(key) > maxKey {
		return "", errLongKey
	}
	for _, slots := range []*semaphore.Weighted{s.slots, s.options.Shared} {
		if slots == nil {
			continue
		}
		if slots.Acquire(ctx, 1) != nil {
			return "", context.Cause(ctx)
		}
		defer slots.Release(1)
	}
	if err := s.isDown(); err != nil {
		return "", err
	}
	err := s.persist(ctx, key, f, b.Open)
	if err == nil {
		var link string
		if link, err = s.bucket.link(ctx, key, min(cmp.Or(b.LinkLifetime, s.options.LinkLifetime), s.options.LinkLifetime)); err == nil {
			return link, nil
		}
		s.options.Logger.Warn("make an address of an artifact", "store", s.String(), "key", key, "error", withoutAddress(err))
		return "", errNoLink
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	s.options.Logger.Warn("upload an artifact", "store", s.String(), "key", key, "error", withoutAddress(err))
	if e := explain(err); e.unreachable {
		s.wentDown(e.words)
	}
	return "", err
}

// persist puts a file, with a new reader for each attempt.
func (s *Store) persist(ctx context.Context, key string, f File, open OpenFile) (err error) {
	pause := firstPause
	for attempt := range attempts {
		if err = s.put(ctx, key, f, open); err == nil {
			return nil
		}
		e := explain(err)
		if e.missing && attempt == 0 {
			if err := s.create(ctx); err != nil {
				return fmt.Errorf("%w: %w", errNotMade, err)
			}
			continue
		}
		if !e.passing && !e.missing || attempt == attempts-1 {
			return err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// create makes the bucket, by one request of many that miss it.
func (s *Store) create(ctx context.Context) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	return s.bucket.create(ctx)
}

func (s *Store) put(ctx context.Context, key string, f File, open OpenFile) error {
	content, size, err := open(ctx, f.Path)
	if err != nil {
		return unreadable{err}
	}
	defer func() { _ = content.Close() }()
	if size > s.options.FileBytes {
		return tooLarge(s.options.FileBytes)
	}
	source := &exactly{from: content, left: size}
	err = s.bucket.put(ctx, key, f.MIMEType, size, source)
	if source.err != nil { // the store's words about that are of no interest
		return source.err
	}
	return err
}

// exactly reads as many bytes as were promised, and remembers why it could not. Libraries take content that seeks for
// something to read twice.
type exactly struct {
	from io.Reader
	left int64
	err  error
}

// Read implements io.Reader.
func (r *exactly) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.from.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	switch {
	case r.left == 0, err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		r.err = errChanged
	default:
		r.err = unreadable{err}
	}
	return n, r.err
}

func (s *Store) isDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.downUntil.Sub(s.options.Now()); left > 0 {
		return &known{words: fmt.Sprintf("%s; the next try is in %v", s.down, max(left.Round(time.Second), time.Second))}
	}
	return nil
}

func (s *Store) wentDown(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.downUntil = why, s.options.Now().Add(downPause)
}

// note reports the files that were not uploaded, with the reason of the most files first.
func (s *Store) note(failed map[string][]string, files int) string {
	n := 0
	for _, paths := range failed {
		n += len(paths)
	}
	if n == 0 {
		return ""
	}
	reasons := slices.SortedFunc(maps.Keys(failed), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(failed[b]), len(failed[a])), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = reason
		if n < files || len(reasons) > 1 {
			parts[i] += " (" + names(failed[reason]) + ")"
		}
	}
	return fmt.Sprintf("%d of %d files not uploaded to %s: %s.", n, files, s, strings.Join(parts, "; "))
}

func names(paths []string) string {
	slices.Sort(paths)
	shown := make([]string, 0, namedFiles)
	for _, p := range paths[:min(namedFiles, len(paths))] {
		shown = append(shown, text.Shorten(p, 80))
	}
	list := strings.Join(shown, ", ")
	if more := len(paths) - len(shown); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
