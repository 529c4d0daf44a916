"""Runs the programs of examples/python with a scripted model, and prints what their models get.

    python3 trial.py SERVER [--lock] [PROGRAM ...]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time

import model

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
ENVIRONMENTS = ROOT / "bin" / "clients-python"
PYTHON = "3.11"  # the oldest that all of them take
JOBS = 4  # programs at a time: most of the time they wait


def program(name):
    return ROOT / f"examples/python/{name}_agent.py"


def lock(name):
    """Write the versions of a program's packages."""
    subprocess.run(["uv", "pip", "compile", "--quiet", "--upgrade", "--no-header", "--no-annotate", "--universal", "--python-version", PYTHON,
                    program(name), "--output-file", HERE / f"locks/{name}.txt"], check=True)


def install(name, environments=ENVIRONMENTS, locks=HERE / "locks"):
    """Give the Python of a program's environment, with what its lock has and nothing else."""
    python = environments / name / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environments / name], check=True)
    subprocess.run(["uv", "pip", "sync", "--quiet", "--python", python, locks / f"{name}.txt"], check=True)
    return python


def version(name):
    """The first package of a program is the one that the list names."""
    package = re.search(r'dependencies = \["([\w-]+)', program(name).read_text())[1]
    return package, re.search(rf"(?m)^{package}==(\S+)", (HERE / f"locks/{name}.txt").read_text())[1]


class Sandbox:
    """The server on the PATH, and one over HTTP, with a state of their own."""

    def __init__(self, binary, folder, options):
        self.folder = folder
        command = folder / "code-sandbox-mcp"
        # Clients pass little of the environment on.
        kept = "".join(f"export {name}='{value}'\n" for name, value in os.environ.items() if name in ("CONTAINERS_CONF", "CONTAINER_HOST", "XDG_RUNTIME_DIR"))
        kept += "export SANDBOX_SPARES=0\n"  # nobody would take what waits for the next server of these folders
        command.write_text(f"#!/bin/sh\n{kept}export SANDBOX_STATE_DIR='{folder}/stdio'\nexec '{binary}' \"$@\"\n")
        command.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.log = open(folder / "server.log", "w")
        self.process = subprocess.Popen([command, "serve", "--http", str(port), "--state-dir", folder / "http", *options], env={**os.environ, "SANDBOX_HTTP_TOKEN": self.token}, stdout=self.log, stderr=self.log)
        while self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
        sys.exit((folder / "server.log").read_text())

    def environment(self, transport, endpoint):
        more = {"MCP_URL": self.url, "MCP_TOKEN": self.token} if transport == "http" else {}
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "OPENAI_BASE_URL": endpoint, "OPENAI_API_BASE": endpoint, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **more}

    def close(self):
        self.process.terminate()
        self.process.wait()
        for transport in ("stdio", "http"):
            sessions, where = [self.folder / "code-sandbox-mcp", "sessions"], ["--state-dir", self.folder / transport]
            kept = json.loads(subprocess.run([*sessions, "list", "--json", *where], check=True, capture_output=True).stdout)["sessions"]
            for session in kept:
                subprocess.run([*sessions, "close", session["session_id"], *where], check=True, capture_output=True)


def run(sandbox, name, transport, python):
    scripted = (model.Programs if name == "dspy" else model.Model)(model.STEPS)
    server = model.serve(scripted)
    environment = sandbox.environment(transport, f"http://127.0.0.1:{server.server_port}/v1")
    began = time.monotonic()
    try:
        done = subprocess.run([python, program(name), "go"], env=environment, cwd=sandbox.folder, capture_output=True, text=True, timeout=1800)
        status, said = done.returncode, done.stderr[-2000:] + done.stdout[-500:]
    except subprocess.TimeoutExpired as late:
        status, said = "timeout", str(late.stderr)[-2000:]
    server.shutdown()
    row = {"program": name, "transport": transport, "exit": status, "seconds": round(time.monotonic() - began, 1), "tools": len(scripted.tools), **scripted.results}
    row["passed"] = status == 0 and all(scripted.results.get(step, {}).get("reached") for step in model.STEPS)
    if not row["passed"]:
        row["said"] = said
    print(f"{name} by {transport}: passed in {row['seconds']} s" if row["passed"] else json.dumps(row), flush=True)
    return row


def attempt(name, binary, anew):
    """Run a program both ways at once, with servers of its own, and give a row for each."""
    if anew:
        lock(name)
    python = install(name)
    # What a program starts its server with about figures, the one over HTTP has as well.
    images = re.search(r'"(--images)", "(\w+)"', program(name).read_text())
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(binary, pathlib.Path(folder), images.groups() if images else ())
        try:
            with concurrent.futures.ThreadPoolExecutor() as pair:
                return list(pair.map(lambda transport: run(sandbox, name, transport, python), ("stdio", "http")))
        finally:
            sandbox.close()


def listing(rows):
    lines = []
    for name in dict.fromkeys(row["program"] for row in rows):
        package, number = version(name)
        figure, long = (both([row for row in rows if row["program"] == name], step) for step in ("figure", "long"))
        limit = re.search(r"(?m)^Its limit: (.*)", program(name).read_text())[1]
        late = "" if long == "at once" else f"; a run of 20 s: {long}"
        lines.append(f"| [{package}](../examples/python/{name}_agent.py) {number} | {figure} | {limit}{late} |")
    return "\n".join(lines)


def both(rows, step):
    """What a program gets: said once where it is the same by stdio and HTTP."""
    cells = {row["transport"]: cell(row, step) for row in rows}
    if len(set(cells.values())) == 1:
        return cells["stdio"]
    return "; ".join(f"{transport}: {said}" for transport, said in cells.items())


def cell(row, step):
    result = row.get(step)
    if not result or not result["reached"]:
        return "FAILED"
    if step == "figure":
        return f"{'shown' if result['images'] else 'path'}, {-(-result['characters'] // 100) * 100}"
    return "at once" if result["calls"] == 1 else "by `wait_for_run`"


def main():
    programs = sorted(path.name.removesuffix("_agent.py") for path in (ROOT / "examples/python").glob("*_agent.py"))
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("server", type=pathlib.Path)
    arguments.add_argument("programs", nargs="*", default=programs)
    arguments.add_argument("--lock", action="store_true", help="write the locks anew, with the newest versions")
    chosen = arguments.parse_intermixed_args()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as several:
        rows = [row for rows in several.map(lambda name: attempt(name, chosen.server.resolve(), chosen.lock), chosen.programs) for row in rows]
    print(listing(rows))
    sys.exit(not all(row["passed"] for row in rows))


if __name__ == "__main__":
    main()
