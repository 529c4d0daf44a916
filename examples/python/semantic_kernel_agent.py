# /// script
# dependencies = ["semantic-kernel", "mcp"]
# ///
"""Semantic Kernel."""
import asyncio
import os
import sys

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin, MCPStreamableHttpPlugin

if url := os.environ.get("MCP_URL"):
    plugin = MCPStreamableHttpPlugin("sandbox", url, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}, load_prompts=False)
else:
    plugin = MCPStdioPlugin("sandbox", "code-sandbox-mcp", args=[], load_prompts=False)


async def main(task):
    async with plugin as sandbox:
        choice = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=40)
        agent = ChatCompletionAgent(service=OpenAIChatCompletion("gpt-5"), name="analyst", plugins=[sandbox], function_choice_behavior=choice)
        return str(await agent.get_response(task))


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
