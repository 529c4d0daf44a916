package main

import "fmt"

// serverSchema is the revision of server.json that is written.
const serverSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// serverJSON is the MCP registry's record of a version.
type serverJSON struct {
	Schema      string            `json:"$schema"`
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Repository  map[string]string `json:"repository"`
	WebsiteURL  string            `json:"websiteUrl"`
	Version     string            `json:"version"`
	Packages    []serverPackage   `json:"packages"`
}

type serverPackage struct {
	RegistryType string            `json:"registryType"`
	Identifier   string            `json:"identifier"`
	Version      string            `json:"version"`
	FileSHA256   string            `json:"fileSha256,omitempty"`
	RuntimeHint  string            `json:"runtimeHint,omitempty"`
	Transport    map[string]string `json:"transport"`
	Environment  []serverVariable  `json:"environmentVariables"`
}

type serverVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Format      string `json:"format"`
	Default     string `json:"default,omitempty"`
	IsSecret    bool   `json:"isSecret,omitempty"`
}

// newServerJSON lists a package for each bundle, as it will be found among the files of the release, and the npm package.
func newServerJSON(version string, bundles []bundle) serverJSON {
	stdio := map[string]string{"type": "stdio"}
	var variables []serverVariable
	for _, s := range settings {
		v := serverVariable{Name: s.env(), Description: s.description, Format: s.fieldType(), Default: fmt.Sprint(s.value()), IsSecret: s.secret}
		if s.folder {
			v.Format = "filepath"
		}
		variables = append(variables, v)
	}
	s := serverJSON{
		Schema: serverSchema, Name: serverName, Title: title, Description: description,
		Repository: map[string]string{"url": repository, "source": "github"}, WebsiteURL: repository, Version: version,
	}
	for _, b := range bundles {
		s.Packages = append(s.Packages, serverPackage{
			RegistryType: "mcpb", Identifier: repository + "/releases/download/v" + version + "/" + b.file, Version: version,
			FileSHA256: b.sha256, Transport: stdio, Environment: variables,
		})
	}
	s.Packages = append(s.Packages, serverPackage{
		RegistryType: "npm", Identifier: npmName, Version: version, RuntimeHint: "npx", Transport: stdio, Environment: variables,
	})
	return s
}
