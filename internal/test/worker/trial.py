"""Runs the workers of docs/workers.md against scripted control planes, and looks for their keys inside the session.

    python3 trial.py SERVER [--plant]

It needs aiohttp, Node and Podman. With --plant the key is put into every place, and has to be found in each.
"""
import argparse
import asyncio
import base64
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


class Plane:
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


class Claude:
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
        self.keyed = self.env | {"CODEX_API_KEY": KEY, "CODEX_HOME": str(folder / "forwarder")}
        (folder / "forwarder").mkdir()
        (folder / "harness").mkdir()
        self.plane = Plane()

    def ours(self, *args):
        done = subprocess.run([self.binary, *args], env=self.env, capture_output=True, text=True)
        return done.stdout + done.stderr

    async def begin(self):
        await self.plane.start()
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", self.folder, CODEX], check=True)
        self.codex = next(self.folder.glob("node_modules/@openai/codex-*/vendor/*/bin/codex"))
        print(self.ours("run", "--session", "worker", "--run-timeout", "10m", "--language", "bash", "-c", f"npm install -g {CODEX} 2>&1 | tail -1; echo before > kept.txt", str(HERE / "look.py")))
        (self.folder / "harness/config.toml").write_text(f'model = "scripted"\nmodel_provider = "plane"\n[model_providers.plane]\nname = "plane"\nbase_url = "{self.plane.url}/v1"\nwire_api = "responses"\n')

    async def serve(self):
        """Begin the run of the session. Its own environment has the key too, which does not matter."""
        self.log = self.folder / "server.log"
        code = "codex exec-server --listen ws://127.0.0.1:8765"
        if self.plant:
            code = f"echo {KEY}; " + code
        self.out = open(self.folder / "run.out", "w+")
        self.run = subprocess.Popen([self.binary, "run", "--session", "worker", "--forward", "0:8765", "--run-timeout", "1h", "--log-level", "debug", "--log-file", self.log, "--language", "bash", "-c", code],
                                    env=self.keyed, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out)
        text = await self.until(lambda: text if "ws://127" in (text := (self.folder / "run.out").read_text()) else None)
        self.wire = Wire(int(re.search(r"127\.0\.0\.1:(\d+) leads", text)[1]))
        await self.wire.start()

    async def until(self, ask, patience=60):
        for _ in range(patience * 10):
            if answer := ask():
                return answer
            await asyncio.sleep(0.1)
        sys.exit("waited in vain: " + (self.folder / "run.out").read_text())

    async def forward(self):
        self.forwarder = await asyncio.create_subprocess_exec(
            self.codex, "exec-server", "forward", "--connect", self.wire.url, "--remote", self.plane.url, "--environment-id", "env_1",
            env=self.keyed, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)

    async def stop_forwarder(self):
        if self.forwarder.returncode is None:
            self.forwarder.terminate()
        return (await self.forwarder.communicate())[0].decode()

    async def agent(self, *steps, patience=120):
        """Let the real Codex, which has no key of the worker's, do what the model says, and return what the model saw."""
        self.plane.steps, self.plane.answers = list(steps), []
        env = self.env | {"CODEX_HOME": str(self.folder / "harness"), "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL": self.plane.url,
                          "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID": "env_1", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": "harness"}
        harness = await asyncio.create_subprocess_exec(self.codex, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "go on", cwd="/tmp", env=env,
                                                       stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            out, _ = await asyncio.wait_for(harness.communicate(), patience)
        except asyncio.TimeoutError:
            harness.kill()
            out = b"killed"
        return self.plane.answers, out.decode()

    async def look(self):
        """Look in twelve places: nine by the eyes of code that the agent runs, three from outside."""
        turned = bytes(255 - b for b in KEY.encode()).hex()
        steps = [f": {KEY}"] if self.plant else []
        steps += [f"cd /mnt/data && setsid python3 look.py {turned} {'plant' if self.plant else ''} > /tmp/looked 2>&1 & true"]
        wait = "timeout 25 sh -c 'until grep -q ^LOOKED /tmp/looked; do sleep 1; done'; cat /tmp/looked"
        answers, out = await self.agent(*steps, *[wait] * 5, patience=300)
        looked = next((m[1] for m in (re.search(r"LOOKED (.*)", a) for a in answers) if m), None)
        if not looked:
            sys.exit(f"it did not look: {answers} {out}")
        looked = json.loads(looked)
        print(f"memory of {looked['readable']} of {looked['processes']} processes can be read by code")
        found = looked["found"]
        found["wire to the session"] = KEY.encode() in self.wire.text()
        self.out.flush()
        logs = self.log.read_text() + (self.folder / "run.out").read_text()
        containers = subprocess.run(["podman", "ps", "-q", "--filter", "label=code-sandbox-mcp.session=worker"], capture_output=True, text=True).stdout.split()
        check("the session has a container", containers)
        for name in containers:
            logs += subprocess.run(["podman", "inspect", name], capture_output=True, text=True, check=True).stdout
        found["log, and the container's description"] = KEY in logs
        return found

    async def end(self):
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
        kept = say(call(3, "tools/call", name="run_bash", arguments={"session_id": "worker", "code": "cat kept.txt; ls made.txt"}))
        server.stdin.close()
        server.wait()
        return history, undone, kept


def check(what, holds, told=""):
    print(("ok    " if holds else "WRONG ") + what, flush=True)
    if not holds:
        print(told)
        check.wrong = True


check.wrong = False


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--plant", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=pathlib.Path.home()) as folder:
        t = Trial(str(pathlib.Path(asked.server).resolve()), pathlib.Path(folder), asked.plant)
        try:
            await trial(t)
        finally:
            t.run.kill()
            t.run.wait()
            print(t.ours("sessions", "close", "worker"), end="")
    sys.exit(check.wrong)


async def trial(t):
    await t.begin()
    await t.serve()
    await t.forward()
    await t.until(lambda: "executor" in t.plane.ends)
    check("the control plane got the worker's key", t.plane.keys == [f"Bearer {KEY}"])
    seen, out = await t.agent("cd /mnt/data && echo after > kept.txt && echo made > made.txt && id -un && cat kept.txt",
                              "curl -sS -m 5 http://example.com; curl -sS -m 5 --noproxy '*' " + t.plane.url + "; cat /proc/1/environ; head -c 2000000000 /dev/zero | tail -c 1 | wc -c")
    check("commands and files of the agent go into the session", len(seen) == 2 and "sandbox" in seen[0] and "after" in seen[0], f"{seen} {out}")
    print("    " + "\n    ".join(seen[-1].splitlines()))
    found = await t.look()
    if not t.plant:
        await lies(t)
    await t.stop_forwarder()
    history, undone, kept = await t.end()
    found["history"] = KEY in history
    for place, there in found.items():
        check(f"{place}: {'found' if there else 'not found'}", there == t.plant)
    print(f"the key is found in {sum(found.values())} of {len(found)} places")
    check("undo brings the files back", "before" in kept and "made.txt" not in kept.replace("'made.txt'", ""), f"{undone}\n{kept}")


async def lies(t):
    """A control plane that stops, and one that lies."""
    cut = asyncio.create_task(t.agent("cd /mnt/data; echo begun > cut.txt; sleep 20; echo over >> cut.txt", patience=60))
    await asyncio.sleep(6)
    for ws in list(t.plane.ends.values()):
        await ws.close()
    _, out = await cut
    print("    a cut command: " + " / ".join(out.strip().splitlines()[-6:]))
    await t.until(lambda: not t.plane.ends["executor"].closed)
    await t.plane.ends["executor"].send_bytes(secrets.token_bytes(1000))
    await asyncio.sleep(3)
    await t.until(lambda: not t.plane.ends["executor"].closed)
    seen, out = await t.agent("echo again; cat /mnt/data/cut.txt")
    check("after a stop and after rubbish the next command works", any("again" in s for s in seen), f"{seen} {out}")
    t.plane.lie = "harness refused"
    seen, out = await t.agent("echo never", patience=40)
    check("a harness that the registry refuses runs nothing", not any("never" in s for s in seen), f"{seen} {out}")
    for lie in "another environment", "401":
        await t.stop_forwarder()
        t.plane.lie = lie
        await t.forward()
        try:
            await asyncio.wait_for(t.forwarder.wait(), 60)
        except asyncio.TimeoutError:
            pass
        said = await t.stop_forwarder()
        check(f"{lie}: the worker ends and says so: " + next((line for line in said.splitlines() if line.startswith("Error")), ""), t.forwarder.returncode == 1, said)
        check(f"{lie}: its words do not have the key", KEY not in said)
    check("the session's run goes on", t.run.poll() is None)


asyncio.run(main())
