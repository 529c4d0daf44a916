package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// ArtifactStoreSettings configure the object store of new files.
type ArtifactStoreSettings struct {
	Address      string
	FileBytes    int64 // of the largest file
	LinkLifetime time.Duration
}

// parse returns the store's address; ok is false if none is set.
func (s *ArtifactStoreSettings) parse() (address artifactstore.Address, ok bool, err error) {
	if s.Address == "" || s.Address == "off" {
		return address, false, nil
	}
	if address, err = artifactstore.Parse(s.Address); err != nil {
		return address, false, fmt.Errorf("--artifact-store: %w", err)
	}
	if err := address.CheckLifetime(s.LinkLifetime); err != nil {
		return address, false, fmt.Errorf("--artifact-link-lifetime: %w", err)
	}
	return address, true, nil
}

// clientUploads bounds the concurrent uploads to stores of clients; each takes some memory.
const clientUploads = 32

// open returns the store of the settings, or of the clients if they may bring one; nil: none. tenant is the key of a principal, empty for
// the owner.
func (s *ArtifactStoreSettings) open(tenant string, fromClients bool, lookup func(string) (string, bool), log *slog.Logger) *tools.Store {
	options := artifactstore.Options{LinkLifetime: s.LinkLifetime, FileBytes: s.FileBytes, Lookup: lookup, Logger: log}
	var own *artifactstore.Store
	address, ok, _ := s.parse() // the settings were checked
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
		return artifactstore.OpenAzure(of.Connection, cmp.Or(of.Container, azureContainer(lookup)), options)
	}, log)
}

// azureContainer returns the container of Azure Blob if the setting names none: another system's variable.
func azureContainer(lookup func(string) (string, bool)) string {
	name, _ := lookup("AZURE_BLOB_CONTAINER_NAME")
	return cmp.Or(name, "code-interpreter-artifacts")
}

// withSecrets adds the store's credentials to the masked values. They never go into the sandbox.
func (s *ArtifactStoreSettings) withSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	if address, ok, _ := s.parse(); ok {
		maps.Copy(masked, address.Secrets(lookup))
	}
	return masked
}
