# /// script
# dependencies = ["strands-agents[openai]"]
# ///
"""Strands Agents.

Its limit: none
"""
import os
import sys

from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

if url := os.environ.get("MCP_URL"):
    client = MCPClient(url=url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    client = MCPClient(lambda: stdio_client(StdioServerParameters(command="code-sandbox-mcp")))


def main(task):
    with client:
        return str(Agent(OpenAIModel(model_id="gpt-5"), tools=client.list_tools_sync(), callback_handler=None)(task))


print(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?"))
