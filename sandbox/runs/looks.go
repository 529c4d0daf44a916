package runs

import (
	"regexp"
	"slices"
	"strings"
)

var (
	strips  = regexp.MustCompile(`(?m)^\s*(#|//).*$|([fF]?)("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')`)
	changes = regexp.MustCompile("(?m)(^|[^=!<>])=([^=]|$)|:=|\\+\\+|--|`|^\\s*[%!@]|[\\])\"']\\s*\\(|" +
		`\b(import|from|del|def|class|for|while|with|async|await|raise|return|yield|lambda|try|let|const|var|function|new|delete|throw)\b`)
	keywords = regexp.MustCompile(`\b(sep|end|flush|reverse|indent|n|by)=([^=])`)
	calls    = regexp.MustCompile(`([\w$]+)\s*\(`)
	commands = regexp.MustCompile(`[;|&\n]+`)
)

// What code may call, or begin a command with, without changing a variable.
var lookers = map[Language][]string{
	Python: strings.Fields("print len repr str type sum min max sorted list dict set tuple round isinstance dir vars id display " +
		"head tail describe info keys values items value_counts mean median shape"),
	JavaScript: strings.Fields("log table error warn info dir String Number Object keys values entries stringify"),
	Bash: strings.Fields("ls cat echo pwd head tail wc grep find du df file stat date sort uniq cut ps which tree diff md5sum sha256sum " +
		"rm cp mv mkdir rmdir touch ln chmod sed awk tar zip unzip gzip git curl"),
}

// OnlyLooks reports whether code surely changes no variable, by its text. It may change files.
func OnlyLooks(language Language, code string) bool {
	if language == Bash {
		return !strings.ContainsAny(code, "=({`") && !slices.ContainsFunc(commands.Split(code, -1), func(command string) bool {
			words := strings.Fields(command)
			return len(words) > 0 && words[0][0] != '#' && !slices.Contains(lookers[Bash], words[0])
		})
	}
	code = strips.ReplaceAllStringFunc(code, func(text string) string {
		if strings.HasPrefix(text, "f") || strings.HasPrefix(text, "F") {
			return text[2 : len(text)-1] // what is in it is evaluated
		}
		return " "
	})
	if changes.MatchString(keywords.ReplaceAllString(code, "$2")) {
		return false
	}
	return !slices.ContainsFunc(calls.FindAllStringSubmatch(code, -1), func(call []string) bool {
		return !slices.Contains(lookers[language], call[1])
	})
}
