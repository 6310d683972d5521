"""Lists tools, calls some and makes a mistake, in every mode of the Python client."""

import asyncio
import json
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError


async def call(client, tool, arguments):
    """The client itself holds the structured answer to the tool's schema."""
    answer = await client.call_tool(tool, arguments)
    told = json.loads(answer.content[0].text)
    assert answer.structured_content == told, answer
    return told


async def speak(mode):
    async with Client(sys.argv[1], mode=mode) as client:
        listed = await client.list_tools()
        space = "private:ada"
        text = f"written in mode{mode.replace('-', '')}"
        stored = await call(client, "memory_store", {"payload_md": text, "target_space": space})
        words = text.split()[-1]
        found = await call(client, "memory_query", {"query": words, "spaces": [space]})
        refused = await call(client, "memory_store", {})
        read = await call(client, "memory_get", {"id": stored["memory_id"]})
        listing = await call(client, "memory_list", {"spaces": [space], "limit": 1})
        spaces = await call(client, "memory_spaces", {"actor_user_id": "ada"})
        try:
            await client.call_tool("nope", {})
            error = None
        except MCPError as raised:
            error = {"code": raised.error.code, "data": raised.error.data}
    told = {
        "mode": mode,
        "tools": [tool.name for tool in listed.tools if tool.output_schema],
        "stored": stored,
        "found": found,
        "refused": refused,
        "read": read,
        "listing": listing,
        "spaces": spaces,
        "error": error,
    }
    print(json.dumps(told))


for mode in ["auto", "legacy", "2026-07-28"]:
    asyncio.run(speak(mode))
