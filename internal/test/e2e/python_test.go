//go:build unix

package e2e

import (
	"strings"
	"testing"
)

func TestPythonRemembers(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), python, []step{
		{code: "x = 41", none: true, text: []string{"completed"}},
		{code: "x + 1", result: "42", text: []string{"42"}},
		{code: "import math, numpy as np, pandas as pd", none: true},
		{code: "def area(r):\n    return round(math.pi * r * r, 2)"},
		{code: "area(2)", result: "12.57"},
		{code: "class Point:\n    def __init__(self, x): self.x = x\np = Point(7)"},
		{code: "p.x", result: "7"},
		{code: "import os; os.makedirs('sub', exist_ok=True); os.chdir('sub'); os.environ['MINE'] = 'set'"},
		{code: "os.getcwd(), os.environ['MINE']", result: "('/mnt/data/sub', 'set')"},
		{code: "!echo $MINE $(pwd)", stdout: "set /mnt/data/sub\n"},
		{code: "os.chdir('/mnt/data'); os.getcwd()", result: "'/mnt/data'"},
		{code: "_", result: "'/mnt/data'"},
		{code: "del x\n'x' in globals()", result: "False"},
	})
}

// What each way to stumble is answered with is tested beside the rules; here a real server says it.
func TestARunThatStumblesIsToldWhatWorks(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	play(t, s, python, []step{
		{code: "import cv2", status: "failed", text: []string{"\nHint: opencv-python-headless is not installed"}},
		{code: "open('output/helper.py', 'w').write('x = 41')\nimport helper", status: "failed", text: []string{"\nHint: helper.py is in the session", "sys.path.append('/mnt/data/output')"}},
		{code: "!node -e 1", text: []string{"\nHint: Only Python is in this container; run_js_code runs JavaScript"}},
		{code: "open('/usr/x', 'w')", status: "failed", text: []string{"\nHint: /usr/x cannot be written here: write below /mnt/data"}},
		{code: "x = 5", text: []string{"\nHint: No output."}},
		{code: "x", result: "5", absent: []string{"Hint:"}},
		{code: "1 / 0", status: "failed", absent: []string{"Hint:"}},
	})
	play(t, s, javascript, []step{
		{code: "await fetch('https://example.com/')", status: "failed", text: []string{"\nHint: Code has no network here (--network none); upload_file with url"}},
		{code: "require('left-pad')", status: "failed", text: []string{"\nHint: left-pad is not installed"}},
	})
}

func TestPythonSpeaksIPython(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), python, []step{
		{code: "%timeit -n1 -r1 1", text: []string{"loop"}},
		{code: "%%bash\necho from $((1 + 1)) bash; echo wrong >&2", stdout: "from 2 bash\n", stderr: "wrong"},
		{code: "files = !echo one; echo two\nfiles.n", result: "'one\\ntwo'"},
		{code: "!exit 3\n_exit_code", result: "3"},
		{code: "import asyncio\nawait asyncio.sleep(0.01)\nawait asyncio.gather(*[asyncio.sleep(0, i) for i in range(3)])", result: "[0, 1, 2]"},
		{code: "async def f():\n    return 5\ntask = asyncio.create_task(f())\nawait task", result: "5"},
		{code: "from IPython.display import display, Markdown\ndisplay(Markdown('**bold**'))", text: []string{"bold"}},
		{code: "display({'a': 1})", text: []string{"{'a': 1}"}},
		{code: "import pandas as pd\npd.DataFrame({'n': [1, 2]})", text: []string{"   n\n0  1\n1  2"}, absent: []string{"<table"}},
		{code: "print?", text: []string{"Prints the values"}},
		{code: "1;", none: true},
		{code: "for i in range(3):\n    print(i)", stdout: "0\n1\n2\n", none: true},
		{code: "'grüße, 世界 🌍'", result: "'grüße, 世界 🌍'"},
		{code: "print('grüße, 世界 🌍 \\u202e\\x00\\x1b[31mred')", text: []string{"grüße, 世界 🌍"}},
		{code: "print('<b>&amp;</b>')", stdout: "<b>&amp;</b>\n"},
		{code: "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe ok\\n')", text: []string{"\ufffd", "ok"}},
		{code: "print('\\ud800')", stdout: "\\ud800\n"},
	})
}

