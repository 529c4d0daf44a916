# /// script
# dependencies = ["llama-index-tools-mcp", "llama-index-llms-openai-like"]
# ///
"""LlamaIndex: it connects anew for each call, so a session is named; it makes text of figures, so they are paths."""
import asyncio
import os
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

if url := os.environ.get("MCP_URL"):
    client = BasicMCPClient(f"{url}?session=analyst", timeout=60, headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
else:
    client = BasicMCPClient("code-sandbox-mcp", ["--session", "analyst", "--images", "path"], timeout=60)


async def main(task):
    tools = await McpToolSpec(client).to_tool_list_async()
    model = OpenAILike("gpt-5", api_base=os.environ.get("OPENAI_BASE_URL"), api_key=os.environ["OPENAI_API_KEY"], is_chat_model=True, is_function_calling_model=True)
    return str(await FunctionAgent(tools=tools, llm=model, streaming=False).run(task, max_iterations=40))


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
