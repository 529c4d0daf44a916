package main

import (
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// setting is one that bundles and registries ask a person for. Its default and type are those of the program's flag.
type setting struct {
	flag, title, description string
	folder                   bool   // the name of a folder
	variable                 string // if there is no flag
	secret                   bool
}

var settings = []setting{
	{flag: "memory-limit", title: "Memory", description: "Memory of one container, such as 512m or 2g."},
	{flag: "cpu-limit", title: "Processors", description: "Processors of one container, whole or part."},
	{flag: "volume-limit", title: "Disk space", description: "What all files of a session may take, such as 2g."},
	{flag: "run-timeout", title: "Time of a run", description: "How long a run may take that does not name its own timeout, such as 90s or 5m."},
	{flag: "idle-timeout", title: "Idle time", description: "A session ends when nobody has used it for this long."},
	{flag: "max-sessions", title: "Sessions", description: "Sessions at a time."},
	{flag: "prewarm", title: "Keep ready", description: "Languages to keep a container ready for, so that the first call is fast: python, javascript, bash, or several with commas. Empty: none."},
	{flag: "preload", title: "Import ahead", description: "Python modules to import ahead, with commas. Empty: none."},
	{flag: "fetch-urls", title: "Fetch addresses", description: "Let upload_file fetch files from public internet addresses. Code itself has no network."},
	{flag: "allow-host-dir", title: "Folder for exchange", description: "A folder of this machine that files may be uploaded from and saved to. Empty: none.", folder: true},
	{flag: "pass-through-env", title: "Variables for code", description: "Names of environment variables that code may have, with commas; their values are masked in answers."},
	{flag: "python-image", title: "Python image", description: "Image for Python, any that has python3; off switches Python off. Empty: the one that setup makes."},
	{flag: "js-image", title: "JavaScript image", description: "Image for JavaScript, any that has node; off switches JavaScript off. Empty: the one that setup makes."},
	{variable: "SANDBOX_SQL_DATABASE", title: "Database", description: "Connection string of a PostgreSQL, MySQL, MariaDB or SQL Server database that the model may read and never write. Empty: none.", secret: true},
}

// key is the setting's name in a manifest.
func (s setting) key() string {
	if s.flag == "" {
		return strings.ToLower(strings.TrimPrefix(s.variable, "SANDBOX_"))
	}
	return strings.ReplaceAll(s.flag, "-", "_")
}

func (s setting) env() string {
	if s.flag == "" {
		return s.variable
	}
	return server.VariableOf(s.flag)
}

// value returns the default of the setting's flag: text, a number or a truth value.
func (s setting) value() any {
	if s.flag == "" {
		return ""
	}
	f := server.Flags(nil).Lookup(s.flag)
	switch f.Value.Type() {
	case "bool":
		return f.DefValue == "true"
	case "int", "int64", "float64":
		if n, err := strconv.ParseFloat(f.DefValue, 64); err == nil {
			return n
		}
	case "stringSlice":
		return strings.Trim(f.DefValue, "[]")
	}
	return f.DefValue
}