func TestPythonShowsDataWhole(t *testing.T) {
	t.Parallel()
	frame := "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.zeros((3, 30))).add_prefix('col_')\n"
	play(t, start(t, setup{}), python, []step{
		{code: frame + "df", text: []string{"col_0 ", "col_15", "col_29"}, absent: []string{"..."}},
		{code: "print(df.describe())", text: []string{"col_0 ", "col_15", "col_29"}, absent: []string{"..."}},
		{code: "df.style.format('{:.1f}')", text: []string{"col_29\n0  0.0  0.0"}, absent: []string{"<td"}},
		{code: "%time df.style", text: []string{"col_29\n0  0.0"}, absent: []string{"<td"}},
		{code: "print(np.zeros((2, 30)))", stdout: "[[" + strings.Repeat("0. ", 29) + "0.]\n [" + strings.Repeat("0. ", 29) + "0.]]\n"},
		{code: "pd.set_option('display.max_columns', 4)\ndf", text: []string{"[3 rows x 30 columns]", "..."}},
	})
}

func TestPythonsChildrenEndAsTheyEnded(t *testing.T) {
	t.Parallel()
	fork := "import os, sys\ndef fork(child):\n    pid = os.fork()\n    if pid == 0: child()\n    else: return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
	play(t, start(t, setup{}), python, []step{
		{code: fork + "fork(lambda: 1 / 0)", result: "1", stderr: "ZeroDivisionError: division by zero"},
		{code: "fork(lambda: sys.exit(7))", result: "7"},
		{code: "fork(lambda: os.kill(os.getpid(), 9))", result: "-9"},
		{code: "fork(lambda: None)", result: "0"},
		{code: "def square(n): return n * n\nimport multiprocessing\n" +
			"for method in ('fork', 'spawn', 'forkserver'):\n    with multiprocessing.get_context(method).Pool(2) as pool: print(pool.map(square, [2, 3]))",
			stdout: "[4, 9]\n[4, 9]\n[4, 9]\n"},
	})
}

func TestPythonTakesCodeFromWindows(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), python, []step{
		{code: "\ufeff%%bash\r\nfor n in 1 2; do\r\n  echo $n\r\ndone\r\n", stdout: "1\n2\n"},
		{code: "\ufefffor n in (1, 2):\r\n    print(n)\r\n", stdout: "1\n2\n"},
	})
}

func TestPythonTellsAWarningOnce(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), python, []step{
		{code: "import re\nre.sub('\\d', '#', 'a1')", result: "'a#'", stderr: "<cell 1>:2: SyntaxWarning"},
		{code: "import warnings\nwarnings.simplefilter('always')\nfor n in range(12): warnings.warn('old')", stderr: "old (12 times)"},
		{code: "import matplotlib.pyplot as plt\nplt.title('t', family='No Font'); plt.plot([1]);", text: []string{"'No Font' not found. ("}},
	})
}

func TestPillowShowsImages(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, mode := range []string{"RGB", "P", "CMYK", "I;16"} {
		res := s.py("from PIL import Image\nImage.new('" + mode + "', (40, 30)).show()\nprint('after')")
		res.wantText(t, "after", "output/image")
		if got := len(res.images()); got != 1 {
			t.Errorf("%s: %d images, want 1", mode, got)
		}
	}
}

func TestPythonErrorsDoNotCostTheState(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), python, []step{
		{code: "kept = 3\nprint('before')\n1 / 0", status: "failed", err: "ZeroDivisionError", stdout: "before\n",
			text: []string{"ZeroDivisionError: division by zero", "exit code 1", "before"}, absent: []string{`\u001b[`}},
		{code: "raise ValueError('\\nsaid in the second line')", status: "failed", err: "ValueError", text: []string{"ValueError: said in the second line (failed"}},
		{code: "kept", result: "3"},
		{code: "if True print(1)", status: "failed", err: "SyntaxError"},
		{code: "  x = 1\n y = 2", status: "failed", err: "IndentationError"},
		{code: "def broken():\n    raise ValueError('in a function')\nbroken()", status: "failed", err: "ValueError", text: []string{"in a function", "broken()"}},
		{code: "import no_such_module", status: "failed", err: "ModuleNotFoundError"},
		{code: "raise ExceptionGroup('several', [ValueError('a'), KeyError('b')])", status: "failed", err: "ExceptionGroup"},
		{code: "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd", status: "failed", err: "Odd"},
		{code: "raise KeyboardInterrupt", status: "failed", err: "KeyboardInterrupt"},
		{code: "import sys; sys.exit(3)", status: "failed", exit: 3},
		{code: "sys.exit('a reason')", status: "failed", text: []string{"a reason"}},
		{code: "sys.exit(0)"},
		{code: "exit()"},
		{code: "class Show:\n    def __repr__(self): raise ValueError('no repr')\nShow()", text: []string{"no repr"}, status: "failed"},
		{code: "def deep(): return deep()\ndeep()", status: "failed", err: "RecursionError"},
		{code: "kept", result: "3"},
	})
}

