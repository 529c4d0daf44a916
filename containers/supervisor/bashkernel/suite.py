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

WORK, HELPERS, SCRIPT = pathlib.Path("/tmp/work"), pathlib.Path("/tmp/spec/bin"), pathlib.Path("/tmp/bash")
SECONDS = 10
STREAMS = "stdout", "stderr"


def read_cases(folder):
    """Yields each case of the files that are about bash: the file, the case's name, its code."""
    for path in sorted(folder.glob("*.test.sh")):
        head, *cases = re.split(r"^####+ ?(.*)\n", path.read_text(), flags=re.M)
        if re.search(r"^##? compare_shells:.*\bbash", head, re.M):
            for name, text in zip(cases[::2], cases[1::2]):
                yield path.name.removesuffix(".test.sh"), name, re.split(r"^## ", text, maxsplit=1, flags=re.M)[0]


def empty():
    shutil.rmtree(WORK, ignore_errors=True)
    for name in ("input", "output"):
        (WORK / name).mkdir(parents=True)


def clean(text):
    """Takes out the names of scripts and the numbers of processes."""
    return re.sub(r"(?<=[( ])\d+(?=\): |  *(Killed|Terminated))", "PID", text.replace(str(SCRIPT), "bash"))


def as_script(code, env):
    empty()
    SCRIPT.write_text(code)
    try:
        done = subprocess.run(["bash", SCRIPT], cwd=WORK, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return [*(clean(text.decode(errors="replace")) for text in (done.stdout, done.stderr)), done.returncode % 256]


def as_run(code, env, supervisor):
    """Runs the code, and waits for what it has left in the background."""
    empty()
    process = subprocess.Popen([supervisor, "bash="], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=WORK)

    def send(**message):
        body = json.dumps(message).encode()
        process.stdin.write(struct.pack(">I", len(body)) + b"c" + body)
        process.stdin.flush()

    def run(name, code):
        send(type="run", language="bash", id=name, code=code, timeout_ms=SECONDS * 1000, grace_ms=1000)
        while head := process.stdout.read(5):
            message = json.loads(process.stdout.read(struct.unpack(">I", head[:4])[0]))
            if message["type"] == "done" and message["id"] == name:
                return message
        raise SystemExit("the supervisor has ended")

    send(type="init", protocol=3, work_dir=str(WORK), env={}, on_eof="exit", output_bytes=1 << 20, spool_bytes=1 << 20, max_artifacts=0)
    done, later = run("case", code), run("wait", "wait")["background"]
    process.stdin.close()
    process.kill()
    process.wait()
    texts = [done[stream]["head"] + done[stream]["tail"] + "".join(text["text"] for text in later if stream in text["path"]) for stream in STREAMS]
    return [*map(clean, texts), done["exit_code"], *([] if done["kernel"] == "alive" else [done["kernel"] + " " + done["cause"]])]


def main(supervisor, folder, *names):
    shutil.copytree(folder, HELPERS.parent)
    for path in HELPERS.iterdir():
        path.write_text(path.read_text().replace("python2", "python3"))
    env = {"PATH": f"{HELPERS}:{os.environ['PATH']}", "HOME": "/tmp", "SH": "bash", "TMP": str(WORK), "REPO_ROOT": "/tmp", "LC_ALL": "C.UTF-8"}
    same = differ = 0
    for file, name, code in read_cases(pathlib.Path(folder)):
        if names and name not in names or (script := as_script(code, env)) is None:
            continue
        run = as_run(code, env, supervisor)
        if script == run:
            same += 1
        elif as_script(code, env) == script:
            differ += 1
            kinds = [kind for kind, a, b in zip([*STREAMS, "status"], script, run) if a != b]
            print(file, name, " ".join(kinds + run[3:]), sep="\t", flush=True)
            for a, b in zip(script, run) if names else []:
                print(*difflib.ndiff(str(a).splitlines(), str(b).splitlines()), sep="\n")
    print(f"{same} of {same + differ} as bash itself")


main(*sys.argv[1:])
