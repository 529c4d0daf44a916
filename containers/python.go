package containers

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed python/boot.py python/supervisor.py python/loop.py python/run.py python/settings.py python/takeover.py python/volume.py
//go:embed python/unnamed.py python/guard.py python/late.py python/reserve.py
//go:embed python/links.py python/frames.py python/children.py python/processes.py python/output.py python/screen.py python/artifacts.py
//go:embed python/kernel.py python/zygote.py python/environment.py python/preload.py python/imports.py python/interrupts.py
//go:embed python/plain_engine.py python/ipython_engine.py python/event_loop.py python/stand_ins.py python/threads.py python/errors.py
//go:embed python/notices.py python/spawning.py python/tables.py
//go:embed python/display.py python/mimes.py python/pictures.py python/descriptors.py python/hostile.py
//go:embed python/document.py python/files.py python/relay.py python/tree.py python/utf8.py python/prctl.py
var pythonSources embed.FS

// supervisorModules are what python/supervisor.py imports, each before those that import it.
// It and python/test_support.py name them too.
var supervisorModules = []string{
	"prctl", "tree", "utf8", "frames", "screen", "takeover", "threads", "processes", "unnamed", "volume",
	"descriptors", "hostile", "links", "children", "loop", "output", "late", "guard", "artifacts", "run",
	"imports", "settings", "environment", "interrupts", "preload",
	"pictures", "mimes", "display", "errors", "stand_ins", "event_loop", "notices", "plain_engine", "ipython_engine",
	"spawning", "tables", "kernel", "zygote", "reserve",
}

// PythonBoot is what process 1 of a Python container starts as, for `python3 -c`: it reads
// PythonSupervisor from stdin, behind a 4-byte big-endian length, and becomes it.
func PythonBoot() string { return readPython("boot").source }

// PythonSupervisor is the source of process 1 of a Python container, for PythonBoot.
func PythonSupervisor() string { return pythonProgram("supervisor", supervisorModules...) }

// PythonFiles is the source of the program that brings files into a container with Python
// and out of it, for `python3 -I -c`.
func PythonFiles() string { return pythonProgram("files", "prctl", "tree", "utf8") }

// PythonDocument is the source of the program that gives what is written in a document, for `python3 -I -c`.
func PythonDocument() string { return readPython("document").source }

// PythonRelay is the source of the program that joins its stdio to the supervisor's socket,
// for `python3 -I -c`.
func PythonRelay() string { return pythonProgram("relay", "prctl") }

func pythonProgram(name string, imports ...string) string {
	modules := make([]pythonModule, len(imports))
	for i, imported := range imports {
		modules[i] = readPython(imported)
	}
	return bundlePython(readPython(name), modules...)
}

type pythonModule struct{ name, source string }

// readPython reads what is embedded, so it cannot fail but by a mistake in the lines above.
func readPython(name string) pythonModule {
	content, err := pythonSources.ReadFile("python/" + name + ".py")
	if err != nil {
		panic(err)
	}
	return pythonModule{name, string(content)}
}

// bundlePython makes one text of a program and the modules of ours that it imports, each
// before those that import it. They stand before the program's first line, on that line, so
// that the numbers of its lines stay; a module's file is called <program/module> in tracebacks.
// What Quote escapes is the same in Python.
func bundlePython(program pythonModule, modules ...pythonModule) string {
	var text strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&text, `import sys; sys.modules[%[1]q] = type(sys)(%[1]q); `+
			`exec(compile(%[2]s, "<%[3]s/%[1]s>", "exec"), sys.modules[%[1]q].__dict__); `, m.name, strconv.Quote(m.source), program.name)
	}
	text.WriteString(program.source)
	return text.String()
}
