package cmd

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestARegistryIsAHostAndAPath(t *testing.T) {
	for registry, want := range map[string]bool{
		"registry.example.com": true, "registry.example.com/team": true, "registry.example.com:5000/a/b-c": true, "localhost": true,
		"localhost:5000": true, "registry:5000/team": true, "127.0.0.1:5000": true,
		"team": false, "team/images": false, "https://registry.example.com": false, "registry.example.com/": false,
		"registry.example.com/Team": false, "registry.example.com/team:1": false, "-x": false, "a b.c": false,
	} {
		should.Equal(t, registryName.MatchString(registry), want, "%q is a registry", registry)
	}
}
