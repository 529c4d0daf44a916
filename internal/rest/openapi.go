// The OpenAPI document, made from the routes and the schemas of the tools.

package rest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// object is a part of the document.
type object = map[string]any

// Content returns the media types of a body. It is made for the document alone: schemas take a while.
type Content func() map[string]any

// Media describes a body of one type.
func Media(kind string, schema map[string]any) Content {
	return func() map[string]any { return object{kind: object{"schema": schema}} }
}

// asObject is a schema as it is in JSON, in the words of OpenAPI 3.1, which knows no nullable.
func asObject(value any) (o object) {
	raw, _ := json.Marshal(value) // schemas can be
	_ = json.Unmarshal(raw, &o)
	nullsAsTypes(o)
	return o
}

func nullsAsTypes(value any) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			nullsAsTypes(one)
		}
	case object:
		if v["nullable"] == true {
			delete(v, "nullable")
			v["type"] = []any{v["type"], "null"}
			if values, ok := v["enum"].([]any); ok {
				v["enum"] = append(values, nil)
			}
		}
		for _, one := range v {
			nullsAsTypes(one)
		}
	}
}

// Schema is the Content that a struct is read from or written to.
func Schema[T any]() map[string]any {
	var t mcp.Tool
	mcp.WithOutputSchema[T]()(&t)
	return asJSON(asObject(t.OutputSchema))
}

// ListOf is the Content of a list of structs.
func ListOf[T any]() map[string]any {
	return asJSON(object{"type": "array", "items": Schema[T]()["application/json"].(object)["schema"]})
}

func asJSON(schema object) object { return Media("application/json", schema)() }

func ref(part, name string) object { return object{"$ref": "#/components/" + part + "/" + name} }

// toolAnswer is the body with a tool's fields.
func toolAnswer(name string) object { return asJSON(ref("schemas", name)) }

// document is the OpenAPI document of routes.
func (b *backend) document(routes []Route) json.RawMessage {
	d := documenter{tools: b.tools, schemas: object{
		"error": object{
			"type": "object", "required": []string{"code", "message", "hint"},
			"properties": object{
				"code":    object{"type": "string", "description": "Kind of error."},
				"message": object{"type": "string", "description": "What happened."},
				"hint":    object{"type": "string", "description": "What to do next."},
			},
		},
	}}
	paths := make(object)
	var tags []object // in the order in which they are to be shown
	for _, r := range b.existing(routes) {
		if tag := (object{"name": r.group()}); !slices.ContainsFunc(tags, func(t object) bool { return t["name"] == tag["name"] }) {
			tags = append(tags, tag)
		}
		path := strings.ReplaceAll(r.Path, "...", "")
		operations, _ := paths[path].(object)
		if operations == nil {
			operations = make(object)
			paths[path] = operations
		}
		operations[strings.ToLower(r.Method)] = d.operation(&r)
	}
	return web.Encode(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "code-sandbox-mcp", "version": b.version,
			"description": "Runs code in isolated sessions. Whatever a tool can do is here under a path of its own.",
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"token": []string{}}},
		"tags":     tags,
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"schemas":         d.schemas,
			"responses":       object{"error": object{"description": "It could not be done.", "content": toolAnswer("error")}},
		},
	})
}

type documenter struct {
	tools   map[string]server.ServerTool
	schemas object
}

// result returns the name of the schema of a tool's fields.
func (d *documenter) result(tool string) string {
	if _, known := d.schemas[tool]; !known {
		schema := asObject(d.tools[tool].Tool.OutputSchema)
		if properties, ok := schema["properties"].(object); ok {
			properties["notes"] = object{"type": "array", "items": object{"type": "string"}, "description": "What is to be known of the call, such as a limit that was lowered."}
			properties["fault"] = ref("schemas", "error")
		}
		d.schemas[tool] = schema
	}
	return tool
}

// tool is the one that describes a route: that of the first language where it is of all.
func (d *documenter) tool(r *Route) (name string, input object) {
	name = r.Tool
	if name != RunTool {
		return name, asObject(d.tools[name].Tool.InputSchema)
	}
	var languages []any
	for _, l := range languagesOf(d.tools) {
		languages = append(languages, string(l.Language))
	}
	name = languagesOf(d.tools)[0].Tool()
	input = asObject(d.tools[name].Tool.InputSchema)
	input["properties"].(object)["language"] = object{"type": "string", "enum": languages, "default": languages[0]}
	return name, input
}

func (d *documenter) operation(r *Route) object {
	o := object{"operationId": r.ID, "summary": r.Summary, "tags": []string{r.group()}}
	name, input := d.tool(r)
	properties, _ := input["properties"].(object)
	var parameters []object
	parameter := func(in, name string, schema any) {
		parameters = append(parameters, object{"name": name, "in": in, "required": in == "path", "schema": schema})
	}
	for _, name := range r.names() {
		parameter("path", name, object{"type": "string"})
		delete(properties, name)
	}
	for name := range r.always {
		delete(properties, name)
	}
	var answer object
	if r.Answer != nil {
		answer = r.Answer()
	}
	switch {
	case !r.isByTool():
		properties = r.Query
		if r.Request != nil {
			o["requestBody"] = object{"required": true, "content": r.Request()}
		}
		if r.answerOf != "" {
			answer = toolAnswer(d.result(r.answerOf))
		}
	default:
		answer = toolAnswer(d.result(name))
	}
	if r.isByTool() && r.Method == http.MethodPost {
		required, _ := input["required"].([]any)
		schema := object{"type": "object", "properties": maps.Clone(properties)}
		if required = slices.DeleteFunc(required, func(name any) bool { return properties[name.(string)] == nil }); len(required) > 0 {
			schema["required"] = required
		}
		o["requestBody"] = object{"required": len(required) > 0, "content": asJSON(schema)}
		properties = nil
	}
	if r.waits {
		delete(properties, "timeout_seconds")
		wait := object{"type": "number", "minimum": 0, "default": 0, "description": "How long to wait for the end of the run."}
		if r.patient {
			delete(wait, "default")
			wait["description"] = "How long to wait for the end of the run; by default as long as the server allows."
		}
		parameter("query", "wait_seconds", wait)
	}
	for _, name := range sorted(properties) {
		parameter("query", name, properties[name])
	}
	if len(parameters) > 0 {
		o["parameters"] = parameters
	}
	responses := object{
		strconv.Itoa(cmp.Or(r.Status, http.StatusOK)): object{"description": "Done.", "content": answer},
		"default": ref("responses", "error"),
	}
	for status, description := range r.also {
		responses[strconv.Itoa(status)] = object{"description": description, "content": answer}
	}
	if r.isByTool() && slices.Contains([]string{RunTool, "wait_for_run", "install_packages"}, r.Tool) {
		run := languagesOf(d.tools)[0].Tool()
		responses["202"] = object{"description": "The run goes on; its run_id is for /v1/runs/{run_id}.", "content": toolAnswer(d.result(run))}
	}
	o["responses"] = responses
	return o
}
