# /// script
# dependencies = ["openai-agents"]
# ///
"""The OpenAI Agents SDK.

Its limit: 5 s; `client_session_timeout_seconds=60`
"""
import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI

set_tracing_disabled(True)
if url := os.environ.get("MCP_URL"):
    params = {"url": url, "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
    server = MCPServerStreamableHttp(params, client_session_timeout_seconds=60)
else:
    server = MCPServerStdio({"command": "code-sandbox-mcp"}, client_session_timeout_seconds=60)


async def main(task):
    async with server:
        model = OpenAIChatCompletionsModel(model="gpt-5", openai_client=AsyncOpenAI())
        agent = Agent(name="Analyst", model=model, mcp_servers=[server])
        return (await Runner.run(agent, task, max_turns=40)).final_output


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
