package sandbox

import (
	"path"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Language names a language that kernels exist for.
type Language string

// The languages. Their values appear in JSON, labels and container names.
const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	Bash       Language = "bash"
)

// LanguageInfo is what has to be known of a language wherever it is used. One more language is a row here, a kernel
// and an image below containers/, and the description of its tool.
type LanguageInfo struct {
	Language    Language
	Title       string
	Short       string // in the names of flags
	tool        string
	ImageOf     Language // whose image is its own where no setting names another; empty: it has one of its own
	Installs    string   // whose packages can be installed for it; empty: none can
	Aliases     []string // what else people and programs call it, in lower case
	Interpreter string
	Hello       []string // a command of the interpreter that prints "ready"
	Exit        string   // by what code ends itself
	Extensions  []string // of files of code, the usual one first
	MIMEType    string
	Fence       string // by what Markdown knows it
	Jupyter     string // the name under which its Jupyter kernel is commonly installed
	JupyterName string // and how that is shown
}

// Languages are the languages in the order in which they are listed and tried.
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

// Info is the language's row; the zero value where there is none.
func (l Language) Info() LanguageInfo {
	if i := l.place(); i >= 0 {
		return Languages[i]
	}
	return LanguageInfo{}
}

// place is where the language is in the table; below 0 where it is not.
func (l Language) place() int {
	return slices.IndexFunc(Languages, func(i LanguageInfo) bool { return i.Language == l })
}

// LanguageCalled finds a language by its name or another that people have for it.
func LanguageCalled(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, i := range Languages {
		if name == string(i.Language) || slices.Contains(i.Aliases, name) {
			return i.Language, true
		}
	}
	return "", false
}

// LanguageOfFile finds the language that a file of code is in, by its name.
func LanguageOfFile(name string) (Language, bool) {
	for _, i := range Languages {
		if slices.Contains(i.Extensions, strings.ToLower(path.Ext(name))) {
			return i.Language, true
		}
	}
	return "", false
}

// ListLanguages names them in a sentence, with a word before the last.
func ListLanguages(word string) string {
	return text.Series(strings.Fields(JoinLanguages(" ", func(i LanguageInfo) string { return string(i.Language) })), word)
}

// JoinLanguages writes what each language has for a part in a sentence or a list.
func JoinLanguages(between string, part func(LanguageInfo) string) string {
	parts := make([]string, len(Languages))
	for n, i := range Languages {
		parts[n] = part(i)
	}
	return strings.Join(parts, between)
}
