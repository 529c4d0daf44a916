package server

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// Bounds of the object store.
const (
	storeFileBytes    = 100 << 20 // of a file
	storeLinkLifetime = 24 * time.Hour
)

// clientUploads bounds the concurrent uploads to stores of clients; each takes some memory.
const clientUploads = 32

// storeChecks report whether the object store takes a small file, doctor/check.txt.
func storeChecks(ctx context.Context, s *setting.ArtifactStore, lookup func(string) (string, bool)) []doctor.Check {
	address, ok, _ := s.Parse() // the settings were checked
	if !ok {
		return nil
	}
	store := artifactstore.Open(address, artifactstore.Options{LinkLifetime: time.Minute, FileBytes: storeFileBytes, Lookup: lookup, Logger: slog.Default()})
	defer store.Close()
	const content = "code-sandbox-mcp doctor\n"
	outcome := store.Upload(ctx, artifactstore.Batch{Session: "doctor", Files: []artifactstore.File{{Path: "check.txt", MIMEType: "text/plain"}},
		Open: func(context.Context, string) (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader(content)), int64(len(content)), nil
		}})
	check := doctor.Check{Name: "artifact store", Status: doctor.OK, Found: store.String() + ", takes files"}
	if outcome.Note != "" {
		check.Status, check.Found, check.Why = doctor.Warn, outcome.Note, "artifacts will not be uploaded"
		check.Fix = "set the store's credentials and address in the client's env for this server"
	}
	return []doctor.Check{check}
}

// openStore returns the store of the settings, or of the clients if they may bring one; nil: none. tenant is the key of a principal, empty for
// the owner.
func openStore(s *setting.ArtifactStore, tenant string, fromClients bool, lookup func(string) (string, bool), log *slog.Logger) *tools.Store {
	options := artifactstore.Options{LinkLifetime: storeLinkLifetime, FileBytes: storeFileBytes, Lookup: lookup, Logger: log}
	var own *artifactstore.Store
	address, ok, _ := s.Parse() // the settings were checked
	if tenant != "" {           // sessions of several principals may share a name
		address = address.Below(principalsFolder + "/" + tenant)
	}
	switch {
	case ok:
		own = artifactstore.Open(address, options)
		if problem := own.Problem(); problem != nil {
			log.Warn("artifacts will not be uploaded", "store", own.String(), "problem", problem)
		}
	case !fromClients:
		return nil
	}
	options.Shared = semaphore.NewWeighted(clientUploads)
	return tools.NewStore(own, func(of clientheader.Store) *artifactstore.Store {
		return artifactstore.OpenAzure(of.Connection, cmp.Or(of.Container, setting.AzureContainer(lookup)), options)
	}, log)
}
