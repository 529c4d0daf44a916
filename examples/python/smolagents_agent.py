# /// script
# dependencies = ["smolagents[openai]", "mcpadapt", "mcp<2"]
# ///
"""smolagents, with a model that calls tools; a `CodeAgent` writes code that calls them.

Its limit: none
"""
import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

if url := os.environ.get("MCP_URL"):
    server = {"url": url, "transport": "streamable-http", "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
else:
    server = StdioServerParameters(command="code-sandbox-mcp")


def main(task):
    with MCPClient(server, structured_output=False) as tools:
        return ToolCallingAgent(tools=tools, model=OpenAIServerModel("gpt-5"), verbosity_level=0).run(task)


print(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?"))
