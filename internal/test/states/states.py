"""Plays long analyses against a server, and compares the state behind every turn with that of the same turns run straight through.

    python3 states.py SERVER [--jobs N] [--plant] [--tell] [ANALYSIS ...]

An analysis is a file of turns/ with a data set of data.py. A turn has an operation (none: code that goes on; `undo`, `keep`, `what-if`, `kill` and
others, see Play), a language, its state in words, and code that prints a value. What has to come out is found without any of the server's ways back:
for each turn, the turns that are then in effect are known, and replay.py runs just these, in order, in ordinary interpreters. Compared are the
printed value, a hash of each variable of the turn's language, and the kind, mode and content of each file; where the operation reaches beyond one
language, and in the last turn, the variables of all. With --plant the player leaves
out a part of what it is asked for, one after the other, which has to be found.
"""
import argparse
import asyncio
import base64
import collections
import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "clients" / "python"), str(HERE)]
import data
import trial

TOOLS = {"python": "run_python_code", "javascript": "run_js_code", "bash": "run_bash"}
# What ends a kernel in the middle of a run that has changed variables.
KILLS = {
    "python": "lost_with_its_kernel = 1\nimport os\nos.kill(os.getpid(), 9)",
    "javascript": "globalThis.lostWithItsKernel = 1; process.kill(process.pid, 'SIGKILL'); for (;;) ;",
    "bash": "lost_with_its_kernel=1; kill -9 $$",
}
CRASH = "open('/mnt/data/crashed.txt', 'w').write('x')\nmask = 'lost'\nimport os\nos._exit(3)"
# What changes nothing.
LOOKS = {"python": "print(len(df), mask)\ndf.describe()", "javascript": "items.map(x => x + 1)", "bash": "ls | wc -l; echo $mark"}
# Operations behind which the variables of all languages are compared.
WIDE = {"crash", "undo", "back", "files", "variables", "keep", "to", "adopt", "kill", "sleep", "idle", "server", "restart", "upgrade"}
KINDS = {
    "": "code that goes on", "compose": "composition of earlier results", "fails": "code that fails half-way", "undo": "rollback by `steps`", "back": "rollback by `run_id`",
    "files": "rollback of files alone", "variables": "rollback of variables alone", "keep": "a checkpoint is kept", "to": "rollback to a checkpoint by its name",
    "what-if": "counterfactual in a copy", "adopt": "the copy is gone on with", "kill": "a kernel is killed", "crash": "a killed run is undone", "look": "a run that only looks", "sleep": "the session sleeps", "idle": "the session falls asleep",
    "server": "the server is killed", "restart": "the server ends and begins again", "upgrade": "a package is upgraded",
}
FAULTS = {"undo": "no rollback", "files": "rollback without files", "variables": "rollback without variables", "others": "rollback of one language", "copy": "what-if without a copy",
          "to": "no checkpoint gone to", "frozen": "variables lost in sleep", "upgrade": "no upgrade"}
HEAD = re.compile(r"@ (?:([a-z-]+)(?: ([^|]+?))? \| )?(python|javascript|bash): (.+)")


class Turn:
    def __init__(self, number, op, argument, language, says, code):
        self.number, self.op, self.argument, self.language, self.says, self.code = number, op or "", argument, language, says, code
        self.history = []  # the numbers of the turns in effect, this one is the last


def read(name):
    """Read the turns of an analysis, with what its data set is put into them."""
    template, dataset = name.split(":")
    text = (HERE / "turns" / f"{template}.txt").read_text()
    values = data.SETS[dataset]
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: str(values[found[1]]), text)
    turns = []
    for block in re.split(r"^(?=@ )", text, flags=re.MULTILINE)[1:]:
        head, _, code = block.partition("\n")
        found = HEAD.fullmatch(head)
        if not found:
            sys.exit(f"{name}: {head}")
        turns.append(Turn(len(turns) + 1, *found.groups(), code.strip("\n")))
    return turns


def plan(turns):
    """Say for each turn which ones are in effect behind it."""
    now, names, copies = [], {}, {}
    for turn in turns:
        if turn.op in ("undo", "back", "files", "variables"):
            now = now[: -int(turn.argument)]
        elif turn.op == "to":
            now = names[turn.argument]
        elif turn.op == "adopt":
            begun = copies[int(turn.argument)]
            now = begun + [n for n in now[len(begun) - 1 :] if turns[n - 1].language != "python"]
        turn.history = [*now, turn.number]
        if turn.op == "what-if":
            copies[turn.number] = turn.history
        else:
            now = turn.history
        if turn.op == "keep":
            names[turn.argument] = now[:-1]


