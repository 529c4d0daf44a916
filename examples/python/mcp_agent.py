# /// script
# dependencies = ["mcp>=2", "openai"]
# ///
"""The SDK of MCP itself, with a loop of chat completions.

Its limit: none; `read_timeout_seconds` of `Client`
"""
import asyncio
import json
import os
import sys

import openai
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def server():
    if url := os.environ.get("MCP_URL"):
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"})
        return streamable_http_client(url, http_client=http)
    return StdioServerParameters(command="code-sandbox-mcp")


def part(block):
    if block.type == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
    return {"type": "text", "text": block.text if block.type == "text" else block.type}


async def main(task):
    model = openai.AsyncOpenAI()
    messages = [{"role": "user", "content": task}]
    async with Client(server()) as sandbox:
        tools = [
            {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}}
            for tool in (await sandbox.list_tools()).tools
        ]
        while True:
            answer = (await model.chat.completions.create(model="gpt-5", messages=messages, tools=tools)).choices[0].message
            messages.append(answer)
            if not answer.tool_calls:
                return answer.content
            images = []
            for call in answer.tool_calls:
                result = await sandbox.call_tool(call.function.name, json.loads(call.function.arguments))
                parts = [part(block) for block in result.content]
                images += [one for one in parts if one["type"] != "text"]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": [one for one in parts if one["type"] == "text"]})
            if images:  # a tool's answer is text alone
                messages.append({"role": "user", "content": images})


print(asyncio.run(main(" ".join(sys.argv[1:]) or "How many primes are there below 10,000?")))
