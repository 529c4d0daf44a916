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

// place is one file that a client reads.
type place struct {
	// root is a folder, perhaps with a * in it, and files are paths below it: the first existing one is used.
	root  string
	files []string
	// signs are files that show that the client is there; none: the root does.
	signs []string
}

// Client is a row of the table: the facts about one MCP client.
type Client struct {
	Name    string
	Title   string
	aliases []string

	// user returns the places of the user's configuration. All places that show the client are written.
	user func(System) []place
	// project is the file of a project's configuration, below its folder; "": the client knows none.
	project string

	format format
	key    string // the member of the servers
	list   bool   // the servers are a list, with their names inside
	fresh  string // the beginning of a new file
	entry  func(name string, s Server) fields

	program string // the client's program on PATH, if any
	app     string // its application on macOS
	// command returns the command that makes the client write its configuration by itself; nil: there is none.
	command func(name string, s Server, scope Scope) []string
	link    func(name string, s Server) string
	next    string // the user's next step
}

// clients is the table.
var clients = []Client{
	{
		Name: "claude-desktop", Title: "Claude Desktop", app: "Claude.app",
		user: func(s System) []place {
			const file = "claude_desktop_config.json"
			places := []place{{root: s.join(s.settings(), "Claude"), files: []string{file}}}
			if s.OS == "windows" { // the store's package uses folders of its own
				store := s.join(s.localAppData(), "Packages", "Claude_*", "LocalCache", "Roaming", "Claude")
				places = append(places, place{root: store, files: []string{file}})
			}
			return places
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Quit Claude Desktop altogether, and start it again.",
	},
	{
		Name: "claude-code", Title: "Claude Code", program: "claude",
		user: func(s System) []place {
			root := s.folder("CLAUDE_CONFIG_DIR", s.Home)
			return []place{{root: root, files: []string{".claude.json"}, signs: []string{s.join(root, ".claude.json"), s.home(".claude")}}}
		},
		project: ".mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(always("type", "stdio")),
		command: func(name string, s Server, scope Scope) []string {
			return []string{"mcp", "add-json", "-s", string(scope), name, s.inline(always("type", "stdio"))}
		},
		next: "Start a new session of Claude Code; /mcp lists the servers.",
	},
	{
		Name: "cursor", Title: "Cursor", program: "cursor", app: "Cursor.app",
		user:    func(s System) []place { return []place{{root: s.home(".cursor"), files: []string{"mcp.json"}}} },
		project: ".cursor/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		link: base64Link("cursor://anysphere.cursor-deeplink/mcp/install"),
		next: "Cursor asks whether to enable the server, or has it under Settings, MCP.",
	},
	{
		Name: "vscode", Title: "VS Code", aliases: []string{"code", "vs-code", "visual-studio-code"}, program: "code", app: "Visual Studio Code.app",
		user: func(s System) []place {
			var places []place
			for _, root := range []string{s.join(s.settings(), "Code"), s.join(s.settings(), "Code - Insiders"), s.home(".vscode-server", "data")} {
				places = append(places, place{root: root, files: []string{s.join("User", "mcp.json")}})
			}
			return places
		},
		project: ".vscode/mcp.json",
		format:  jsonFormat, key: "servers", entry: standard(always("type", "stdio")),
		command: func(name string, s Server, scope Scope) []string {
			if scope != User {
				return nil
			}
			return []string{"--add-mcp", s.inline(always("name", name), always("type", "stdio"))}
		},
		link: vscodeLink,
		next: "Run \"MCP: List Servers\" in VS Code, and start the server there.",
	},
	{
		Name: "gemini", Title: "Gemini CLI", aliases: []string{"gemini-cli"}, program: "gemini",
		user:    func(s System) []place { return []place{{root: s.home(".gemini"), files: []string{"settings.json"}}} },
		project: ".gemini/settings.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(), command: mcpAdd,
		next: "Start a new session of Gemini CLI; /mcp lists the servers.",
	},
	{
		Name: "codex", Title: "Codex", program: "codex", app: "Codex.app",
		user: func(s System) []place {
			return []place{{root: s.folder("CODEX_HOME", s.home(".codex")), files: []string{"config.toml"}}}
		},
		project: ".codex/config.toml",
		format:  tomlFormat, key: "mcp_servers", entry: standard(),
		command: mcpAddUser,
		next:    "Start a new session of Codex; /mcp lists the servers.",
	},
	{
		Name: "copilot", Title: "Copilot CLI", aliases: []string{"copilot-cli", "github-copilot"}, program: "copilot",
		user: func(s System) []place {
			return []place{{root: s.folder("COPILOT_HOME", s.home(".copilot")), files: []string{"mcp-config.json"}}}
		},
		project: ".github/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(always("type", "local"), first("tools", []string{"*"})),
		command: mcpAddUser,
		next:    "Start a new session of Copilot CLI; /mcp shows the servers.",
	},
	{
		Name: "devin", Title: "Devin Desktop (Windsurf)", aliases: []string{"windsurf", "devin-desktop"}, app: "Windsurf.app",
		user: func(s System) []place {
			return []place{
				{root: s.join(s.onWindows(s.appData(), s.xdg()), "devin"), files: []string{"mcp_config.json"}},
				{root: s.home(".codeium", "windsurf"), files: []string{"mcp_config.json"}},
			}
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Refresh the list of MCP servers in its Cascade panel.",
	},
	{
		Name: "zed", Title: "Zed", program: "zed", app: "Zed.app",
		user: func(s System) []place {
			root := s.home(".config", "zed")
			switch s.OS {
			case "windows":
				root = s.join(s.appData(), "Zed")
			case "linux":
				root = s.join(s.xdg(), "zed")
			}
			return []place{{root: root, files: []string{"settings.json"}}}
		},
		project: ".zed/settings.json",
		format:  jsonFormat, key: "context_servers", entry: standard(first("source", "custom"), first("enabled", true)),
		next: "Zed takes it up at once; its agent panel's settings list the servers.",
	},
	{
		Name: "opencode", Title: "opencode", program: "opencode",
		user: func(s System) []place {
			return []place{{root: s.join(s.xdg(), "opencode"), files: []string{"opencode.json", "opencode.jsonc", "config.json"}}}
		},
		project: "opencode.json",
		format:  jsonFormat, key: "mcp", entry: opencodeEntry, command: mcpAddUser,
		next: "Start opencode again; `opencode mcp list` lists the servers.",
	},
	{
		Name: "goose", Title: "Goose", program: "goose", app: "Goose.app",
		user: func(s System) []place {
			root := s.onWindows(s.join(s.appData(), "Block", "goose", "config"), s.join(s.xdg(), "goose"))
			return []place{{root: root, files: []string{"config.yaml"}}}
		},
		format: yamlFormat, key: "extensions", entry: gooseEntry,
		next: "Start a new session of Goose.",
	},
	{
		Name: "continue", Title: "Continue", program: "cn",
		user:   func(s System) []place { return []place{{root: s.home(".continue"), files: []string{"config.yaml"}}} },
		format: yamlFormat, key: "mcpServers", list: true, entry: continueEntry,
		fresh: "name: Local Config\nversion: 1.0.0\nschema: v1\n",
		next:  "Continue takes it up at once, and uses it in agent mode.",
	},
	{
		Name: "lmstudio", Title: "LM Studio", aliases: []string{"lm-studio"}, program: "lms", app: "LM Studio.app",
		user: func(s System) []place {
			return []place{
				{root: s.home(".lmstudio"), files: []string{"mcp.json"}},
				{root: s.home(".cache", "lm-studio"), files: []string{"mcp.json"}},
			}
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		link: base64Link("lmstudio://add_mcp"),
		next: "LM Studio loads it as the file is saved; switch it on in a chat's integrations.",
	},
	{
		Name: "amp", Title: "Amp", program: "amp",
		user: func(s System) []place {
			return []place{{root: s.home(".config", "amp"), files: []string{"settings.json", "settings.jsonc"}}}
		},
		project: ".amp/settings.json",
		format:  jsonFormat, key: "amp.mcpServers", entry: standard(),
		command: func(name string, s Server, scope Scope) []string {
			if scope != User || len(s.Env) > 0 { // it takes no environment
				return nil
			}
			return slices.Concat([]string{"mcp", "add", name, "--", s.Command}, s.Args)
		},
		next: "Start Amp again; `amp mcp list` lists the servers.",
	},
	{
		Name: "warp", Title: "Warp", app: "Warp.app",
		user: func(s System) []place {
			return []place{{root: s.home(".warp"), files: []string{".mcp.json"}, signs: []string{s.home(".warp"), s.join(s.xdg(), "warp-terminal")}}}
		},
		project: ".warp/.mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Start the server in Warp under Settings, Agents, MCP servers.",
	},
	{
		Name: "junie", Title: "Junie", aliases: []string{"jetbrains-junie"}, program: "junie",
		user: func(s System) []place {
			return []place{{root: s.home(".junie"), files: []string{s.join("mcp", "mcp.json")}}}
		},
		project: ".junie/mcp/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Look under Settings, Tools, Junie, MCP Settings whether it is on.",
	},
	{
		Name: "kiro", Title: "Kiro", program: "kiro", app: "Kiro.app",
		user: func(s System) []place {
			return []place{{root: s.home(".kiro"), files: []string{s.join("settings", "mcp.json")}}}
		},
		project: ".kiro/settings/mcp.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(), link: kiroLink,
		next: "Kiro takes it up at once, and shows it under MCP Servers.",
	},
	{
		Name: "cline", Title: "Cline", program: "cline",
		user: func(s System) []place {
			cli := place{root: s.home(".cline"), files: []string{s.join("data", "settings", "cline_mcp_settings.json")}}
			if file := s.folder("CLINE_MCP_SETTINGS_PATH", ""); file != "" {
				cli = place{files: []string{file}, signs: []string{file}}
			}
			places := []place{cli}
			for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"} {
				root := s.join(s.settings(), editor, "User", "globalStorage", "saoudrizwan.claude-dev")
				places = append(places, place{root: root, files: []string{s.join("settings", "cline_mcp_settings.json")}})
			}
			return places
		},
		format: jsonFormat, key: "mcpServers", entry: standard(),
		next: "Cline takes it up at once, and shows it under MCP Servers.",
	},
	{
		Name: "antigravity", Title: "Antigravity", program: "antigravity", app: "Antigravity.app",
		user: func(s System) []place {
			return []place{
				{root: s.home(".gemini", "config"), files: []string{"mcp_config.json"}},
				{root: s.home(".gemini", "antigravity"), files: []string{"mcp_config.json"}},
			}
		},
		project: ".agents/mcp_config.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(),
		next: "Refresh Antigravity's list under Manage MCP Servers.",
	},
	{
		Name: "qwen", Title: "Qwen Code", aliases: []string{"qwen-code"}, program: "qwen",
		user:    func(s System) []place { return []place{{root: s.home(".qwen"), files: []string{"settings.json"}}} },
		project: ".qwen/settings.json",
		format:  jsonFormat, key: "mcpServers", entry: standard(), command: mcpAdd,
		next: "Start a new session of Qwen Code; /mcp lists the servers.",
	},
	{
		Name: "crush", Title: "Crush", program: "crush",
		user: func(s System) []place {
			return []place{{root: s.join(s.onWindows(s.localAppData(), s.xdg()), "crush"), files: []string{"crush.json"}}}
		},
		project: ".crush.json",
		format:  jsonFormat, key: "mcp", entry: standard(always("type", "stdio")),
		next: "Start Crush again.",
	},
}

// mcpAddUser is the command of Codex, Copilot CLI and opencode, which know no other scope.
func mcpAddUser(name string, s Server, scope Scope) []string {
	if scope != User {
		return nil
	}
	return slices.Concat([]string{"mcp", "add", name}, s.envFlags("--env"), []string{"--", s.Command}, s.Args)
}

// mcpAdd is the command of Gemini CLI, and of Qwen Code, which comes from it.
func mcpAdd(name string, s Server, scope Scope) []string {
	argv := slices.Concat([]string{"mcp", "add", "-s", string(scope)}, s.envFlags("-e"), []string{name, s.Command})
	if len(s.Args) > 0 {
		argv = append(append(argv, "--"), s.Args...)
	}
	return argv
}

func (s Server) envFlags(flag string) []string {
	var flags []string
	for _, v := range s.Env {
		flags = append(flags, flag, v.Name+"="+v.Value)
	}
	return flags
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
