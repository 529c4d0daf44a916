# /// script
# dependencies = ["mcp-haystack", "haystack-ai"]
# ///
"""Haystack, with more patience than its 30 seconds; it makes text of figures, so they are paths."""
import os
import sys

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo, StreamableHttpServerInfo

if url := os.environ.get("MCP_URL"):
    server = StreamableHttpServerInfo(url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    server = StdioServerInfo("code-sandbox-mcp", ["--images", "path"])


def main(task):
    sandbox = MCPToolset(server, invocation_timeout=60, eager_connect=True)
    agent = Agent(chat_generator=OpenAIChatGenerator(model="gpt-5"), tools=sandbox)
    answer = agent.run([ChatMessage.from_user(task)])["last_message"].text
    sandbox.close()
    return answer


print(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?"))
