package runs

import (
	"encoding/json"
	"strings"
)

// Arguments returns code for RunOptions.Before that gives a program its name, its arguments and the file of its stdin; empty: that stays.
func Arguments(language Language, name string, given []string, stdin string) string {
	list, _ := json.Marshal(append([]string{name}, given...)) // Python and JavaScript read that too
	quote := func(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
	code, from := "set --", "; exec < FILE"
	switch language {
	case Python:
		code = "__import__('sys').argv[:] = " + string(list)
		from = "; __import__('os').dup2(__import__('os').open(FILE, 0), 0); __import__('sys').stdin = __import__('io').open(0, closefd=False)"
	case JavaScript:
		code = "process.argv.splice(2, Infinity, ..." + string(list) + ".slice(1))"
		from = "; process.getBuiltinModule('fs').closeSync(0); process.getBuiltinModule('fs').openSync(FILE)"
	default:
		for _, word := range given {
			code += " " + quote(word)
		}
	}
	if stdin == "" {
		return code
	}
	return code + strings.ReplaceAll(from, "FILE", quote(stdin))
}
