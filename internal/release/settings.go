package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	known "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// setting is one that bundles and registries ask a person for. Its default and type are those of the program's flag.
type setting struct {
	flag, Title, Description string
	Folder                   bool   // the name of a folder
	variable                 string // if there is no flag
	Secret                   bool
}

var settings = []setting{
	{flag: "memory-limit", Title: "Memory", Description: "Memory of one container, such as 512m or 2g."},
	{flag: "cpu-limit", Title: "Processors", Description: "Processors of one container, whole or part."},
	{flag: "volume-limit", Title: "Disk space", Description: "What all files of a session may take, such as 2g."},
	{flag: "run-timeout", Title: "Time of a run", Description: "How long a run may take that does not name its own timeout, such as 90s or 5m."},
	{flag: "idle-timeout", Title: "Idle time", Description: "A session ends when nobody has used it for this long."},
	{flag: "max-sessions", Title: "Sessions", Description: "Sessions at a time."},
	{flag: "prewarm", Title: "Keep ready", Description: "Languages to keep a container ready for, so that the first call is fast: python, javascript, bash, or several with commas. Empty: none."},
	{flag: "preload", Title: "Import ahead", Description: "Python modules to import ahead, with commas. Empty: none."},
	{flag: "fetch-urls", Title: "Fetch addresses", Description: "Let upload_file fetch files from public internet addresses. Code itself has no network."},
	{flag: "allow-host-dir", Title: "Folder for exchange", Description: "A folder of this machine that files may be uploaded from and saved to. Empty: none.", Folder: true},
	{flag: "pass-through-env", Title: "Variables for code", Description: "Names of environment variables that code may have, with commas; their values are masked in answers."},
	{flag: "python-image", Title: "Python image", Description: "Image for Python, any that has python3; off switches Python off. Empty: the one that setup makes."},
	{flag: "js-image", Title: "JavaScript image", Description: "Image for JavaScript, any that has node; off switches JavaScript off. Empty: the one that setup makes."},
	{variable: "SANDBOX_SQL_DATABASE", Title: "Database", Description: "Connection string of a PostgreSQL, MySQL, MariaDB or SQL Server database that the model may read and never write. Empty: none.", Secret: true},
}

// Key is the setting's name in a manifest.
func (s setting) Key() string {
	if s.flag == "" {
		return strings.ToLower(strings.TrimPrefix(s.variable, "SANDBOX_"))
	}
	return strings.ReplaceAll(s.flag, "-", "_")
}

// Env is its variable.
func (s setting) Env() string {
	if s.flag == "" {
		return s.variable
	}
	return known.VariableOf(s.flag)
}

// Value returns the default of the setting's flag: text, a number or a truth value.
func (s setting) Value() any {
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

// Default is the value as text.
func (s setting) Default() string { return fmt.Sprint(s.Value()) }

// Type is the setting's type as a manifest names it.
func (s setting) Type() string {
	switch s.Value().(type) {
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	if s.Folder {
		return "directory"
	}
	return "string"
}
