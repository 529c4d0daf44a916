// Settings under their names in other systems.

package setting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// aliases are variables of other systems that set one of our settings where our own variable does not. Of two for one setting the first
// that is set counts. The suffix makes a value one of ours.
var aliases = []struct{ name, setting, suffix string }{
	// philschmid/code-sandbox-mcp
	{"PASSTHROUGH_ENV", "pass-through-env", ""},
	// gaiar/mcp-code-sandbox
	{"SANDBOX_IMAGE", "python-image", ""},
	{"SANDBOX_EXEC_TIMEOUT_S", "run-timeout", ""},
	{"SANDBOX_SESSION_TTL_M", "idle-timeout", "m"},
	{"SANDBOX_MAX_UPLOAD_BYTES", "upload-limit", ""},
	{"SANDBOX_MAX_OUTPUT_BYTES", "output-limit", ""},
	// MadhanMohanReddy2301/CodeBoxMCP
	{"EXEC_TIMEOUT", "run-timeout", ""},
	{"IDLE_TIMEOUT", "idle-timeout", ""},
	{"SESSION_TTL", "lifetime", ""},
	{"MAX_DOWNLOAD_SIZE", "download-limit", ""},
	{"SQL_MAX_INLINE_ROWS", "sql-max-inline-rows", ""},
	// tomconte/codebox-ai
	{"CODEBOX_MOUNT_PATH", "mount", ""},
}

// IsKnownVariable reports whether a variable that is no setting has a meaning here: another system's setting, a secret, or a database.
func IsKnownVariable(name string) bool {
	isAlias := slices.ContainsFunc(aliases, func(a struct{ name, setting, suffix string }) bool { return a.name == name })
	return isAlias || slices.Contains(SecretVariables, name) || strings.HasPrefix(name, "SANDBOX_SQL_")
}

// findVariable returns the value of the variable that sets a setting, its name and file: our own, or one of aliases.
func (l loading) findVariable(setting string) (value, name, file string, ok bool) {
	name = VariableOf(setting)
	value, file, ok = l.Env.find(name)
	for _, a := range aliases {
		if ok || a.setting != setting {
			continue
		}
		if value, file, _ = l.Env.find(a.name); value != "" {
			return value + a.suffix, a.name, file, true
		}
	}
	return value, name, file, ok
}

// takeEngine takes over the service addresses of Podman's and Docker's own programs.
func (l loading) takeEngine() {
	if l.isRemote() {
		return // they are Podman's
	}
	l.DockerHost, _ = l.Env.Lookup("DOCKER_HOST")
	value, file, _ := l.Env.find("CONTAINER_HOST")
	if value != "" && (l.EngineURL == "" || !l.origins["engine-url"].beatsFile()) {
		l.EngineURL = value
		l.origins["engine-url"] = origin{From: fromEnvironment, Variable: "CONTAINER_HOST", File: file}
	}
}

// takeImage takes over the image of all languages, or of the one that is named together with it.
func (l loading) takeImage() error {
	image, file, _ := l.Env.find("CONTAINER_IMAGE")
	if image == "" {
		return nil
	}
	name, _ := l.Env.Lookup("CONTAINER_LANGUAGE")
	only, known := kernel.LanguageCalled(name)
	if !known && name != "" {
		return fmt.Errorf("CONTAINER_LANGUAGE=%q: there is no such language; there are %s", name, kernel.ListLanguages("and"))
	}
	for _, i := range kernel.Languages {
		is := i.Language == only || name == "" && i.ImageOf == ""
		if flag := i.ImageFlag(); is && !l.origins[flag].beatsFile() {
			*l.LanguageImages[i.Language] = image
			l.origins[flag] = origin{From: fromEnvironment, Variable: "CONTAINER_IMAGE", File: file}
		}
	}
	return nil
}
