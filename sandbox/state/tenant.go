package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Where a server works for several, each tenant has a state directory of its own, under the same folder as the server's:
//
//	STATE/sessions                  the server's own
//	STATE/principals/KEY/sessions   that of the tenant KEY
//	STATE/principals/KEY/principal.json
//
// A dir below is the server's own, whose name the tenants' have too.

const (
	tenantsFolder = "principals"
	tenantFile    = "principal.json"
)

var tenant = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// ValidTenant reports whether a text can be a tenant's key: it is safe in the names of files and on an engine.
func ValidTenant(key string) bool { return tenant.MatchString(key) }

// TenantDir returns a tenant's state directory; the server's own for an empty key.
func TenantDir(dir, key string) string {
	if key == "" {
		return dir
	}
	return filepath.Join(tenantFolder(dir, key), filepath.Base(dir))
}

func tenantFolder(dir, key string) string {
	return filepath.Join(filepath.Dir(dir), tenantsFolder, key)
}

// Tenants returns the keys of the tenants with a state directory.
func Tenants(dir string) []string {
	entries, _ := os.ReadDir(filepath.Join(filepath.Dir(dir), tenantsFolder))
	var keys []string
	for _, entry := range entries {
		if key := entry.Name(); ValidTenant(key) && isFolder(TenantDir(dir, key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// tenantRecord is the content of a tenant's file.
type tenantRecord struct {
	Name string `json:"name"`
}

// SaveTenant records the name of a tenant's owner, and makes its state directory.
func SaveTenant(dir, key, name string) error {
	if !ValidTenant(key) {
		return fmt.Errorf("%q cannot be a tenant's key", key)
	}
	if err := MakeOwn(TenantDir(dir, key)); err != nil {
		return err
	}
	if was, err := TenantName(dir, key); err == nil && was == name {
		return nil
	}
	text, err := json.Marshal(tenantRecord{name})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(tenantFolder(dir, key), tenantFile), text, (*os.File).Sync)
}

// TenantName returns the name that SaveTenant recorded.
func TenantName(dir, key string) (string, error) {
	text, err := os.ReadFile(filepath.Join(tenantFolder(dir, key), tenantFile))
	if err != nil {
		return "", err
	}
	var r tenantRecord
	if err := json.Unmarshal(text, &r); err != nil {
		return "", err
	}
	if r.Name == "" {
		return "", errors.New("it has no name")
	}
	return r.Name, nil
}
