"""Runs frameworks, and suites that others wrote for sandboxes, against this server's interfaces, and prints what passes.

    python3 strangers.py SERVER [--lock] [NAME ...]

SERVER is code-sandbox-server. Each name has an environment of its own, the lines of docs/frameworks.md below its heading, and maybe a suite.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "clients" / "python"))
import model
import trial

PAGE = (trial.ROOT / "docs/frameworks.md").read_text()
BIN = trial.ROOT / "bin" / "strangers"
NODE = HERE / "node_modules" / ".bin"
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
ASYNC = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=session", "-o", "asyncio_default_test_loop_scope=session"]
# What is fetched by whoever runs this, as it was released.
VENDOR = {"E2B": "b8029973aa7da5f741f7bb1a9f833b38a0885438", "code-interpreter": "7df1757bfd5baa037f909ce97c2dbe014da973c0"}
VITEST = ["node_modules/vitest/vitest.mjs", "run", "--reporter=junit"]
# Its heading on the page, the package that it is about and what else its environment has, and its suite: where it is, and how it is run.
NAMES = {
    "langchain": ("LangChain Deep Agents", ["langchain-e2b==0.0.6", "deepagents", "langchain-openai", "langchain-tests"], HERE, [*PYTEST, *ASYNC, "test_langchain.py"]),
    "openai_agents": ("OpenAI Agents SDK", ["openai-agents[e2b]==0.24.0"], HERE, [*PYTEST, *ASYNC, "test_openai_agents.py"]),
    "mastra": ("Mastra", ["@mastra/e2b@0.8.0"], HERE, ["--test", "--test-reporter=junit", "mastra.test.mjs"]),
    "smolagents": ("smolagents", ["smolagents[e2b,openai]==1.26.0"], HERE, [*PYTEST, "test_smolagents.py"]),
    "agno": ("Agno", ["agno==3.1.10", "e2b-code-interpreter", "openai"], HERE, [*PYTEST, "test_agno.py"]),
    "crewai": ("CrewAI", ["crewai-tools==1.15.30", "crewai", "e2b-code-interpreter"], HERE, [*PYTEST, "test_crewai.py"]),
    "inspect": ("Inspect", ["inspect-ai==0.3.285", "e2b", "openai"], HERE, [*PYTEST, *ASYNC, "test_inspect.py"]),
    "litellm": ("LiteLLM", ["litellm==1.110.2", "mcp"], None, None),
    "autogen": ("AutoGen", [], None, None),
    "pydantic_ai": ("Pydantic AI", [], None, None),
    "e2b_js": ("E2B's SDK, JavaScript", ["e2b@2.45.0"], "E2B/packages/js-sdk", [*VITEST, "--project", "unit", "tests/sandbox"]),
    "interpreter_js": ("E2B's code interpreter, JavaScript", ["@e2b/code-interpreter@2.7.1"], "code-interpreter/js", VITEST),
    "e2b_python": ("E2B's SDK, Python", ["e2b==2.45.1"], "E2B/packages/python-sdk", [*PYTEST, "tests/sync/api_sync", "tests/sync/sandbox_sync"]),
    "interpreter_python": ("E2B's code interpreter, Python", ["e2b-code-interpreter==2.9.1", "e2b==2.45.1", "matplotlib"], "code-interpreter/python", [*PYTEST, "tests"]),
}
TESTING = ["pytest", "pytest-asyncio", "pytest-dotenv", "pytest-timeout", "pytest-xdist"]
COUNT = "print('primes:', sum(all(n % d for d in range(2, n)) for n in range(2, 1000)))"
ANSWER = "There are 168 primes."


class Counts(model.Model):
    """Counts primes by the first tool that takes code or a command, and says the number that it was told."""

    def __init__(self):
        super().__init__(())

    def answer(self, request):
        told = re.search(r"primes: (\d+)", json.dumps(request["messages"]))
        self.said = f"There are {told[1]} primes." if told else "no tool told the number"
        if not request.get("tools"):  # an agent that runs what its model writes
            code = f"final_answer({self.said!r})" if told else COUNT
            self.said = f"<code>\n{code}\n</code>"
        elif not told:
            for tool in sorted((tool["function"] for tool in request["tools"]), key=lambda tool: "python" not in tool["name"]):
                for argument, value in {"code": COUNT, "command": f'python3 -c "{COUNT}"', "cmd": f'python3 -c "{COUNT}"'}.items():
                    if argument in tool.get("parameters", {}).get("properties", {}):
                        return tool["name"], {argument: value}
        return None


def lock(name):
    """Write the versions of an environment's packages, with their checksums."""
    subprocess.run(["uv", "pip", "compile", "--quiet", "--upgrade", "--no-header", "--no-annotate", "--generate-hashes", "--universal", "--python-version", trial.PYTHON, "-",
                    "--output-file", HERE / f"locks/{name}.txt"], input="\n".join(NAMES[name][1] + TESTING), text=True, check=True)


