# /// script
# dependencies = ["agent-framework-core", "agent-framework-openai", "mcp"]
# ///
"""Microsoft's Agent Framework."""
import asyncio
import os
import sys

from agent_framework import Agent, MCPStdioTool, MCPStreamableHTTPTool
from agent_framework.openai import OpenAIChatCompletionClient

if url := os.environ.get("MCP_URL"):
    sandbox = MCPStreamableHTTPTool("sandbox", url, static_headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    sandbox = MCPStdioTool("sandbox", "code-sandbox-mcp")


async def main(task):
    async with sandbox, Agent(OpenAIChatCompletionClient(model="gpt-5"), tools=sandbox) as agent:
        return (await agent.run(task)).text


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
