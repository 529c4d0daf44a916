//go:build linux

package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// What is about bash alone, which has no values and few errors of its own: what it prints and its exit status are all.

var bash = &language{name: "bash", interpreter: "bash"}

// TestBash has one shell through all that ends a script or breaks one: what is behind it must find all of the state.
func TestBash(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	c.completed("x=1; list=(a 'b c'); export out=2; declare -A map=([k]=v); readonly fixed=3; f() { echo \"f $1\"; }; alias hi='echo aliased'; " +
		"set -o pipefail; shopt -s extglob; mkdir -p sub; cd sub; umask 027; trap 'echo usr' USR1; declare -n ref=x; declare -i number=4")
	const kept = "1 b c 2 v 3 f 5|aliased|pipefail on|sub|0027|usr|1|4|\n"
	state := func() string {
		return c.completed("echo -n \"$x ${list[1]} $out ${map[k]} $fixed $(f 5)|$(hi)|\"; set +e; " +
			"[[ -o pipefail ]] && echo -n 'pipefail on|'; echo -n \"${PWD##*/}|$(umask)|\"; kill -USR1 $$ | cat; echo \"$ref|$number|\"").Stdout.Head
	}
	want := strings.Replace(kept, "usr|", "", 1) // a signal comes behind the pipe, or not at all with another process
	want = strings.Replace(want, "0027|", "0027|usr\n", 1)
	check(t, "state", state(), want)
	pid := c.completed("echo $$").Stdout.Head
	for _, one := range []struct{ code, ended, stdout, stderr string }{
		{"false", "failed 1 alive", "", ""},
		{"(exit 7)", "failed 7 alive", "", ""},
		{"echo a; exit 3; echo b", "failed 3 alive", "a\n", ""},
		{"exit", "completed 0 alive", "", ""},
		{"false\nexit", "failed 1 alive", "", ""},
		{"g() { exit 4; }; g; echo b", "failed 4 alive", "", ""},
		{"set -e\nfalse\necho b", "failed 1 alive", "", ""},
		{"set -e; g() { false; echo c; }; g; echo b", "failed 1 alive", "", ""},
		{"set -euo pipefail; false | cat; echo b", "failed 1 alive", "", ""},
		{"false; echo $-", "completed 0 alive", "huB\n", ""}, // -e was that run's
		{"set -e", "completed 0 alive", "", ""},
		{"false; echo c", "completed 0 alive", "c\n", ""},
		{"set -u\necho $nowhere; echo b", "failed 1 alive", "", "bash: line 2: nowhere: unbound variable\n"},
		{"set -eu; v=$nowhere", "failed 1 alive", "", "bash: line 1: nowhere: unbound variable\n"},
		{"set -eu; no_such_command", "failed 127 alive", "", "bash: line 1: no_such_command: command not found\n"},
		{"set -u; no_such_command; exit", "failed 127 alive", "", "bash: line 1: no_such_command: command not found\n"},
		{"trap 'echo set' INT; trap - INT; trap", "completed 0 alive", "trap -- 'echo usr' SIGUSR1\n", ""},
		{"set +u; trap 'echo mine' EXIT; old=$(trap -p EXIT); trap - EXIT; eval \"$old\"; unset old", "completed 0 alive", "mine\n", ""},
		{"echo a; set -n; echo b\necho c", "completed 0 alive", "a\n", ""},
		{"set -o noexec; exit 5", "completed 0 alive", "", ""},
		{"quiet() { set -n; }; quiet; echo b", "completed 0 alive", "", ""},
		{"unset -f quiet; echo $-", "completed 0 alive", "hB\n", ""},
		{"(set -n; echo b); echo 'set -n'", "completed 0 alive", "set -n\n", ""},
		{"set +eu; (exit 9); echo $((1 / 0)); echo b", "failed 1 alive", "", "bash: line 1: 1 / 0: division by 0 (error token is \"0\")\n"},
		{"l() { local x=2 list=9; exit 0; }; l", "completed 0 alive", "", ""},
		{"\nno_such_command\n", "failed 127 alive", "", "bash: line 2: no_such_command: command not found\n"},
		{"echo a\nif true; then\n  )\n", "failed 2 alive", "a\n", "bash: line 3: syntax error near unexpected token `)'\nbash: line 3: `  )'\n"},
		{"echo 'open", "failed 2 alive", "", "bash: line 1: unexpected EOF while looking for matching `''\n"},
		{"cat <<END\na $x\nEND", "completed 0 alive", "a 1\n", ""},
		{"read line; echo \"$? $line\"; cat", "completed 0 alive", "1 \n", ""},
		{"fixed=4; echo b", "failed 1 alive", "", "bash: line 1: fixed: readonly variable\n"},
		{"return 5; echo after", "completed 0 alive", "after\n", "bash: line 1: return: can only `return' from a function or sourced script\n"},
		{"break; echo b", "completed 0 alive", "b\n", "bash: line 1: break: only meaningful in a `for', `while', or `until' loop\n"},
		{"local y=1", "failed 1 alive", "", "bash: line 1: local: can only be used in a function\n"},
		{"exec 5>../five; echo to five >&5; exec 5>&-; cat ../five", "completed 0 alive", "to five\n", ""},
		{"exec >../log; echo lost", "completed 0 alive", "", ""},
		{"echo shown; cat ../log", "completed 0 alive", "shown\nlost\n", ""},
		{"exec no_such_command; echo b", "failed 127 alive", "", "bash: line 1: exec: no_such_command: not found\n"},
		{"trap 'echo bye $?' EXIT; echo first; (exit 6)", "failed 6 alive", "first\nbye 6\n", ""},
		{"echo none", "completed 0 alive", "none\n", ""},
		{"i() { local IFS=, x=2; exit; }; i", "completed 0 alive", "", ""},
		{"declare bare; declare -A bare_map; export BARE; declare -i bare_number; exit", "completed 0 alive", "", ""},
		{"bare_map[k]=1; bare_number=1+1; declare -p bare bare_map BARE bare_number; printf %q \"$IFS\"; unset bare bare_map BARE bare_number", "completed 0 alive",
			"declare -- bare\ndeclare -A bare_map=([k]=\"1\" )\ndeclare -x BARE\ndeclare -i bare_number=\"2\"\n$' \\t\\n'", ""},
		{"broken() {\nif cat <<X\na\nX\nthen echo yes; fi; echo after\n}\nwhole() { cat <<X\nb\nX\n}; export -f whole; exit 2", "failed 2 alive", "",
			"note: broken is gone: a function that bash prints in another form than it reads\n"},
		{"bash -c whole; type -t broken", "failed 1 alive", "b\n", ""},
		{"trap 'echo erred' ERR; trap 'echo returned # it' RETURN; trap 'lines+=(\"$LINENO $BASH_COMMAND\")' DEBUG; q() { exit 4; }; q", "failed 4 alive", "", ""},
		{"trap -p; false\n:; echo \"${lines[*]}\"; trap - DEBUG ERR; declare -t -f q; q() { :; }; q; trap - RETURN; trap -p; unset lines; unset -f q", "completed 0 alive",
			"trap -- 'echo usr' SIGUSR1\ntrap -- 'lines+=(\"$LINENO $BASH_COMMAND\")' DEBUG\ntrap -- 'echo erred' ERR\ntrap -- 'echo returned # it' RETURN\nerred\n1 q 1 trap -p 1 false 1 false 1 false 2 : 2 echo \"${lines[*]}\"\nreturned\ntrap -- 'echo usr' SIGUSR1\n", ""},
		{"trap 'echo bye $?; exit 9' EXIT; exit 6", "failed 9 alive", "bye 6\n", ""},
		{"set -eu; trap 'echo bye $? $missing' EXIT; false", "failed 1 alive", "bye 1\n", ""},
		{"sleep 600 & until [[ $(</proc/$!/comm) == sleep ]]; do :; done; trap 'kill $(jobs -p); wait; echo ended' EXIT; exit 2", "failed 2 alive", "ended\n", ""},
		{"trap 'echo mine' EXIT; trap -p EXIT; trap - EXIT; trap -p EXIT", "completed 0 alive", "trap -- 'echo mine' EXIT\n", ""},
		{"g() { trap 'echo returned' RETURN; echo in; }; g; trap - RETURN", "completed 0 alive", "in\nreturned\n", ""},
		{"set +eu; trap 'echo wrong' ERR; false; trap - ERR; false; false; :", "completed 0 alive", "wrong\n", ""},
		{"trap 'echo wrong' ERR; trap ERR; false; trap -- 'echo wrong' ERR; trap -- - ERR INT; false; trap 'echo new' ERR; false; trap - ERR", "completed 0 alive", "new\n", ""},
		{"trap '((traced++))' DEBUG; :; trap - DEBUG; n=$traced; :; :; [[ $n -gt 0 && $n == $traced ]] && echo same; unset n traced", "completed 0 alive", "same\n", ""},
		{":\ntrap : NONE", "failed 1 alive", "", "bash: line 2: trap: NONE: invalid signal specification\n"},
		{"trap -p DEBUG", "completed 0 alive", "", ""},
		{"builtin() { :; }; unset() { :; }", "completed 0 alive", "", ""},
		{"builtin() { :; }; command() { :; }; exec() { :; }", "completed 0 alive", "", ""},
		{"type -t command builtin; builtin unset -f exec", "completed 0 alive", "builtin\nbuiltin\n", ""},
		{"builtin unset -f unset; type -t builtin; shopt -q inherit_errexit || [[ -o posix ]]", "failed 1 alive", "builtin\n", ""},
		{"sleep 600 & kill $!; wait $!", "failed 143 alive", "", ""}, // it may be no more than a copy of the shell
		{"a[1/0]=1; echo same\necho next $? $LINENO; echo ${a[1/0]}\necho ${FUNCNAME[0]-none} $0 ${BASH_SOURCE[0]}", "completed 0 alive", "next 1 2\nnone bash bash\n",
			"bash: line 1: 1/0: division by 0 (error token is \"0\")\nbash: line 2: 1/0: division by 0 (error token is \"0\")\n"},
		{"set -u; echo ${nowhere?}", "failed 1 alive", "", "bash: line 1: nowhere: parameter not set\n"},
		{"alias exit='echo no' trap='echo no' exec=false; IFS=1vx; set -x; \\exit 4", "failed 4 alive", "", "+ exit 4\n"},
		{"set +x; \\trap -p EXIT; alias exit; unalias exit trap exec; unset IFS", "completed 0 alive", "alias exit='echo no'\n", "+ set +x\n"},
		{"set +u; cat <<END\nopen", "completed 0 alive", "open\n", "bash: line 2: warning: here-document at line 1 delimited by end-of-file (wanted `END')\n"},
		{"(exit 3) & true; alias many='for i in'; many 1 2; do echo $i; done; unalias many", "failed 2 alive", "", "bash: line 1: syntax error near unexpected token `do'\nbash: line 1: `(exit 3) & true; alias many='for i in'; many 1 2; do echo $i; done; unalias many'\n"},
		{"echo hi \\", "completed 0 alive", "hi\n", ""},
		{"EPOCHS=10 BASH_SCRIPTS=x USE_RANDOM=1 uids=4; shopt -s nocasematch; exit", "completed 0 alive", "", ""},
		{"echo $EPOCHS $BASH_SCRIPTS $USE_RANDOM $uids; shopt -u nocasematch; unset EPOCHS BASH_SCRIPTS USE_RANDOM uids", "completed 0 alive", "10 x 1 4\n", ""},
		{"(trap 'echo inner' EXIT)", "completed 0 alive", "inner\n", ""},
		{"set -x; : traced", "completed 0 alive", "", "+ : traced\n"},
		{"set +x", "completed 0 alive", "", "+ set +x\n"},
		{"PS4='> '; set -x; :; set +x; PS4='+ '", "completed 0 alive", "", "> :\n> set +x\n"},
		{"printf() { :; }; read() { :; }; eval() { :; }; exec() { :; }; mapfile() { :; }; set() { :; }; exit 3", "failed 3 alive", "", ""},
		{"unset -f printf read eval exec mapfile set; printf ok", "completed 0 alive", "ok", ""},
		{"PROMPT_COMMAND='echo prompt'; BASH_ENV=/dev/stdin; export SHELLOPTS; exit", "completed 0 alive", "", ""},
		{"echo \"$PROMPT_COMMAND $BASH_ENV\"; unset PROMPT_COMMAND BASH_ENV", "completed 0 alive", "echo prompt /dev/stdin\n", ""},
		{"(P=$PATH; unset PATH; ls; exit 1)", "failed 1 alive", "", "bash: line 1: ls: No such file or directory\n"},
		{"__sandbox_end() { exit 5; }; hash", "completed 0 alive", "hash: hash table empty\n", ""},
		{"declare -F | grep sandbox; compgen -A function sandbox; set | grep -c '^__sandbox.* ()'", "failed 1 alive", "0\n", ""},
		{"IFS=x; set -f; LC_ALL=C; printf '%s' äö | wc -c; unset LC_ALL; set +f; unset IFS", "completed 0 alive", "4\n", ""},
		{"\ufeffset -- a 'b c'; shift 0; lined() {\n  # a remark\n\n  no_such_command; }; export -f lined\nexit", "completed 0 alive", "", ""},
		{"\n\nlined; m() { exit; }; m other", "completed 0 alive", "", "bash: line 4: no_such_command: command not found\n"},
		{"echo $# \"$2\"; bash -c 'type -t lined'; unset -f lined m; set --", "completed 0 alive", "2 b c\nfunction\n", ""},
		{"mkdir gone; cd gone; rmdir ../gone; exit 0", "completed 0 alive", "", ""},
		{"echo $PWD", "completed 0 alive", c.dir + "\n", ""},
		{"cd " + c.dir + "/sub 2>/dev/null", "completed 0 alive", "", ""},
	} {
		d := c.run(one.code)
		should.Equal(t, d.ended()+"\n"+d.Stdout.Head+d.Stderr.Head, one.ended+"\n"+one.stdout+one.stderr, "%s", one.code)
	}
	check(t, "state", state(), want)
	check(t, "the process", c.completed("echo $$").Stdout.Head, pid)
	check(t, "the code", c.run("echo a\necho b\x00").Error.Message, "line 2 has a NUL character, which bash cannot take")
	d := c.completed(": " + strings.Repeat("äx ", 240_000) + "\necho $#")
	check(t, "much code", d.Stdout.Head, "0\n")
}

