package cli

import (
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// storeAddress is where artifacts go; ok is false where they go nowhere.
func (s *Settings) storeAddress() (address artifactstore.Address, ok bool, err error) {
	if s.ArtifactStore == "" || s.ArtifactStore == "off" {
		return address, false, nil
	}
	if address, err = artifactstore.Parse(s.ArtifactStore); err != nil {
		return address, false, fmt.Errorf("--artifact-store: %w", err)
	}
	if err := address.CheckLifetime(time.Duration(s.ArtifactLinkLifetime)); err != nil {
		return address, false, fmt.Errorf("--artifact-link-lifetime: %w", err)
	}
	return address, true, nil
}

// store brings artifacts to where the settings say; nil: nowhere.
func (s *Settings) store(log *slog.Logger) *tools.Store {
	address, ok, _ := s.storeAddress() // the settings were checked
	if !ok {
		return nil
	}
	store := artifactstore.Open(address, artifactstore.Options{
		LinkLifetime: time.Duration(s.ArtifactLinkLifetime), FileBytes: int64(s.ArtifactStoreLimit),
		Lookup: s.env.lookup, Logger: log,
	})
	if problem := store.Problem(); problem != nil {
		log.Warn("artifacts will not be uploaded", "store", store.String(), "problem", problem)
	}
	return tools.NewStore(store)
}

// withStoreSecrets adds what opens the store to what is masked. It never goes into the sandbox.
func (s *Settings) withStoreSecrets(secrets map[string]string) map[string]string {
	if address, ok, _ := s.storeAddress(); ok {
		maps.Copy(secrets, address.Secrets(s.env.lookup))
	}
	return secrets
}
