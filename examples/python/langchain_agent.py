# /// script
# dependencies = ["langchain-mcp-adapters", "langchain", "langchain-openai"]
# ///
"""LangChain: get_tools() connects anew for each call, so a session is named.

Its limit: 5 minutes over HTTP; `sse_read_timeout` beside the URL
"""
import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

if url := os.environ.get("MCP_URL"):
    server = {"transport": "http", "url": f"{url}?session=analyst", "headers": {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}}
else:
    server = {"transport": "stdio", "command": "code-sandbox-mcp", "args": ["--session", "analyst"]}


async def main(task):
    tools = await MultiServerMCPClient({"sandbox": server}).get_tools()
    agent = create_agent(ChatOpenAI(model="gpt-5"), tools)
    return (await agent.ainvoke({"messages": [("user", task)]}, {"recursion_limit": 100}))["messages"][-1].content


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