func TestBashInterrupted(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	c.completed("x=1; cd /tmp")
	for _, code := range []string{
		"while :; do :; done", "sleep 600; echo on", "set -e; sleep 600", "read line < <(sleep 600)", "cat <(sleep 600) | cat", "f() { local x=2; sleep 600; }; f",
		"bash -c 'trap \"\" INT; sleep 600'; echo on; sleep 600", "sleep 600 & wait", "trap 'echo bye' EXIT; sleep 600",
	} {
		d := c.run(code, request{TimeoutMS: short})
		check(t, code, d.ended(), "timed_out 124 alive")
		check(t, code, strings.TrimPrefix(d.Stdout.Head, "on\n"), map[bool]string{true: "bye\n"}[strings.Contains(code, "bye")])
		check(t, "state", c.completed("echo $x $PWD; set +e").Stdout.Head, "1 /tmp\n")
	}
	d := c.run("trap '' INT; while :; do :; done", request{TimeoutMS: short, GraceMS: short})
	check(t, "what ignores it", d.ended(), "timed_out 124 dead ignored_interrupt")
	for range 10 {
		id := c.begin("sleep 0.02")
		c.interrupt(id, "cancelled") // at about the time at which it ends
		c.done(id)
		check(t, "the next", c.completed("echo 1").Stdout.Head, "1\n")
	}
}

