"""Runs the workers of docs/workers.md against scripted control planes, and looks for their keys inside the session.

    python3 trial.py SERVER codex|claude [--plant]

It needs aiohttp and anthropic, Node and Podman. With --plant the key is put into every place, and has to be found in each.
"""
import argparse
import asyncio
import base64
import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile

from aiohttp import WSMsgType, web

HERE = pathlib.Path(__file__).parent
CODEX = "@openai/codex@0.171.0"
PROFILE = "noise_hybrid_ik_v1"
KEY = "sk-worker-" + secrets.token_hex(20)
WAIT = "timeout {} sh -c 'until grep -q ^LOOKED /tmp/looked; do sleep 1; done'; cat /tmp/looked"


class OpenAI:
    """What OpenAI runs for an executor: the registry, the meeting point of both ends, and a model with a script."""

    def __init__(self):
        self.lie = ""
        self.ends, self.keys, self.steps, self.answers, self.told = {}, [], [], [], []

    async def start(self):
        app = web.Application(client_max_size=1 << 26)
        app.add_routes([web.post("/cloud/environment/{id}/register", self.register), web.post("/cloud/environment/{id}/connect", self.connect),
                        web.post("/cloud/environment/{id}/validate", self.validate), web.get("/meet/{end}", self.meet), web.post("/v1/responses", self.model)])
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    def bundle(self, request, end, **more):
        name = "another" if self.lie == "another environment" else request.match_info["id"]
        url = self.url.replace("http", "ws", 1) + "/meet/" + end
        return web.json_response({"environment_id": name, "url": url, "security_profile": PROFILE, "executor_registration_id": "registration", **more})

    async def register(self, request):
        self.keys.append(request.headers.get("Authorization"))
        if self.lie == "401":
            return web.json_response({"error": {"message": "no such key"}}, status=401)
        self.executor = (await request.json())["executor_public_key"]
        return self.bundle(request, "executor")

    async def connect(self, request):
        return self.bundle(request, "harness", executor_public_key=self.executor, harness_key_authorization="allowed")

    async def validate(self, _):
        return web.json_response({"valid": self.lie != "harness refused"})

    async def meet(self, request):
        end = request.match_info["end"]
        ws = web.WebSocketResponse(max_msg_size=0)
        await ws.prepare(request)
        self.ends[end] = ws
        async for message in ws:
            other = self.ends.get("harness" if end == "executor" else "executor")
            if message.type == WSMsgType.BINARY and other and not other.closed:
                await other.send_bytes(message.data)
        return ws

    async def model(self, request):
        self.answers += [i["output"] for i in (await request.json())["input"][-1:] if i["type"] == "function_call_output"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if self.steps and "LOOKED" not in str(self.answers[-1:]):
            item = {"type": "function_call", "name": "exec_command", "call_id": secrets.token_hex(4), "arguments": json.dumps({"cmd": self.steps.pop(0), "yield_time_ms": 30000, "max_output_tokens": 4000})}
        else:
            item = {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "done"}]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        for event in ({"type": "response.created", "response": {"id": "r"}}, {"type": "response.output_item.done", "item": item}, {"type": "response.completed", "response": {"id": "r", "usage": usage}}):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response


class Anthropic:
    """What Anthropic runs for a worker: a queue with one item, and a session whose agent calls tools."""

    def __init__(self, calls):
        self.calls = [{"type": "agent.tool_use", "id": f"call_{n}", "name": name, "input": given, "processed_at": "2026-11-30T00:00:00Z", "evaluated_permission": "allow"} for n, (name, given) in enumerate(calls)]
        self.polled, self.keys, self.results, self.over = 0, set(), {}, asyncio.Event()

    async def start(self):
        app = web.Application(client_max_size=1 << 26)
        app.add_routes([web.route("*", "/v1/{path:.*}", self.answer)])
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    async def answer(self, request):
        path = request.match_info["path"]
        self.keys.add(request.headers.get("Authorization"))
        work = {"id": "work_1", "type": "work", "created_at": "2026-11-30T00:00:00Z", "data": {"id": "sesn_1", "type": "session"}, "environment_id": "env_1", "metadata": {}, "state": "active"}
        if path.endswith("/poll"):
            self.polled += 1
            return web.json_response(work if self.polled == 1 else None)
        if path.endswith("/heartbeat"):
            return web.json_response({"type": "work_heartbeat", "last_heartbeat": "now", "lease_extended": True, "state": "active", "ttl_seconds": 60})
        if "/work/" in path:
            return web.json_response(work)
        if path.endswith("/stream"):
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await self.over.wait()
            return response
        if path.endswith("/events") and request.method == "POST":
            for event in (await request.json())["events"]:
                self.results[event["tool_use_id"]] = event
            if len(self.results) == len(self.calls):
                self.over.set()
            return web.json_response({"data": []})
        if path.endswith("/events"):
            return web.json_response({"data": self.calls, "next_page": None})
        return web.json_response({"id": "sesn_1", "type": "session", "status": "running", "resources": [], "metadata": {}, "environment_id": "env_1", "agent": {"skills": []}})

    def texts(self):
        return ["".join(block.get("text", "") for block in self.results[call["id"]]["content"]) for call in self.calls if call["id"] in self.results]


