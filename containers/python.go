package containers

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed python/boot.py
var pythonBoot string

//go:embed python/supervisor.py
var pythonSupervisor string

//go:embed python/frames.py
var pythonFrames string

//go:embed python/screen.py
var pythonScreen string

//go:embed python/takeover.py
var pythonTakeover string

//go:embed python/threads.py
var pythonThreads string

//go:embed python/tree.py
var pythonTree string

//go:embed python/utf8.py
var pythonUTF8 string

//go:embed python/prctl.py
var pythonPrctl string

//go:embed python/volume.py
var pythonVolume string

//go:embed python/files.py
var pythonFiles string

//go:embed python/relay.py
var pythonRelay string

// PythonBoot is what process 1 of a Python container starts as, for `python3 -c`: it reads
// PythonSupervisor from stdin, behind a 4-byte big-endian length, and becomes it.
func PythonBoot() string { return pythonBoot }

// PythonSupervisor is the source of process 1 of a Python container, for PythonBoot.
func PythonSupervisor() string {
	return bundlePython(pythonSupervisor, pythonModule{"prctl", pythonPrctl}, pythonModule{"tree", pythonTree},
		pythonModule{"utf8", pythonUTF8}, pythonModule{"frames", pythonFrames},
		pythonModule{"screen", pythonScreen}, pythonModule{"takeover", pythonTakeover},
		pythonModule{"threads", pythonThreads}, pythonModule{"volume", pythonVolume})
}

// PythonFiles is the source of the program that brings files into a container with Python
// and out of it, for `python3 -I -c`.
func PythonFiles() string {
	return bundlePython(pythonFiles, pythonModule{"prctl", pythonPrctl}, pythonModule{"tree", pythonTree},
		pythonModule{"utf8", pythonUTF8})
}

// PythonRelay is the source of the program that joins its stdio to the supervisor's socket,
// for `python3 -I -c`.
func PythonRelay() string { return bundlePython(pythonRelay, pythonModule{"prctl", pythonPrctl}) }

type pythonModule struct{ name, source string }

// bundlePython makes one text of a program and the modules of ours that it imports, each
// before those that import it. They stand before the program's first line, on that line, so
// that the numbers of its lines stay. What Quote escapes is the same in Python.
func bundlePython(program string, modules ...pythonModule) string {
	var text strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&text, `import sys; sys.modules[%[1]q] = type(sys)(%[1]q); `+
			`exec(compile(%[2]s, "<%[1]s>", "exec"), sys.modules[%[1]q].__dict__); `, m.name, strconv.Quote(m.source))
	}
	text.WriteString(program)
	return text.String()
}
