# /// script
# dependencies = ["agno", "mcp", "openai"]
# ///
"""Agno, with more patience than its 10 seconds."""
import asyncio
import os
import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.tools.mcp import MCPTools

if url := os.environ.get("MCP_URL"):
    sandbox = MCPTools(url=url, transport="streamable-http", headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}, timeout_seconds=60)
else:
    sandbox = MCPTools("code-sandbox-mcp", timeout_seconds=60)


async def main(task):
    async with sandbox:
        return (await Agent(model=OpenAIChat(id="gpt-5"), tools=[sandbox], telemetry=False).arun(task)).content


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
