package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// stamped are the files of the repository that clients read there and that name a version.
var stamped = []string{
	"gemini-extension.json",
	".claude-plugin/marketplace.json",
	"plugins/code-sandbox/.claude-plugin/plugin.json",
	"plugins/code-sandbox/.codex-plugin/plugin.json",
	"plugins/code-sandbox/.mcp.json",
	"docs/deploy/kubernetes/chart/Chart.yaml",
	"docs/deploy/kubernetes/manifests.yaml",
}

var (
	// semantic is a version as npm, the registries and the clients take it.
	semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	// mention is where a file names the version: as its own, as that of the npm package, or as that of the server's image.
	mention = regexp.MustCompile(`(?m)("version": "|` + regexp.QuoteMeta(npmName) + `@|^(?:appV|v)ersion: |app\.kubernetes\.io/version: "|image: \S+:)[0-9][0-9A-Za-z.-]*`)
)

// stamp writes version wherever a file names it.
func stamp(root, version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1", version)
	}
	for _, file := range stamped {
		path := filepath.Join(root, file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, mention.ReplaceAll(text, []byte("${1}"+version)), 0o644); err != nil { //nolint:gosec // the files are in the repository
			return err
		}
	}
	return nil
}

// checkStamps returns an error where a file names another version, or none.
func checkStamps(root, version string) error {
	for _, file := range stamped {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		found := mention.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			return fmt.Errorf("%s names no version", file)
		}
		for _, match := range found {
			if string(match[0]) != string(match[1])+version {
				return fmt.Errorf("%s says %s, and not %s; `go run ./internal/release stamp %[3]s` writes it", file, match[0], version)
			}
		}
	}
	return nil
}