func TestBashReplaced(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	for _, one := range [][2]string{
		{"exec echo replaced", "completed 0 dead exit 0"},
		{"exec sh -c 'exit 5'", "failed 5 dead exit 5"},
		{"exec /nonexistent", "failed 127 dead exit 127"},
		{"kill -9 $$", "killed 137 dead signal 9"},
		{"kill $$; sleep 600", "failed 143 alive"},
		// A signal between bash's fork and its wait would be seen when sleep is over, so it waits until bash sleeps, with two children.
		{`false; (until [[ $(</proc/$$/stat) == *") S "* && $(</proc/$$/task/$$/children) == *[0-9]" "[0-9]* ]]; do :; done; kill $$) & sleep 600`, "failed 143 alive"},
		{"trap exit TERM; kill $$; sleep 600", "completed 0 alive"},
		{"builtin trap - EXIT; builtin exit 6", "failed 6 dead exit 6"},
		{"exec 250<&-", "killed 137 dead signal 9"},
		{"exec 250<&-; exit", "killed 137 dead signal 9"},
		{"exec 249<&-", "killed 137 dead signal 9"},
		{"exec 251<&-", "killed 137 dead signal 9"},
		{"sleep 600 & exec 252>&-", "killed 137 dead signal 9"},
		{"exec 253>&-", "killed 137 dead signal 9"},
		{"exec 254>&-; exit", "killed 137 dead signal 9"},
		{"exec 251<&- 252>&-; exit 1", "killed 137 dead signal 9"},
		{"bash -c 'kill -9 $PPID'; sleep 600", "killed 137 dead signal 9"},
		{"printf 'end\\n0\\n\\0' >&252; :", "killed 137 dead signal 9"}, // a report that is not the run's
		{"printf 'exit\\0o\\n\\0end\\n0\\n\\0' >&252; :", "killed 137 dead signal 9"},
	} {
		code, ended := one[0], one[1]
		c.completed("x=1")
		d := c.run(code)
		got := strings.Replace(strings.TrimSpace(d.ended()), "signal 13", "signal 9", 1) // it may be about to report to nobody
		check(t, code, got, ended)
		if strings.Contains(ended, "dead") {
			t.Log("after ", code)
			check(t, "x", c.completed("echo $x").Stdout.Head, "\n")
		}
		c.send(request{Type: "stop"})
		c.awaitExit()
		c = start(t, bash, options{})
	}
	d := c.run("echo $$; exec echo in a fresh one", request{Fresh: true})
	check(t, "fresh", d.ended(), "completed 0 fresh exit 0")
}

