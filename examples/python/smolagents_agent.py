# /// script
# dependencies = ["smolagents[openai]", "mcpadapt", "mcp<2"]
# ///
"""smolagents, with more patience than its 5 seconds. The model is told to call tools, not to write code."""
import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

if url := os.environ.get("MCP_URL"):
    server = {"url": url, "transport": "streamable-http", "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
else:
    server = StdioServerParameters(command="code-sandbox-mcp")


def main(task):
    with MCPClient(server, adapter_kwargs={"client_session_timeout_seconds": 60}, structured_output=False) as tools:
        return ToolCallingAgent(tools=tools, model=OpenAIServerModel("gpt-5"), verbosity_level=0).run(task)


print(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?"))
