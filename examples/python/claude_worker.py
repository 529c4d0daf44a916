# /// script
# requires-python = ">=3.11"
# dependencies = ["anthropic>=2.14"]
# ///
# A worker of Claude's managed agents whose key and connection stay here, while its tools work in a session (docs/workers.md).
#
#   code-sandbox-mcp run examples/python/claude_worker.py --session claude --forward 8766 --run-timeout 12h -- inside
#   ANTHROPIC_ENVIRONMENT_ID=… ANTHROPIC_ENVIRONMENT_KEY=… uv run examples/python/claude_worker.py
import asyncio
import contextlib
import json
import os
import sys
import tempfile

from anthropic import AsyncAnthropic
from anthropic.lib.environments import EnvironmentWorker
from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, ToolError
from anthropic.lib.tools.agent_toolset import AgentToolContext, beta_agent_toolset_20260401

PORT = int(os.environ.get("PORT", "8766"))
LONGEST = 1 << 26  # bytes of a line


async def inside():
    """Serve the vendor's tools in the session: a call is a line, and so is its answer."""
    async def serve(reader, writer):
        with contextlib.suppress(ConnectionError):
            async with AgentToolContext(workdir=os.getcwd()) as context:
                tools = {tool.name: tool for tool in beta_agent_toolset_20260401(context)}
                while line := await reader.readline():
                    name, given = json.loads(line)
                    try:
                        answer = {"content": await tools[name].call(given)}
                    except Exception as error:
                        answer = {"error": getattr(error, "content", str(error))}
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, limit=LONGEST)
    print("the tools are ready", flush=True)
    await server.serve_forever()


class Session:
    """A connection to the tools: they keep a shell as long as it lasts."""

    def __init__(self):
        self.connection, self.turn = None, asyncio.Lock()

    async def ask(self, name, given):
        async with self.turn:
            self.connection = self.connection or await asyncio.open_connection("127.0.0.1", PORT, limit=LONGEST)
            reader, writer = self.connection
            writer.write(json.dumps([name, given]).encode() + b"\n")
            line = await reader.readline()
            if not line:
                self.connection = None
                raise ToolError("the session does not answer")
            answer = json.loads(line)
            if "error" in answer:
                raise ToolError(answer["error"])
            return answer["content"]


class Tool(BetaAsyncBuiltinFunctionTool):
    def __init__(self, tool, session):
        self.tool, self.session = tool, session

    def to_dict(self):
        return self.tool.to_dict()

    async def call(self, given):
        return await self.session.ask(self.tool.name, given)

    async def close(self):
        if self.session.connection:
            self.session.connection[1].close()
            self.session.connection = None


def tools(context):
    session = Session()
    return [Tool(tool, session) for tool in beta_agent_toolset_20260401(context)]


async def outside():
    key = os.environ["ANTHROPIC_ENVIRONMENT_KEY"]
    with tempfile.TemporaryDirectory() as folder:  # for skills of the agent, which are not in the session
        await EnvironmentWorker(AsyncAnthropic(auth_token=key), environment_id=os.environ["ANTHROPIC_ENVIRONMENT_ID"], environment_key=key, workdir=folder, tools=tools).run()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(inside() if sys.argv[1:] == ["inside"] else outside())
