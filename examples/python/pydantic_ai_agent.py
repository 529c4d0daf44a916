# /// script
# dependencies = ["pydantic-ai-slim[mcp,openai]"]
# ///
"""Pydantic AI.

Its limit: 5 minutes; `read_timeout` of `MCPToolset`
"""
import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset, StdioTransport

if url := os.environ.get("MCP_URL"):
    sandbox = MCPToolset(url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    sandbox = MCPToolset(StdioTransport("code-sandbox-mcp", []))


async def main(task):
    async with Agent("openai-chat:gpt-5", toolsets=[sandbox]) as agent:
        return (await agent.run(task)).output


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