def in_node(name):
    return name == "mastra" or name.endswith("_js")


def interpreter(name):
    """What runs a name's programs, with all that they need installed."""
    if not in_node(name):
        return trial.install(name, BIN, HERE / "locks") if NAMES[name][1] else trial.install(name)
    if not NODE.exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE, check=True)
    return NODE / "node"


def fetch(folder):
    """A folder of the vendor's repositories, and what the vendor's own lock pins for it."""
    repository = folder.split("/")[0]
    at = BIN / repository
    if not at.exists():
        subprocess.run(["git", "init", "--quiet", at], check=True)
        subprocess.run(["git", "-C", at, "fetch", "--quiet", "--depth", "1", f"https://github.com/e2b-dev/{repository}", VENDOR[repository]], check=True)
        subprocess.run(["git", "-C", at, "checkout", "--quiet", "FETCH_HEAD"], check=True)
    if (BIN / folder / "package.json").exists():
        subprocess.run([NODE / "pnpm", "install", "--silent", "--frozen-lockfile", "--ignore-scripts", "--filter", "."], cwd=BIN / folder, env={**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}"}, check=True)
    return BIN / folder


def lines(name, program, sandbox):
    """Run the first lines below a framework's heading on the page: "yes" if they say the number."""
    found = re.search(rf"\n### {re.escape(NAMES[name][0])}\n(?:(?!\n###? ).)*?\n```(?:python|js)\n(.*?)\n```\n", PAGE, re.DOTALL)
    if not found:
        return ""
    server = model.serve(Counts())
    environment = sandbox.environment("http", f"http://127.0.0.1:{server.server_port}/v1") | {"PYTHONPATH": str(trial.ROOT / "examples"), "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    text = found[1].replace("http://127.0.0.1:8000/mcp", sandbox.url)
    argv = [program, "--input-type=module", "--eval", text] if in_node(name) else [program, "-c", text]
    done = subprocess.run(argv, cwd=HERE if in_node(name) else sandbox.folder, env=environment | sandbox.e2b, capture_output=True, check=False, text=True, timeout=600)
    server.shutdown()
    if done.returncode == 0 and ANSWER in done.stdout:
        return "yes"
    print(f"{name}: its lines end with {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}", flush=True)
    return "no"


def suite(name, program, sandbox, report):
    """Run a name's suite: how many of its cases pass. Left out is what the suite leaves out."""
    _, _, folder, arguments = NAMES[name]
    if not arguments:
        return ""
    at = fetch(folder) if isinstance(folder, str) else folder
    told = ("--test-reporter-destination" if name == "mastra" else "--outputFile" if in_node(name) else "--junit-xml") + f"={report}"
    done = subprocess.run([program, *arguments[:-1], told, arguments[-1]], cwd=at, env=os.environ | sandbox.e2b | {"PATH": f"{NODE}:{os.environ['PATH']}"}, capture_output=True, check=False, text=True, timeout=3600)
    if not report.exists():
        sys.exit(f"{name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    cases = [case for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase") if case.find("skipped") is None]
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    for case in failed:
        print(f"{name}: fails: {case.get('classname')} {case.get('name')}", flush=True)
    return f"{len(cases) - len(failed)} of {len(cases)}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("server", type=pathlib.Path)
    arguments.add_argument("names", nargs="*", default=list(NAMES))
    arguments.add_argument("--lock", action="store_true", help="write the locks anew, with the newest versions")
    chosen = arguments.parse_intermixed_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sandbox = trial.Sandbox(chosen.server.resolve(), pathlib.Path(folder), ["--apis", "e2b", "--max-sessions", "64"])
        base = sandbox.url.removesuffix("/mcp") + "/e2b"
        sandbox.e2b = {"E2B_API_URL": base, "E2B_SANDBOX_URL": base + "/sandbox", "E2B_API_KEY": "e2b_" + sandbox.token.encode().hex()}
        try:
            for name in chosen.names:
                if chosen.lock and NAMES[name][1] and not in_node(name):
                    lock(name)
                program = interpreter(name)
                cells = lines(name, program, sandbox), suite(name, program, sandbox, pathlib.Path(folder) / f"{name}.xml")
                rows.append(" | ".join([f"| {NAMES[name][0]}", NAMES[name][1][0] if NAMES[name][1] else "==".join(trial.version(name)), *cells]) + " |")
                print(rows[-1], flush=True)
        finally:
            sandbox.close()
    print("\n" + "\n".join(rows))
    if other := [row for row in rows if row not in PAGE]:
        sys.exit("docs/frameworks.md says otherwise:\n" + "\n".join(other))


if __name__ == "__main__":
    main()
