package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// launcher finds the package of the platform and becomes the program in it.
//
//go:embed npm/launcher.cjs
var launcher []byte

//go:embed npm/README.md
var npmReadme []byte

// npmPackage is package.json of the main package, or of that of a platform.
type npmPackage struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Description          string            `json:"description"`
	Keywords             []string          `json:"keywords,omitempty"`
	Homepage             string            `json:"homepage"`
	Repository           map[string]string `json:"repository"`
	License              string            `json:"license"`
	MCPName              string            `json:"mcpName,omitempty"` // by which the MCP registry knows that it is ours
	OS                   []string          `json:"os,omitempty"`
	CPU                  []string          `json:"cpu,omitempty"`
	Bin                  map[string]string `json:"bin,omitempty"`
	Engines              map[string]string `json:"engines"`
	Files                []string          `json:"files"`
	OptionalDependencies map[string]string `json:"optionalDependencies,omitempty"`
	PublishConfig        map[string]string `json:"publishConfig"`
}

// writePackages writes the packages to npm/, each in a folder of its own: those of the platforms, which npm installs
// where they fit, and the main one, which names them all.
func (r release) writePackages(binaries map[platform]string) error {
	main := r.newPackage(npmName)
	main.Description, main.Keywords, main.MCPName = description, keywords, serverName
	main.Bin = map[string]string{name: "bin/" + name + ".cjs"}
	main.OptionalDependencies = make(map[string]string)
	for _, p := range platforms {
		system, cpu := p.node()
		one := r.newPackage(npmName + "-" + system + "-" + cpu)
		one.Description = fmt.Sprintf("The program of %s for %s on %s.", npmName, system, cpu)
		one.OS, one.CPU = []string{system}, []string{cpu}
		main.OptionalDependencies[one.Name] = r.version
		program, err := os.ReadFile(binaries[p])
		if err != nil {
			return err
		}
		if err := r.writePackage(one, "bin/"+p.executable(), program); err != nil {
			return err
		}
	}
	return r.writePackage(main, main.Bin[name], launcher)
}

func (r release) newPackage(called string) npmPackage {
	return npmPackage{
		Name: called, Version: r.version, Homepage: repository, License: license, Files: []string{"bin"},
		Repository: map[string]string{"type": "git", "url": "git+" + repository + ".git"},
		Engines:    map[string]string{"node": ">=18"}, PublishConfig: map[string]string{"access": "public"},
	}
}

func (r release) writePackage(p npmPackage, program string, content []byte) error {
	folder := filepath.Join(r.dist, "npm", filepath.Base(p.Name))
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(folder, "package.json"), p); err != nil {
		return err
	}
	for file, content := range map[string][]byte{"LICENSE": license, "README.md": npmReadme} {
		if err := writeFile(filepath.Join(folder, file), content, 0o644); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(folder, program), content, 0o755)
}
