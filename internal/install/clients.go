package install

import (
	"fmt"
	"slices"
	"strings"
)

// Scope selects the configuration to write.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // this user's, for every folder
	Project Scope = "project" // that of the working folder
)

// place is one file that a client reads. Roots and signs begin with a folder of System.folders.
type place struct {
	// root is a folder, perhaps with a * in it, and files are paths below it: the first existing one is used.
	root  string
	files []string
	// variable has another root, if it is set.
	variable string
	// signs are folders that show, as the file does, that the client is there; none: the root does.
	signs []string
	os    string // the only system that has it, or after "not " the only one that has it not; "": all have it
}

// Client is a row of the table: the facts about one MCP client.
type Client struct {
	Name    string
	Title   string
	aliases []string

	// user are the places of the user's configuration. All places that show the client are written.
	user []place
	// project is the file of a project's configuration, below its folder; "": the client knows none.
	project string

	format format
	key    string // the member of the servers
	list   bool   // the servers are a list, with their names inside
	fresh  string // the beginning of a new file
	entry  func(name string, s Server) fields

	program string // the client's program on PATH, if any
	app     string // its application on macOS
	link    func(name string, s Server) string
	next    string // the user's next step
}

var clients = []Client{
	{
		Name: "claude-desktop", Title: "Claude Desktop", app: "Claude.app",
		user: []place{
			{root: "settings/Claude", files: []string{"claude_desktop_config.json"}},
			{root: "localAppData/Packages/Claude_*/LocalCache/Roaming/Claude", files: []string{"claude_desktop_config.json"}, os: "windows"}, // the store's package
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Quit Claude Desktop altogether, and start it again.",
	},
	{
		Name: "claude-code", Title: "Claude Code", program: "claude",
		user:    []place{{root: "~", files: []string{".claude.json"}, variable: "CLAUDE_CONFIG_DIR", signs: []string{"~/.claude"}}},
		project: ".mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(always("type", "stdio")),
		next: "Start a new session of Claude Code; /mcp lists the servers.",
	},
	{
		Name: "cursor", Title: "Cursor", program: "cursor", app: "Cursor.app",
		user:    []place{{root: "~/.cursor", files: []string{"mcp.json"}}},
		project: ".cursor/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		link: base64Link("cursor://anysphere.cursor-deeplink/mcp/install"),
		next: "Cursor asks whether to enable the server, or has it under Settings, MCP.",
	},
	{
		Name: "vscode", Title: "VS Code", aliases: []string{"code", "vs-code", "visual-studio-code"}, program: "code", app: "Visual Studio Code.app",
		user: []place{
			{root: "settings/Code", files: []string{"User/mcp.json"}},
			{root: "settings/Code - Insiders", files: []string{"User/mcp.json"}},
			{root: "~/.vscode-server/data", files: []string{"User/mcp.json"}},
		},
		project: ".vscode/mcp.json",
		format:  jsonFormat, key: "servers", entry: standard(always("type", "stdio")),
		link: vscodeLink,
		next: "Run \"MCP: List Servers\" in VS Code, and start the server there.",
	},
	{
		Name: "gemini", Title: "Gemini CLI", aliases: []string{"gemini-cli"}, program: "gemini",
		user:    []place{{root: "~/.gemini", files: []string{"settings.json"}}},
		project: ".gemini/settings.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Start a new session of Gemini CLI; /mcp lists the servers.",
	},
	{
		Name: "codex", Title: "Codex", program: "codex", app: "Codex.app",
		user:    []place{{root: "~/.codex", files: []string{"config.toml"}, variable: "CODEX_HOME"}},
		project: ".codex/config.toml",
		format:  tomlFormat, key: "mcp_servers", entry: standard(),
		next: "Start a new session of Codex; /mcp lists the servers.",
	},
	{
		Name: "copilot", Title: "Copilot CLI", aliases: []string{"copilot-cli", "github-copilot"}, program: "copilot",
		user:    []place{{root: "~/.copilot", files: []string{"mcp-config.json"}, variable: "COPILOT_HOME"}},
		project: ".github/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(always("type", "local"), first("tools", []string{"*"})),
		next: "Start a new session of Copilot CLI; /mcp shows the servers.",
	},
	{
		Name: "devin", Title: "Devin Desktop (Windsurf)", aliases: []string{"windsurf", "devin-desktop"}, app: "Windsurf.app",
		user: []place{
			{root: "config/devin", files: []string{"mcp_config.json"}},
			{root: "~/.codeium/windsurf", files: []string{"mcp_config.json"}},
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Refresh the list of MCP servers in its Cascade panel.",
	},
	{
		Name: "zed", Title: "Zed", program: "zed", app: "Zed.app",
		user: []place{
			{root: "appData/Zed", files: []string{"settings.json"}, os: "windows"},
			{root: "xdg/zed", files: []string{"settings.json"}, os: "linux"},
			{root: "~/.config/zed", files: []string{"settings.json"}, os: "darwin"},
		},
		project: ".zed/settings.json",
		format:  jsonFormat, key: "context_servers", entry: standard(first("source", "custom"), first("enabled", true)),
		next: "Zed takes it up at once; its agent panel's settings list the servers.",
	},
	{
		Name: "opencode", Title: "opencode", program: "opencode",
		user:    []place{{root: "xdg/opencode", files: []string{"opencode.json", "opencode.jsonc", "config.json"}}},
		project: "opencode.json",
		format:  jsonFormat, key: "mcp", entry: opencodeEntry,
		next: "Start opencode again; `opencode mcp list` lists the servers.",
	},
	{
		Name: "goose", Title: "Goose", program: "goose", app: "Goose.app",
		user: []place{
			{root: "appData/Block/goose/config", files: []string{"config.yaml"}, os: "windows"},
			{root: "xdg/goose", files: []string{"config.yaml"}, os: "not windows"},
		},
		format: yamlFormat, key: "extensions", entry: gooseEntry,
		next: "Start a new session of Goose.",
	},
	{
		Name: "continue", Title: "Continue", program: "cn",
		user:   []place{{root: "~/.continue", files: []string{"config.yaml"}}},
		format: yamlFormat, key: "mcpServers", list: true, entry: continueEntry,
		fresh: "name: Local Config\nversion: 1.0.0\nschema: v1\n",
		next:  "Continue takes it up at once, and uses it in agent mode.",
	},
	{
		Name: "lmstudio", Title: "LM Studio", aliases: []string{"lm-studio"}, program: "lms", app: "LM Studio.app",
		user: []place{
			{root: "~/.lmstudio", files: []string{"mcp.json"}},
			{root: "~/.cache/lm-studio", files: []string{"mcp.json"}},
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		link: base64Link("lmstudio://add_mcp"),
		next: "LM Studio loads it as the file is saved; switch it on in a chat's integrations.",
	},
	{
		Name: "amp", Title: "Amp", program: "amp",
		user:    []place{{root: "~/.config/amp", files: []string{"settings.json", "settings.jsonc"}}},
		project: ".amp/settings.json",
		format:  jsonFormat, key: "amp.mcpServers", entry: standard(),
		next: "Start Amp again; `amp mcp list` lists the servers.",
	},
	{
		Name: "warp", Title: "Warp", app: "Warp.app",
		user:    []place{{root: "~/.warp", files: []string{".mcp.json"}, signs: []string{"~/.warp", "xdg/warp-terminal"}}},
		project: ".warp/.mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Start the server in Warp under Settings, Agents, MCP servers.",
	},
	{
		Name: "junie", Title: "Junie", aliases: []string{"jetbrains-junie"}, program: "junie",
		user:    []place{{root: "~/.junie", files: []string{"mcp/mcp.json"}}},
		project: ".junie/mcp/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Look under Settings, Tools, Junie, MCP Settings whether it is on.",
	},
	{
		Name: "kiro", Title: "Kiro", program: "kiro", app: "Kiro.app",
		user:    []place{{root: "~/.kiro", files: []string{"settings/mcp.json"}}},
		project: ".kiro/settings/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(), link: kiroLink,
		next: "Kiro takes it up at once, and shows it under MCP Servers.",
	},
	{
		Name: "cline", Title: "Cline", program: "cline",
		user: append([]place{{
			root: "~/.cline/data/settings/cline_mcp_settings.json", files: []string{""}, variable: "CLINE_MCP_SETTINGS_PATH", signs: []string{"~/.cline"},
		}}, clineIn("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")...),
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Cline takes it up at once, and shows it under MCP Servers.",
	},
	{
		Name: "antigravity", Title: "Antigravity", program: "antigravity", app: "Antigravity.app",
		user: []place{
			{root: "~/.gemini/config", files: []string{"mcp_config.json"}},
			{root: "~/.gemini/antigravity", files: []string{"mcp_config.json"}},
		},
		project: ".agents/mcp_config.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Refresh Antigravity's list under Manage MCP Servers.",
	},
	{
		Name: "qwen", Title: "Qwen Code", aliases: []string{"qwen-code"}, program: "qwen",
		user:    []place{{root: "~/.qwen", files: []string{"settings.json"}}},
		project: ".qwen/settings.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Start a new session of Qwen Code; /mcp lists the servers.",
	},
	{
		Name: "crush", Title: "Crush", program: "crush",
		user: []place{
			{root: "localAppData/crush", files: []string{"crush.json"}, os: "windows"},
			{root: "xdg/crush", files: []string{"crush.json"}, os: "not windows"},
		},
		project: ".crush.json",
		format:  jsonFormat, key: "mcp", entry: standard(always("type", "stdio")),
		next: "Start Crush again.",
	},
}

func clineIn(editors ...string) (places []place) {
	for _, editor := range editors {
		root := "settings/" + editor + "/User/globalStorage/saoudrizwan.claude-dev"
		places = append(places, place{root: root, files: []string{"settings/cline_mcp_settings.json"}})
	}
	return places
}

// Find returns the client of this name, title or other name. The error lists the names.
func Find(name string) (*Client, error) {
	wanted := simple(name)
	for i := range clients {
		c := &clients[i]
		if slices.ContainsFunc(append([]string{c.Name, c.Title}, c.aliases...), func(n string) bool { return simple(n) == wanted }) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no client %q; there are %s", name, strings.Join(Names(), ", "))
}

func simple(name string) string {
	return strings.NewReplacer("-", "", " ", "", "_", "", ".", "").Replace(strings.ToLower(name))
}

// Names returns the names of all clients.
func Names() []string {
	names := make([]string, len(clients))
	for i, c := range clients {
		names[i] = c.Name
	}
	return names
}
