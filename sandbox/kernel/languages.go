package kernel

import (
	"path"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Language names a language with kernels.
type Language string

// The languages. Their values appear in JSON, labels and container names.
const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	Bash       Language = "bash"
)

// LanguageInfo is the row of a language, for all its uses. Another language needs a row here, a kernel and an image below
// containers/, and the description of its tool.
type LanguageInfo struct {
	Language    Language
	Title       string
	Short       string // in the names of flags
	tool        string
	ImageOf     Language // the language with the default image of this one; empty: this one has its own
	Installs    string   // the ecosystem of its packages; empty: nothing can be installed
	Aliases     []string // other names in use, in lower case
	Interpreter string
	Hello       []string // a command of the interpreter that prints "ready"
	Exit        string   // code that ends the interpreter
	Extensions  []string // of files of code, the usual one first
	MIMEType    string
	Fence       string // its name in Markdown
	Jupyter     string // the usual name of its Jupyter kernel
	JupyterName string // the display name of that kernel
}

// Languages are the languages in the order of lists and tries.
var Languages = []LanguageInfo{{
	Language: Python, Title: "Python", Short: "python", tool: "run_python_code", Installs: "PyPI", Aliases: []string{"python3", "py"},
	Interpreter: "python3", Hello: []string{"python3", "-c", "print('ready')"}, Exit: "SystemExit",
	Extensions: []string{".py"}, MIMEType: "text/x-python", Fence: "python", Jupyter: "python3", JupyterName: "Python 3",
}, {
	Language: JavaScript, Title: "JavaScript", Short: "js", tool: "run_js_code", Installs: "npm", Aliases: []string{"js", "node", "nodejs", "node.js", "typescript", "ts"},
	Interpreter: "node", Hello: []string{"node", "-e", "console.log('ready')"}, Exit: "process.exit",
	Extensions: []string{".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"}, MIMEType: "application/javascript", Fence: "javascript", Jupyter: "javascript", JupyterName: "JavaScript (Node.js)",
}, {
	Language: Bash, Title: "Bash", Short: "bash", tool: "run_bash", ImageOf: Python, Aliases: []string{"sh", "shell"},
	Interpreter: "bash", Hello: []string{"bash", "-c", "echo ready"}, Exit: "bash",
	Extensions: []string{".sh", ".bash"}, MIMEType: "text/x-sh", Fence: "bash", Jupyter: "bash", JupyterName: "Bash",
}}

// Tool is the name of the tool that runs the language.
func (i LanguageInfo) Tool() string { return i.tool }

// ImageFlag is the name of the setting for the language's image.
func (i LanguageInfo) ImageFlag() string { return i.Short + "-image" }

// Info is the language's row; the zero value if there is none.
func (l Language) Info() LanguageInfo {
	if i := l.Place(); i >= 0 {
		return Languages[i]
	}
	return LanguageInfo{}
}

// Place is the language's index in the table; below 0 if it is not there.
func (l Language) Place() int {
	return slices.IndexFunc(Languages, func(i LanguageInfo) bool { return i.Language == l })
}

// LanguageCalled finds a language by its name or an alias.
func LanguageCalled(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, i := range Languages {
		if name == string(i.Language) || slices.Contains(i.Aliases, name) {
			return i.Language, true
		}
	}
	return "", false
}

// LanguageOfFile finds the language of a code file by the file's name.
func LanguageOfFile(name string) (Language, bool) {
	for _, i := range Languages {
		if slices.Contains(i.Extensions, strings.ToLower(path.Ext(name))) {
			return i.Language, true
		}
	}
	return "", false
}

// ListLanguages lists the languages in a sentence, with a word before the last.
func ListLanguages(word string) string {
	return text.Series(strings.Fields(JoinLanguages(" ", func(i LanguageInfo) string { return string(i.Language) })), word)
}

// JoinLanguages joins a part of each language into a sentence or a list.
func JoinLanguages(between string, part func(LanguageInfo) string) string {
	parts := make([]string, len(Languages))
	for n, i := range Languages {
		parts[n] = part(i)
	}
	return strings.Join(parts, between)
}
