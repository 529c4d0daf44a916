# /// script
# dependencies = ["autogen-ext[openai]", "autogen-agentchat", "mcp<2"]
# ///
"""AutoGen; it makes text of figures, so they are paths.

Its limit: 5 s; `read_timeout_seconds=60` of `StdioServerParams`
"""
import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams

if url := os.environ.get("MCP_URL"):
    server = StreamableHttpServerParams(url=url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    server = StdioServerParams(command="code-sandbox-mcp", args=["--images", "path"], read_timeout_seconds=60)


async def main(task):
    async with McpWorkbench(server) as sandbox:
        agent = AssistantAgent("analyst", OpenAIChatCompletionClient(model="gpt-5"), workbench=sandbox, max_tool_iterations=40)
        return (await agent.run(task=task)).messages[-1].to_text()


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