class Wire:
    """A relay that keeps all that goes to and from the session."""

    def __init__(self, port):
        self.port, self.ways = port, []

    async def start(self):
        server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def carry(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self.port)

        async def copy(source, to):
            seen = bytearray()
            self.ways.append(seen)
            try:
                while data := await source.read(1 << 16):
                    seen += data
                    to.write(data)
                    await to.drain()
            except (ConnectionError, asyncio.CancelledError):
                pass
            to.close()
        with contextlib.suppress(asyncio.CancelledError):  # at the trial's end
            await asyncio.gather(copy(reader, back), copy(there, writer))

    def text(self):
        """What went over it: headers, messages without their masks, and what these have in base64."""
        text = b""
        for way in self.ways:
            head, _, rest = bytes(way).partition(b"\r\n\r\n")
            text += head
            while len(rest) > 2:
                size, at = rest[1] & 127, 2
                if size > 125:
                    at += 2 if size == 126 else 8
                    size = int.from_bytes(rest[2:at])
                mask = b"\0"
                if rest[1] > 127:
                    mask, at = rest[at:at + 4], at + 4
                body = rest[at:at + size]
                text += b"\n" + (int.from_bytes(body) ^ int.from_bytes((mask * (size // len(mask) + 1))[:len(body)])).to_bytes(len(body))
                rest = rest[at + size:]
        return text + b"".join(base64.b64decode(part + b"=" * (-len(part) % 4)) for part in re.findall(rb"[A-Za-z0-9+/]{16,}", text) if len(part) % 4 != 1)


class Trial:
    def __init__(self, binary, folder, plant):
        self.binary, self.folder, self.plant = binary, folder, plant
        self.env = {k: v for k, v in os.environ.items() if "CODEX" not in k} | {"SANDBOX_STATE_DIR": str(folder / "state"), "SANDBOX_SPARES": "0"}
        self.keyed = self.env | {"CODEX_API_KEY": KEY, "ANTHROPIC_ENVIRONMENT_KEY": KEY, "CODEX_HOME": str(folder / "forwarder")}
        turned = bytes(255 - b for b in KEY.encode()).hex()
        self.look = f"python3 look.py {turned}" + (" plant" if plant else "")
        self.planted = f"echo {KEY}; " if plant else ""  # in the code, and in what it prints
        self.run = None

    def ours(self, *args):
        done = subprocess.run([self.binary, *args], env=self.env, capture_output=True, text=True)
        return done.stdout + done.stderr

    def prepare(self, code):
        self.told = self.ours("run", "--session", "worker", "--run-timeout", "10m", "--language", "bash", "-c", self.planted + code + "; echo before > kept.txt", str(HERE / "look.py"))

    async def serve(self, port, ready, *code):
        """Begin the run of the session. Its own environment has the key too, which does not matter."""
        self.log, out = self.folder / "server.log", self.folder / "run.out"
        with open(out, "w") as file:
            self.run = subprocess.Popen([self.binary, "run", "--session", "worker", "--forward", f"0:{port}", "--run-timeout", "1h", "--log-level", "debug", "--log-file", self.log, *code],
                                        env=self.keyed, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        text = await self.until(lambda: text if ready in (text := out.read_text()) else None)
        self.wire = Wire(int(re.search(r"127\.0\.0\.1:(\d+) leads", text)[1]))
        await self.wire.start()

    async def until(self, ask, patience=200):
        for _ in range(patience * 10):
            if answer := ask():
                return answer
            await asyncio.sleep(0.1)
        sys.exit("waited in vain: " + (self.folder / "run.out").read_text())

    def places(self, looked):
        """What was found, in twelve places: nine by the eyes of the agent's code, the others from here."""
        if "LOOKED" not in looked:
            sys.exit(f"it has not looked: {looked}")
        looked = json.loads(re.search(r"LOOKED (.*)", looked)[1])
        print(f"      code can read the memory of {looked['readable']} of {looked['processes']} processes")
        found = looked["found"]
        found["wire to the session"] = KEY.encode() in self.wire.text()
        logs = self.told + self.log.read_text() + (self.folder / "run.out").read_text()
        containers = subprocess.run(["podman", "ps", "-q", "--filter", "label=code-sandbox-mcp.session=worker"], capture_output=True, text=True).stdout.split()
        check("the session has a container", containers)
        for name in containers:
            logs += subprocess.run(["podman", "inspect", name], capture_output=True, text=True, check=True).stdout
        found["log, and the container's description"] = KEY in logs
        history, undone, kept = self.end()
        found["history"] = KEY in history
        for place, there in found.items():
            check(f"{place}: {'found' if there else 'not found'}", there == self.plant)
        print(f"the key is found in {sum(found.values())} of {len(found)} places")
        check("undo brings the files back", "before" in kept and "No such file" in kept, f"{undone}\n{kept}")

    def end(self):
        """End the run as Ctrl-C does, and undo what it did to the files by a client of the server."""
        self.run.send_signal(signal.SIGINT)
        self.run.wait(60)
        history = self.ours("sessions", "show", "worker", "--json") + self.ours("sessions", "notebook", "worker", "-")
        server = subprocess.Popen([self.binary], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def call(number, method, **params):
            print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=server.stdin, flush=True)
            return next(m for m in map(json.loads, server.stdout) if m.get("id") == number)["result"]
        call(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "trial", "version": "1"})
        say = lambda r: r["content"][0]["text"]
        undone = say(call(2, "tools/call", name="restore_session", arguments={"session_id": "worker", "variables": False}))
        kept = say(call(3, "tools/call", name="run_bash", arguments={"session_id": "worker", "code": "cat kept.txt; ls made.txt 2>&1"}))
        server.stdin.close()
        server.wait()
        return history, undone, kept


def check(what, holds, told=""):
    print(("ok    " if holds else "WRONG ") + what, flush=True)
    if not holds:
        print(told)
        check.wrong = True


check.wrong = False


class Codex:
    """The real Codex on both ends: the worker with the key, and the agent."""

    def __init__(self, trial):
        self.trial, self.plane = trial, OpenAI()
        (trial.folder / "forwarder").mkdir()
        (trial.folder / "harness").mkdir()

    async def forward(self):
        self.forwarder = await asyncio.create_subprocess_exec(
            self.codex, "exec-server", "forward", "--connect", self.trial.wire.url, "--remote", self.plane.url, "--environment-id", "env_1",
            env=self.trial.keyed, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)

    async def stop_forwarder(self):
        if self.forwarder.returncode is None:
            self.forwarder.terminate()
        return (await self.forwarder.communicate())[0].decode()

    async def agent(self, *steps, patience=120):
        """Let the real Codex, which has no key of the worker's, do what the model says, and return what the model saw."""
        self.plane.steps, self.plane.answers = list(steps), []
        env = self.trial.env | {"CODEX_HOME": str(self.trial.folder / "harness"), "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL": self.plane.url,
                          "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID": "env_1", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": "harness"}
        harness = await asyncio.create_subprocess_exec(self.codex, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "go on", cwd="/tmp", env=env,
                                                       stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            out, _ = await asyncio.wait_for(harness.communicate(), patience)
        except TimeoutError:
            harness.kill()
            out = b"killed"
        return self.plane.answers, out.decode()


async def codex(t):
    c = Codex(t)
    await c.plane.start()
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", t.folder, CODEX], check=True)
    c.codex = next(t.folder.glob("node_modules/@openai/codex-*/vendor/*/bin/codex"))
    (t.folder / "harness/config.toml").write_text(f'model = "scripted"\nmodel_provider = "plane"\n[model_providers.plane]\nname = "plane"\nbase_url = "{c.plane.url}/v1"\nwire_api = "responses"\n')
    t.prepare(f"npm install -g {CODEX} 2>&1 | tail -1")
    await t.serve(8765, "ws://127", "--language", "bash", "-c", "codex exec-server --listen ws://127.0.0.1:8765")
    await c.forward()
    await t.until(lambda: "executor" in c.plane.ends)
    check("the control plane got the worker's key", c.plane.keys == [f"Bearer {KEY}"])
    seen, out = await c.agent("cd /mnt/data && echo after > kept.txt && echo made > made.txt && id -un && cat kept.txt",
                              f"curl -sS -m 5 http://example.com; curl -sS -m 5 --noproxy '*' {c.plane.url}; cat /proc/1/environ")
    check("commands and files of the agent go into the session", len(seen) == 2 and "sandbox" in seen[0] and "after" in seen[0], f"{seen} {out}")
    check("they reach no network, and nothing of this machine", all(words in seen[-1] for words in ("no_network", "Could not connect", "Permission denied")), seen[-1])
    wait = WAIT.format(25)
    seen, out = await c.agent(f"{t.planted} cd /mnt/data && setsid {t.look} > /tmp/looked 2>&1 & true", *[wait] * 24, patience=700)
    looked = next((a for a in seen if "LOOKED" in a), f"{seen} {out}")
    if not t.plant:
        await lies(t, c)
    await c.stop_forwarder()
    t.places(looked)


async def claude(t):
    """The vendor's worker with its tools in the session, by examples/python/claude_worker.py."""
    script = str(HERE.parents[2] / "examples/python/claude_worker.py")
    t.prepare("true")
    await t.serve(8766, "the tools are ready", script, "--", "inside")
    calls = [("bash", {"command": t.planted + "echo after > kept.txt; echo made > made.txt; id -un"}), ("write", {"file_path": "a/b.txt", "content": "one\ntwo\n"}),
             ("edit", {"file_path": "a/b.txt", "old_string": "two", "new_string": "three"}), ("read", {"file_path": "a/b.txt"}), ("grep", {"pattern": "three"}), ("glob", {"pattern": "a/*.txt"}),
             ("read", {"file_path": "/etc/passwd"}), ("bash", {"command": "curl -sS -m 5 http://example.com"}), ("bash", {"command": f"setsid {t.look} > /tmp/looked 2>&1 &"}), *[("bash", {"command": WAIT.format(100)})] * 3]
    plane = Anthropic(calls)
    await plane.start()
    port = t.wire.url.rpartition(":")[2]
    env = t.keyed | {"ANTHROPIC_ENVIRONMENT_ID": "env_1", "ANTHROPIC_BASE_URL": plane.url, "PORT": port}
    worker = await asyncio.create_subprocess_exec(sys.executable, script, env=env)
    try:
        await asyncio.wait_for(plane.over.wait(), 500)
    except TimeoutError:
        sys.exit(f"not all calls were answered: {plane.texts()}")
    worker.terminate()
    await worker.wait()
    texts = plane.texts()
    check("the control plane got the worker's key, and nothing else", plane.keys == {f"Bearer {KEY}"})
    check("all six tools work in the session", "sandbox" in texts[0] and texts[3] == "one\nthree\n" and "three" in texts[4] and "b.txt" in texts[5], f"{texts}")
    check("they reach no network, and nothing of this machine", "outside" in texts[6] and "no_network" in texts[7], f"{texts}")
    t.places(texts[-1])


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("worker", choices=["codex", "claude"])
    parser.add_argument("--plant", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=pathlib.Path.home()) as folder:
        t = Trial(str(pathlib.Path(asked.server).resolve()), pathlib.Path(folder), asked.plant)
        try:
            await {"codex": codex, "claude": claude}[asked.worker](t)
        finally:
            if t.run:
                t.run.kill()
                t.run.wait()
            print(t.ours("sessions", "close", "worker"), end="")
    sys.exit(check.wrong)


async def lies(t, c):
    """A control plane that stops, and one that lies."""
    cut = asyncio.create_task(c.agent("cd /mnt/data; echo begun > cut.txt; sleep 20; echo over >> cut.txt", patience=60))
    await asyncio.sleep(6)
    for ws in list(c.plane.ends.values()):
        await ws.close()
    _, out = await cut
    print("    a cut command: " + " / ".join(out.strip().splitlines()[-6:]))
    await t.until(lambda: not c.plane.ends["executor"].closed)
    await c.plane.ends["executor"].send_bytes(secrets.token_bytes(1000))
    await asyncio.sleep(3)
    await t.until(lambda: not c.plane.ends["executor"].closed)
    seen, out = await c.agent("echo again; cat /mnt/data/cut.txt")
    check("after a stop and after rubbish the next command works", any("again" in s for s in seen), f"{seen} {out}")
    c.plane.lie = "harness refused"
    seen, out = await c.agent("echo never", patience=40)
    check("a harness that the registry refuses runs nothing", not any("never" in s for s in seen), f"{seen} {out}")
    for lie in "another environment", "401":
        await c.stop_forwarder()
        c.plane.lie = lie
        await c.forward()
        try:
            await asyncio.wait_for(c.forwarder.wait(), 60)
        except TimeoutError:
            pass
        said = await c.stop_forwarder()
        check(f"{lie}: the worker ends and says so: " + next((line for line in said.splitlines() if line.startswith("Error")), ""), c.forwarder.returncode == 1, said)
        check(f"{lie}: its words do not have the key", KEY not in said)
    check("the session's run goes on", t.run.poll() is None)


asyncio.run(main())