func TestBashWithoutRoomForTemporaryFiles(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{env: []string{"TMPDIR=/nonexistent"}})
	check(t, "its end", c.run("x=1; exit 3").ended(), "failed 3 alive")
	check(t, "x", c.completed("echo $x").Stdout.Head, "1\n")
}

func TestABashVariableThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	d := c.completed(fmt.Sprintf("x=1; printf -v huge %%%ds; exit", 17<<20))
	check(t, "stderr", d.Stderr.Head, "note: huge is gone: too large for the next shell\n")
	check(t, "x", c.completed("echo $x${huge-}").Stdout.Head, "1\n")
}

func TestBashInTheBackground(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	d := c.completed("(until [[ -e go ]]; do sleep 0.01; done; echo later; > gone) & echo at once")
	check(t, "output", d.Stdout.Head, "at once\n")
	should.Hold(t, len(d.GoesOn) == 1 && strings.HasPrefix(d.GoesOn[0], "process ( until [[ -e go ]]"), "goes on: %q", d.GoesOn)
	check(t, "goes on is told again", len(c.completed("jobs -r | wc -l").GoesOn), 0)
	c.write("go", "")
	c.awaitFile("gone")
	d = c.completed("wait $!; echo $?")
	check(t, "the job", d.Stdout.Head, "0\n")
	should.Hold(t, len(d.Background) == 1 && d.Background[0].Text == "later\n", "background: %+v", d.Background)
}

