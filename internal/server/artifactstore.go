package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// artifacts reads the settings of the artifact store.
type artifacts struct{ *Settings }

// address returns the artifact store's address; ok is false if none is set.
func (s artifacts) address() (address artifactstore.Address, ok bool, err error) {
	if s.ArtifactStore == "" || s.ArtifactStore == "off" {
		return address, false, nil
	}
	if address, err = artifactstore.Parse(s.ArtifactStore); err != nil {
		return address, false, fmt.Errorf("--artifact-store: %w", err)
	}
	if err := address.CheckLifetime(s.ArtifactLinkLifetime); err != nil {
		return address, false, fmt.Errorf("--artifact-link-lifetime: %w", err)
	}
	if s.tenant != "" { // sessions of several principals may share a name
		address = address.Below(principalsFolder + "/" + s.tenant)
	}
	return address, true, nil
}

// clientUploads bounds the concurrent uploads to stores of clients; each takes some memory.
const clientUploads = 32

// open returns the store of the settings, or of the clients if they may bring one; nil: none.
func (s artifacts) open(log *slog.Logger) *tools.Store {
	options := artifactstore.Options{
		LinkLifetime: s.ArtifactLinkLifetime, FileBytes: s.ArtifactStoreLimit,
		Lookup: s.env.lookup, Logger: log,
	}
	var own *artifactstore.Store
	address, ok, _ := s.address() // the settings were checked
	switch {
	case ok:
		own = artifactstore.Open(address, options)
		if problem := own.Problem(); problem != nil {
			log.Warn("artifacts will not be uploaded", "store", own.String(), "problem", problem)
		}
	case !s.HTTP.HeaderCredentials:
		return nil
	}
	options.Shared = semaphore.NewWeighted(clientUploads)
	return tools.NewStore(own, func(of clientheader.Store) *artifactstore.Store {
		return artifactstore.OpenAzure(of.Connection, cmp.Or(of.Container, s.azureContainer()), options)
	}, log)
}

// azureContainer returns the container of Azure Blob if the setting names none: another system's variable.
func (s artifacts) azureContainer() string {
	name, _ := s.env.lookup("AZURE_BLOB_CONTAINER_NAME")
	return cmp.Or(name, "code-interpreter-artifacts")
}

// withStoreSecrets adds the store's credentials to the masked values. They never go into the sandbox.
func (s artifacts) withStoreSecrets(secrets map[string]string) map[string]string {
	if address, ok, _ := s.address(); ok {
		maps.Copy(secrets, address.Secrets(s.env.lookup))
	}
	return secrets
}
