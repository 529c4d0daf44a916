#!/usr/bin/env python3
"""Compares the shell of runs with bash itself, case by case of the Oils project's spec tests.

    suite.py SUPERVISOR SPEC_FOLDER [NAME...]

It runs in the image. Each case runs in an empty folder as a script that is named bash, and as a run of a new kernel. A line for each
that differs has the file, the case and what differs; NAME... shows these cases alone, in full. What is not
the same in two runs of the script is left out, and so is what does not end.
"""
import difflib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

WORK, HELPERS = pathlib.Path("/tmp/work"), pathlib.Path("/tmp/spec/bin")
MOST = 1 << 20
LIMIT = 10  # seconds


def read_cases(folder):
    """Yields each case of the files that are about bash: the file, the case's name, its code."""
    for path in sorted(folder.glob("*.test.sh")):
        head, *cases = re.split(r"^####+ ?(.*)\n", path.read_text(), flags=re.M)
        if not re.search(r"^##? compare_shells:.*\bbash", head, re.M):
            continue
        for name, text in zip(cases[::2], cases[1::2]):
            yield path.name.removesuffix(".test.sh"), name, re.split(r"^## ", text, maxsplit=1, flags=re.M)[0]


def empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("input", "output"):
        (folder / name).mkdir(parents=True)


def clean(text):
    """Takes out numbers of processes, which differ from run to run."""
    return re.sub(r"(?<=[( ])\d+(?=\): |  *(Killed|Terminated))", "PID", text)


def as_script(code, env):
    script = WORK.parent / "bash"
    script.write_text(code)
    try:
        done = subprocess.run(["bash", script], cwd=WORK, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    texts = [clean(text.decode(errors="replace").replace(str(script), "bash")) for text in (done.stdout, done.stderr)]
    return [*texts, done.returncode % 256]


def as_run(code, env, supervisor):
    """Runs the code, and then what only a shell does that is still there."""
    process = subprocess.Popen([supervisor, "bash", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=WORK)

    def send(**message):
        body = json.dumps(message).encode()
        process.stdin.write(struct.pack(">I", len(body)) + b"c" + body)
        process.stdin.flush()

    def receive(run):
        while head := process.stdout.read(5):
            message = json.loads(process.stdout.read(struct.unpack(">I", head[:4])[0]))
            if message["type"] == "done" and message["id"] == run:
                return message
        return None

    send(type="init", protocol=2, work_dir=str(WORK), env={}, on_eof="exit", output_bytes=MOST, spool_bytes=MOST, max_artifacts=0)
    send(type="run", id="case", code=code, timeout_ms=LIMIT * 1000, grace_ms=1000)
    done = receive("case")
    send(type="run", id="wait", code="wait", timeout_ms=LIMIT * 1000, grace_ms=1000)
    later = (receive("wait") or {}).get("background", [])
    process.stdin.close()
    process.kill()
    process.wait()
    if not done:
        return ["", "the supervisor has ended", 0]
    texts = [clean(done[stream]["head"] + done[stream]["tail"] + "".join(text["text"] for text in later if stream in text["path"]))
             for stream in ("stdout", "stderr")]
    return [*texts, done["exit_code"], *([] if done["kernel"] == "alive" else [done["kernel"] + " " + done["cause"]])]


def main(supervisor, folder, *names):
    shutil.copytree(folder, HELPERS.parent)
    for path in HELPERS.iterdir():
        path.write_text(path.read_text().replace("python2", "python3"))
    env = {"PATH": f"{HELPERS}:{os.environ['PATH']}", "HOME": "/tmp", "SH": "bash", "TMP": str(WORK), "REPO_ROOT": "/tmp", "LC_ALL": "C.UTF-8"}
    same = compared = 0
    for file, name, code in read_cases(pathlib.Path(folder)):
        if names and name not in names:
            continue
        empty(WORK)
        script = as_script(code, env)
        empty(WORK)
        if script is None:
            continue
        run = as_run(code, env, supervisor)
        empty(WORK)
        if run != script and as_script(code, env) != script:
            continue
        compared += 1
        same += script == run
        if script != run:
            differs = [what for what, a, b in zip(["stdout", "stderr", "status"], script, run) if a != b]
            print(file, name, " ".join(differs + run[3:]), sep="\t", flush=True)
            for a, b in zip(script, run) if names else []:
                print(*difflib.ndiff(str(a).splitlines(), str(b).splitlines()), sep="\n")
    print(f"{same} of {compared} as bash itself")


main(*sys.argv[1:])
