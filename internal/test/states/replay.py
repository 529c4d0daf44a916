"""Runs histories of turns straight through and tells what each turn printed, and the state behind it.

    python3 replay.py PLAN ANSWER

Every history begins in an empty folder, with an interpreter of each language that is an ordinary process of its own: Python's has done nothing but
the imports of the first turn. Nothing is undone here, nothing is copied, and nothing ends early.
"""
import contextlib
import importlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import traceback

DATA, CELL, SAID, SITE = (pathlib.Path(p) for p in ("/mnt/data", "/tmp/cell", "/tmp/said", "/tmp/site"))
NODE = """
const fs = require('fs'); globalThis.require = require; let said = ''
console.log = (...all) => { said += require('util').format(...all) + '\\n' }
require('readline').createInterface({ input: process.stdin }).on('line', () => {
  said = ''
  try { require('vm').runInThisContext(fs.readFileSync('/tmp/cell', 'utf8')) } catch (e) { said += 'FAILED ' + e.stack + '\\n' }
  fs.writeFileSync('/tmp/said', said); process.stdout.write('.\\n')
})"""
BASH = "exec 9<&0 </dev/null; while read -r -u 9; do source /tmp/cell >/tmp/said 2>/dev/null; echo .; done"


class Other:
    """Node or a shell that runs the cell with each line of its input."""

    def __init__(self, *argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=DATA)

    def run(self, code):
        CELL.write_text(code + "\n")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            sys.exit(f"an interpreter ended at:\n{code}")
        return SAID.read_text()


class Python:
    def __init__(self):
        self.names = {"__name__": "__main__"}

    def run(self, code):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                exec(compile(code, "cell", "exec"), self.names)
            except Exception:
                print("FAILED", traceback.format_exc())
        return said.getvalue()


def replay(history, turns, probes):
    languages = {}
    for n in history:
        turn = turns[str(n)]
        if turn.get("wheel"):
            subprocess.run([sys.executable, "-m", "zipfile", "-e", DATA / "input" / turn["wheel"], SITE], check=True)
            importlib.invalidate_caches()
        new = {"python": Python, "javascript": lambda: Other("node", "-e", NODE), "bash": lambda: Other("bash", "--norc", "-c", BASH)}
        here = languages.get(turn["language"]) or languages.setdefault(turn["language"], new[turn["language"]]())
        value, failed, why = here.run(turn["code"]).partition("FAILED ")
        if bool(failed) != turn["fails"]:
            sys.exit(f"turn {n}: {why or 'it does not fail'}")
        yield value, {name: language.run(probes[name]) for name, language in languages.items()}
    for language in languages.values():
        if isinstance(language, Other):
            language.process.kill()


def main(plan, answer):
    plan, found = json.loads(plan.read_text()), []
    sys.path.insert(0, str(SITE))
    os.environ["PYTHONPATH"] = str(SITE)
    exec("\n".join(re.findall(r"(?m)^(?:import|from) .*", plan["turns"]["1"]["code"])), {})
    for history in plan["histories"]:
        for old in DATA.iterdir():
            if old.name != "input":
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        (DATA / "output").mkdir()
        shutil.rmtree(SITE, ignore_errors=True)
        SITE.mkdir()
        if not (child := os.fork()):
            SAID.write_text(json.dumps(list(replay(history, plan["turns"], plan["probes"]))))
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(1)
        found.append(json.loads(SAID.read_text()))
    answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