def probes(turns):
    """The code that tells the state, by language."""
    def named(language, pattern):
        return sorted({name for turn in turns if turn.language == language for name in re.findall(pattern, turn.code, re.MULTILINE)})

    script = named("javascript", r"^(?:let|const|var|function|class)\s+(\w+)") + ["lostWithItsKernel"]
    shell = named("bash", r"^(?:declare -\w+ |export |alias )?(\w+)\+?=") + named("bash", r"^(\w+) ?\(\)") + ["lost_with_its_kernel"]
    return {
        "python": "exec(open('/mnt/data/input/probe.py').read(), {'state': globals()})",
        "javascript": "require('/mnt/data/input/probe.cjs')({" + ", ".join(f"{n}: typeof {n} === 'undefined' ? undefined : {n}" for n in script) + "})",
        "bash": f"source /mnt/data/input/probe.sh; __state {' '.join(shell)}",
    }


def wheel(version, source):
    """A wheel of the package `trimmed`, in which a mean is computed in another way in each version."""
    info = f"trimmed-{version}.dist-info"
    files = {"trimmed.py": source, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: trimmed\nVersion: {version}\n", f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: states\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n" for name, text in files.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return packed.getvalue()


def brought():
    """The files that every session has in input/."""
    files = {name: (HERE / name).read_bytes() for name in ("probe.py", "probe.cjs", "probe.sh", "files.sh", "replay.py")}
    for version, source in data.TRIMMED.items():
        files[f"trimmed-{version}-py3-none-any.whl"] = wheel(version, source)
    return files


class Server:
    """A server over stdio that can be killed and started again, and its client."""

    def __init__(self, binary, folder, *options):
        self.folder, self.pid = folder, folder / "pid"
        command = [str(binary), "serve", "--state-dir", str(folder / "state"), "--spares", "0", "--structured-content", "--soft-wait", "10m", "--allow-host-dir", str(folder), *options]
        self.argv = ["-c", 'echo $$ >"$0"; exec "$@" 2>>"$0.log"', str(self.pid), *command]
        self.stack = contextlib.AsyncExitStack()

    async def start(self, *options):
        from mcp import Client, StdioServerParameters

        kept = {name: os.environ[name] for name in ("CONTAINERS_CONF", "CONTAINER_HOST", "XDG_RUNTIME_DIR") if name in os.environ}
        self.client = await self.stack.enter_async_context(Client(StdioServerParameters(command="/bin/sh", args=[*self.argv, *options], env=kept), read_timeout_seconds=900))

    async def stop(self, kill=False):
        if kill:
            os.kill(int(self.pid.read_text()), signal.SIGKILL)
        with contextlib.suppress(Exception):
            await self.stack.aclose()
        self.stack = contextlib.AsyncExitStack()

    async def call(self, tool, **arguments):
        """Call a tool, and give its fields and its text. An error of the tool's is raised."""
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error and not (result.structured_content or {}).get("run_id"):
            raise RuntimeError(f"{tool}: {text}")
        return result.structured_content or {}, text

    async def bring(self, session, files):
        for name, content in files.items():
            await self.call("upload_file", session_id=session, filename=name, content_base64=base64.b64encode(content).decode(), overwrite=True)


async def replayed(server, name, turns):
    """Give for each turn's history what it says and what is there behind it."""
    code, session = probes(turns), "replay-" + re.sub(r"\W", "-", name)
    histories = {tuple(turn.history) for turn in turns}
    longest = sorted(h for h in histories if not any(o != h and o[: len(h)] == h for o in histories))
    told = {t.number: {"language": t.language, "code": t.code, "fails": t.op == "fails", "wheel": f"trimmed-{t.argument}-py3-none-any.whl" if t.op == "upgrade" else None} for t in turns}
    await server.bring(session, {**brought(), "plan.json": json.dumps({"histories": longest, "turns": told, "probes": code}).encode()})
    run, text = await server.call("run_bash", session_id=session, code="python3 input/replay.py input/plan.json output/answer.json", timeout_seconds=900)
    if run.get("exit_code") != 0:
        sys.exit(f"{name}: the replay failed\n{text[-3000:]}")
    to = server.folder / f"{session}.json"
    await server.call("read_artifact", session_id=session, path="output/answer.json", save_to=str(to))
    await server.call("close_session", session_id=session)
    return {h[: n + 1]: (value, {language: told.split() for language, told in states.items()}) for h, steps in zip(longest, json.loads(to.read_text()), strict=True) for n, (value, states) in enumerate(steps)}, len(longest)


class Play:
    """One analysis in one session, turn by turn."""

    def __init__(self, server, name, turns, plant):
        self.server, self.turns, self.plant = server, turns, plant
        self.session, self.code = "states-" + re.sub(r"\W", "-", name), probes(turns)
        self.runs = []  # that a rollback counts: the number of the turn, the id and the language
        self.copies = {}
        self.notes = ""

    async def call(self, tool, **arguments):
        fields, text = await self.server.call(tool, session_id=self.session, **arguments)
        self.notes += text + "\n"
        return fields

    async def run(self, number, language, code, **more):
        fields = await self.call(TOOLS[language], code=code, **more)
        if not more:
            self.runs.append((number, fields["run_id"], language))
        return fields

    async def operate(self, turn, removed):
        """Do what the turn's operation asks for; removed are turns that are not in effect any longer."""
        op, argument = turn.op, turn.argument
        undone = [run for run in self.runs if run[0] in removed]
        if op in ("undo", "back", "files", "variables"):
            if {run[0] for run in undone} != set(removed):
                sys.exit(f"{self.session}: turn {turn.number} goes back further than runs are kept")
            self.runs = [run for run in self.runs if run not in undone]
            await self.go_back(op, undone)
        elif op == "keep":
            await self.call("restore_session", checkpoint=argument)
        elif op == "to":
            if self.plant != "to":
                await self.call("restore_session", to=argument)
            self.runs = []
        elif op == "adopt":
            await self.call("restore_session", run_id=self.copies[int(argument)])
            self.runs = []
        elif op == "kill":
            fields = await self.run(turn.number, argument, KILLS[argument])
            self.runs.pop()  # it has changed nothing that is there still
            if argument != "python":  # whose variables come back by themselves
                await self.call("restore_session", run_id=fields["run_id"])
        elif op == "crash":
            await self.call(TOOLS[argument], code=CRASH)
            await self.call("restore_session")
        elif op == "look":
            await self.call(TOOLS[argument], code=LOOKS[argument])
        elif op in ("sleep", "idle"):
            await self.sleep(op)
            self.runs = []
        elif op in ("server", "restart"):
            await self.server.stop(kill=op == "server")
            await self.server.start()
        elif op == "upgrade" and self.plant != "upgrade":
            await self.call("install_packages", language="python", packages=[f"/mnt/data/input/trimmed-{argument}-py3-none-any.whl"])

    async def go_back(self, op, undone):
        parts = {"variables": False} if op == "files" or self.plant == "variables" else {"files": False} if op == "variables" or self.plant == "files" else {}
        if self.plant == "undo":
            return
        if op != "back" and self.plant != "others":
            await self.call("restore_session", steps=len(undone), **parts)
            return
        first = {}
        for _, run, language in undone:
            first.setdefault(language, run)
        for n, run in enumerate(first.values()):
            if n == 0 or self.plant != "others":
                await self.call("restore_session", run_id=run, **(parts if n == 0 else {"files": False}))

    async def sleep(self, op):
        if self.plant == "frozen":
            await self.server.stop()
            await self.server.start("--keep-variables", "off")
        if op == "sleep":
            await self.call("close_session", keep_files=True)
        else:
            await self.server.stop()
            await self.server.start("--idle-timeout", "1s")
            await self.run(0, "bash", "true")
            for _ in range(600):
                listed, text = await self.server.call("list_sessions")
                kernels = [k for s in listed["sessions"] if s["session_id"] == self.session for k in s.get("kernels", [])]
                if {kernel["state"] for kernel in kernels} <= {"ended", "not started"}:
                    break
                await asyncio.sleep(0.1)
            else:
                raise RuntimeError("it does not fall asleep: " + text)
        if op == "idle" or self.plant == "frozen":
            await self.server.stop()
            await self.server.start()

    async def look(self, turn):
        """Run the turn's code, and give what it printed, and the state behind it by language."""
        copy = {"copy": True} if turn.op == "what-if" and self.plant != "copy" else {}
        fields = await self.run(turn.number, turn.language, turn.code + "\n" + ("" if turn.op == "fails" else self.code[turn.language]), **copy)
        if fields["status"] != ("failed" if turn.op == "fails" else "completed"):
            raise RuntimeError(f"the run {fields['status']}")
        if copy:
            self.copies[turn.number] = fields["run_id"]
        value, _, state = fields.get("stdout", "").partition("STATE ")
        states = {turn.language: state.split()} if state else {}
        used = {self.turns[n - 1].language for n in turn.history}
        wide = turn.op in WIDE or turn.number == len(self.turns)
        for language in sorted(used if wide else {turn.language}):
            if language not in states:
                fields = await self.run(turn.number, language, self.code[language])
                states[language] = fields.get("stdout", "").partition("STATE ")[2].split()
        return value, states

    async def play(self, expected):
        """Yield each turn, what is wrong with its state, and its seconds."""
        before = []
        await self.server.bring(self.session, brought())
        for turn in self.turns:
            self.notes, began = "", time.monotonic()
            try:
                await self.operate(turn, [n for n in before if n not in turn.history])
                wrong = differences(await self.look(turn), expected[tuple(turn.history)])
            except Exception as e:
                wrong = [str(e)[:2000]]
            yield turn, wrong, time.monotonic() - began
            before = before if turn.op == "what-if" else turn.history
        with contextlib.suppress(Exception):
            await self.call("close_session")


def differences(found, expected):
    value, states = found
    wrong = [] if value == expected[0] else [f"it printed {value!r}, not {expected[0]!r}"]
    for language, state in states.items():
        want = [word for word in expected[1][language] if word != "STATE"]
        if other := sorted(set(state) ^ set(want)):
            wrong.append(f"{language}: there is {[w for w in other if w in state][:20]}, not {[w for w in other if w in want][:20]}")
    return wrong


async def analyse(name, chosen, oracle):
    turns = read(name)
    plan(turns)
    rows, began = [], time.monotonic()
    async with oracle["turn"]:
        expected, replays = await replayed(oracle["server"], name, turns)
    # A rollback to where everything is as before it would show nothing.
    idle = [t.number for t in turns if t.op in ("undo", "back", "files", "variables", "to") and expected[tuple(t.history[:-1])][1] == expected[tuple(turns[t.number - 2].history)][1]]
    if idle:
        sys.exit(f"{name}: the turns {idle} take nothing back")
    for plant in FAULTS if chosen.plant else [None]:
        played = await play(name, turns, expected, plant, chosen)
        right, rows = sum(not wrong for _, wrong, _ in played), rows + played
        if plant:
            print(f"{name}, planted: {FAULTS[plant]}: {right} of {len(played)} states right", flush=True)
        if plant and right == len(played):
            sys.exit("it is not found")
    print(f"{name}: {right} of {len(turns)} states right, {len({str(expected[tuple(t.history)][1]) for t in turns})} of them different, {replays} histories, {time.monotonic() - began:.0f} s", flush=True)
    return rows


async def play(name, turns, expected, plant, chosen):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(chosen.server.resolve(), pathlib.Path(folder))
        await server.start()
        try:
            playing = Play(server, name, turns, plant)
            async for turn, wrong, seconds in playing.play(expected):
                rows.append((turn, wrong, seconds))
                if chosen.tell or wrong and not plant:
                    print(f"{name} {turn.number} {turn.op} {turn.argument or ''} {turn.language}: {turn.says}\n    {expected[tuple(turn.history)][0].strip()}", *wrong, *([playing.notes[-2000:]] if wrong else []), sep="\n    ", flush=True)
        finally:
            await server.stop()
    return rows


async def everything(chosen):
    with tempfile.TemporaryDirectory() as folder:
        oracle = {"server": Server(chosen.server.resolve(), pathlib.Path(folder), "--undo-limit", "0"), "turn": asyncio.Semaphore(1)}
        await oracle["server"].start()
        limit = asyncio.Semaphore(chosen.jobs)

        async def one(name):
            async with limit:
                return await analyse(name, chosen, oracle)

        try:
            return [row for rows in await asyncio.gather(*map(one, chosen.analyses)) for row in rows]
        finally:
            await oracle["server"].stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("server", type=pathlib.Path)
    arguments.add_argument("analyses", nargs="*", default=data.ANALYSES)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--plant", action="store_true", help="play each with one fault after the other: " + "; ".join(FAULTS.values()))
    arguments.add_argument("--tell", action="store_true", help="print every turn with its value")
    chosen = arguments.parse_intermixed_args()
    python = trial.ENVIRONMENTS / "mcp" / "bin" / "python"
    if pathlib.Path(sys.prefix) != python.parent.parent:
        if not python.exists() or shutil.which("uv"):
            trial.install("mcp")
        os.execv(python, [python, *sys.argv])
    rows = asyncio.run(everything(chosen))
    if chosen.plant:
        return
    kinds = collections.defaultdict(list)
    for turn, wrong, seconds in rows:
        kinds[KINDS[turn.op] + (f", {turn.argument}" if turn.op == "kill" else "")].append((not wrong, seconds))
    print("\n| turns | right | p50 | longest |\n|---|---|---|---|")
    for kind, all_of in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        seconds = [s for _, s in all_of]
        print(f"| {kind} | {sum(right for right, _ in all_of)} of {len(all_of)} | {statistics.median(seconds) * 1000:.0f} ms | {max(seconds):.1f} s |")
    right = sum(not wrong for _, wrong, _ in rows)
    print(f"| all | {right} of {len(rows)} | | |")
    sys.exit(right != len(rows))


if __name__ == "__main__":
    main()