func TestPythonFreshRunsStandAlone(t *testing.T) {
	t.Parallel()
	fresh := object{"fresh": true}
	play(t, start(t, setup{}), python, []step{
		{code: "x = 1\nopen('f.txt', 'w').write('file')"},
		{code: "'x' in globals(), open('f.txt').read()", args: fresh, result: "(False, 'file')"},
		{code: "x = 2; y = 3", args: fresh},
		{code: "x, 'y' in globals()", result: "(1, False)"},
		{code: "import os; os._exit(9)", args: fresh, status: "killed"},
		{code: "1 / 0", args: fresh, status: "failed", err: "ZeroDivisionError"},
		{code: "x", result: "1"},
	})
}

func TestALanguageCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--python-image", "off"}})
	s.refuse("tools/call", object{"name": python, "arguments": object{"code": "1"}}, invalidParams)
	s.js("1")
}

func TestTwoRunsOnOneKernelTakeTurns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("log = []")
	slow := s.beginCall(python, object{"code": "import time\nlog.append('slow begins')\ntime.sleep(1)\nlog.append('slow ends')"})
	quick := s.beginCall(python, object{"code": "log.append('quick')"})
	slow.result().wantStatus(t, "completed")
	quick.result().wantStatus(t, "completed")
	if got := s.py("log").Meta.Run.value(); got != "['slow begins', 'slow ends', 'quick']" {
		t.Errorf("got %s", got)
	}
}

func TestRunsKeepTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	var calls []*request
	for _, code := range []string{"order = []", "order.append(1)", "order.append(2)", "order.append(3)", "order.append(4)", "order.append(5)"} {
		calls = append(calls, s.beginCall(python, object{"code": code}))
	}
	for _, call := range calls {
		call.result().wantStatus(t, "completed")
	}
	if got := s.py("order").Meta.Run.value(); got != "[1, 2, 3, 4, 5]" {
		t.Errorf("got %s", got)
	}
}

func TestARunThatGetsNoTurnIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	busy := s.beginTracked(python, object{"code": "print('on', flush=True)\nwhile True: pass"}, "busy")
	s.waitFor("the code runs", func(all []message) bool { return len(progressOf(all, "busy")) > 0 })
	res := s.call(python, object{"code": "1", "timeout_seconds": 0.5})
	res.wantCode(t, "session_busy")
	res.wantText(t, "wait_for_run", "print('on', flush=True)")
	busy.cancel()
	s.py("1")
}

// Neither of the two would ever end, so both are heard of only when they run at once.
func TestSessionsRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const code = "print('on', flush=True)\nwhile True: pass"
	var runs []*request
	for _, id := range []string{"e2e-parallel-a", "e2e-parallel-b"} {
		runs = append(runs, s.beginTracked(python, object{"session_id": id, "code": code, "timeout_seconds": 600}, id))
	}
	for _, id := range []string{"e2e-parallel-a", "e2e-parallel-b"} {
		s.waitFor("both run", func(all []message) bool { return len(progressOf(all, id)) > 0 })
	}
	for _, r := range runs {
		if !r.pending() {
			t.Error("a run is over")
		}
		r.cancel()
	}
	for _, id := range []string{"e2e-parallel-a", "e2e-parallel-b"} {
		s.complete(python, object{"session_id": id, "code": "1"})
		s.call("close_session", object{"session_id": id})
	}
}
