//go:build linux

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeSchemas writes JSON schemas for some kinds, of what a version of Kubernetes says of its API, in the files in which kubeconform
// looks for them. They allow no field that the API does not know.
func writeSchemas(swagger, folder string, kinds map[string]bool) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		return err
	}
	for _, d := range api.Definitions {
		if _, open := d["additionalProperties"]; d["properties"] != nil && !open {
			d["additionalProperties"] = false
		}
	}
	for name := range api.Definitions { // these are texts to the API's description, and numbers to people
		if strings.HasSuffix(name, ".IntOrString") || strings.HasSuffix(name, ".Quantity") {
			api.Definitions[name] = map[string]any{"type": []string{"string", "number"}}
		}
	}
	for name, d := range api.Definitions {
		of, _ := d["x-kubernetes-group-version-kind"].([]any)
		if len(of) != 1 {
			continue
		}
		gvk := of[0].(map[string]any)
		kind, group, version := gvk["kind"].(string), gvk["group"].(string), gvk["version"].(string)
		if !kinds[kind] {
			continue
		}
		schema := map[string]any{"$ref": "#/definitions/" + name, "definitions": reached(api.Definitions, name)}
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		suffix := "-" + version
		if group != "" {
			suffix = "-" + strings.Split(group, ".")[0] + suffix
		}
		file := filepath.Join(folder, strings.ToLower(kind)+suffix+".json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("schema of %s: %w", kind, err)
		}
	}
	return nil
}

// reached returns the definitions that one refers to, and itself.
func reached(all map[string]map[string]any, name string) map[string]any {
	found := make(map[string]any)
	var visit func(value any)
	visit = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, each := range v {
				visit(each)
			}
		case map[string]any:
			for key, each := range v {
				if ref, is := each.(string); is && key == "$ref" {
					ref = strings.TrimPrefix(ref, "#/definitions/")
					if found[ref] == nil {
						found[ref] = all[ref]
						visit(all[ref])
					}
				}
				visit(each)
			}
		}
	}
	visit(map[string]any{"$ref": "#/definitions/" + name})
	return found
}
