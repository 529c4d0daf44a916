# /// script
# dependencies = ["dspy", "mcp"]
# ///
"""DSPy."""
import asyncio
import os
import sys

import dspy
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

if url := os.environ.get("MCP_URL"):
    server = streamable_http_client(url, http_client=create_mcp_http_client(headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}))
else:
    server = StdioServerParameters(command="code-sandbox-mcp")


async def main(task):
    dspy.configure(lm=dspy.LM("openai/gpt-5", cache=False, temperature=1.0, max_tokens=16000))
    async with Client(server) as sandbox:
        tools = [dspy.Tool.from_mcp_tool(sandbox, tool) for tool in (await sandbox.list_tools()).tools]
        return (await dspy.ReAct("task -> answer", tools=tools, max_iters=40).acall(task=task)).answer


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
