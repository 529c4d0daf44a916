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

// artifacts are the settings of where artifacts go.
type artifacts struct{ *Settings }

// address returns where artifacts go; ok is false where they go nowhere.
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
	if s.tenant != "" { // sessions of several may have the same name
		address = address.Below(principalsFolder + "/" + s.tenant)
	}
	return address, true, nil
}

// clientUploads is how many files go to stores of clients at once; each takes some memory.
const clientUploads = 32

// open returns what brings artifacts to where the settings say, or the clients, where they may; nil: nowhere.
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

// azureContainer is the container of Azure Blob where none is named, as another system has it.
func (s artifacts) azureContainer() string {
	name, _ := s.env.lookup("AZURE_BLOB_CONTAINER_NAME")
	return cmp.Or(name, "code-interpreter-artifacts")
}

// withStoreSecrets adds what opens the store to what is masked. It never goes into the sandbox.
func (s artifacts) withStoreSecrets(secrets map[string]string) map[string]string {
	if address, ok, _ := s.address(); ok {
		maps.Copy(secrets, address.Secrets(s.env.lookup))
	}
	return secrets
}
