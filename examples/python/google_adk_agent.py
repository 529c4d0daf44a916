# /// script
# dependencies = ["google-adk", "mcp", "litellm"]
# ///
"""Google's Agent Development Kit.

Its limit: 5 s over stdio (the server answers before), 5 minutes over HTTP; `timeout=60`
"""
import asyncio
import os
import sys

from google.adk.agents import Agent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams, StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp import StdioServerParameters

if url := os.environ.get("MCP_URL"):
    server = StreamableHTTPConnectionParams(url=url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    server = StdioConnectionParams(server_params=StdioServerParameters(command="code-sandbox-mcp"), timeout=60)


async def main(task):
    sandbox = McpToolset(connection_params=server)
    agent = Agent(name="analyst", model=LiteLlm(model="openai/gpt-5"), tools=[sandbox])
    events = await InMemoryRunner(agent=agent).run_debug(task, quiet=True)
    await sandbox.close()
    return events[-1].content.parts[-1].text


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
