# /// script
# dependencies = ["crewai-tools[mcp]", "crewai"]
# ///
"""CrewAI."""
import os
import sys

from crewai import Agent
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

if url := os.environ.get("MCP_URL"):
    server = {"url": url, "transport": "streamable-http", "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
else:
    server = StdioServerParameters(command="code-sandbox-mcp")


def main(task):
    with MCPServerAdapter(server) as tools:
        return Agent(role="analyst", goal="answer by code", backstory="You run code.", llm="openai/gpt-5", tools=tools, max_iter=40).kickoff(task).raw


print(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?"))