func TestBashExitsBesideAJob(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	d := c.completed("sleep 600 & echo $!; exit")
	check(t, "what goes on", fmt.Sprint(d.GoesOn), "[process sleep 600 (pid "+strings.TrimSpace(d.Stdout.Head)+")]")
}

func TestBashIsFrozen(t *testing.T) {
	t.Parallel()
	c := keeping(t, bash, "", protocol.Init{Env: map[string]string{"PASSED": "s3cret"}})
	big := 3 << 20
	c.completed(fmt.Sprintf("x=$'a\\nb \"q\" \\'s'; list=(1 'two three'); declare -A map=([k]=v); export out=2; f() { echo \"f $1\"; }; alias hi='echo aliased'; "+
		"set -euo pipefail; set -- first; shopt -s extglob\ng() { case $1 in +(a)) echo many;; esac; }; mkdir -p sub; cd sub; trap 'echo usr' USR1; unset LANG; ulimit -n 500; ulimit -S -u 10000; sleep 600 & "+
		"printf -v big %%%ds; readonly fixed=1", big))
	c.completed(fmt.Sprintf("printf -v huge %%%ds", 17<<20))
	frozen := c.freeze("f")
	check(t, "freeze", frozen.Error, "")
	check(t, "lost", fmt.Sprint(frozen.Lost), "[{sleep 600 a program that runs in the background} {huge too large}]")
	c.completed("unset huge")
	frozen = c.freeze("without it")
	check(t, "lost", fmt.Sprint(frozen.Lost), "[{sleep 600 a program that runs in the background}]")
	check(t, "it goes on", c.completed("echo $out; jobs -r | wc -l").Stdout.Head, "2\n1\n")
	text, err := os.ReadFile(c.path(frozenFile(bash)))
	should.Hold(t, err == nil && !strings.Contains(string(text), "s3cret") && len(text) >= big,
		"the file of %d bytes has what is passed through: %v", len(text), err)
	c.stop()
	c = keeping(t, bash, c.dir, protocol.Init{Env: map[string]string{"PASSED": "other", "LANG": "C"}})
	d := c.completed("echo \"$x|${list[1]}|${map[k]}|$(bash -c 'echo $out')|$(f 1)|$(g aaa)|${PWD##*/}|$PASSED|${LANG-no}|${#big}|$-|$fixed$1|$(ulimit -S -n)|$(ulimit -H -n)|$(ulimit -S -u)\"; hi; kill -USR1 $$")
	options := "huB"
	check(t, "woken", d.Stdout.Head, fmt.Sprintf("a\nb \"q\" 's|two three|v|2|f 1|many|sub|other|no|%d|%s|1first|500|500|10000\naliased\nusr\n", big, options))
	if d.Origin == nil || d.Origin.From != "frozen" || d.Origin.Variables < 5 || d.Origin.AtMS == 0 || len(d.Origin.Lost) != 1 {
		t.Errorf("origin: %+v", d.Origin)
	}
	c.stop()
	for _, forged := range []string{"", "x=1\n", "# code-sandbox-mcp bash 1\nx=1\n#{}\n", "# code-sandbox-mcp bash 2\nx=1\n", "# code-sandbox-mcp bash 2\n#{\n"} {
		c.write(frozenFile(bash), forged)
		c = keeping(t, bash, c.dir)
		d := c.completed("echo ${x-none}")
		check(t, forged, d.Stdout.Head, "none\n")
		should.Hold(t, d.Origin != nil && d.Origin.Error == "the frozen variables could not be read: the file is not whole",
			"%q: %+v", forged, d.Origin)
		c.stop()
	}
	c.write(frozenFile(bash), "# code-sandbox-mcp bash 2\n#vx 3\nx=1\n#vy 9\ny='a\nb c'\n#vz 20\nz='unfini\n")
	c = keeping(t, bash, c.dir)
	d = c.completed("echo \"$x|$y|${z-none}\"")
	check(t, "a file that is cut off", d.Stdout.Head, "1|a\nb c|none\n")
	should.Hold(t, d.Origin != nil && d.Origin.Variables == 2 && d.Origin.LostTotal == 2 && d.Origin.Lost[0].Name == "z",
		"a file that is cut off: %+v", d.Origin)
	c.stop()
	c.write(frozenFile(bash), "# code-sandbox-mcp bash 2\n#vx 10\nx=1\nexit 3\n#{}\n")
	c = keeping(t, bash, c.dir)
	check(t, "a file that exits", c.completed("echo $x").Stdout.Head, "1\n")
	c.stop()
	must.OK(t, os.RemoveAll(c.path(".state")))
	must.OK(t, os.Symlink("/tmp", c.path(".state")))
	c = keeping(t, bash, c.dir)
	c.completed("x=1")
	if frozen := c.freeze("f"); frozen.Error == "" {
		t.Errorf("it is written through a link: %+v", frozen)
	}
}
