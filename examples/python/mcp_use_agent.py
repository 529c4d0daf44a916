# /// script
# dependencies = ["mcp-use", "langchain-openai"]
# ///
"""mcp-use."""
import asyncio
import os
import sys

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient

if url := os.environ.get("MCP_URL"):
    server = {"url": url, "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
else:
    server = {"command": "code-sandbox-mcp", "args": []}


async def main(task):
    client = MCPClient({"mcpServers": {"sandbox": server}})
    answer = await MCPAgent(ChatOpenAI(model="gpt-5"), client, max_steps=40).run(task)
    await client.close_all_sessions()
    return answer


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
