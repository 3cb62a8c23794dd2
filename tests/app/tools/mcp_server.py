"""An MCP server for the tests: `python mcp_server.py [WAY]`. Written by hand, so that it starts at once; as "reference"
it is one made with the `mcp` package, which takes a second. Other ways: how it misbehaves from its start on.
"""

from __future__ import annotations

import json
import os
import sys
import time

WAY = sys.argv[1] if len(sys.argv) > 1 else ""
if WAY == "ends":
    sys.exit(3)
if WAY == "silent":
    time.sleep(600)
if WAY == "words":
    sys.stdout.write("I speak no MCP.\n" * 500)
    sys.stdout.flush()
    time.sleep(600)
if WAY == "endless":
    while True:
        sys.stdout.write("x" * (1 << 20))
if WAY == "greets":
    print("Ready to serve!", flush=True)


def greet(name: str) -> str:
    """Greets somebody by name."""
    print(f"secret of {name}", file=sys.stderr)
    return f"Hello, {name}!"


def fail() -> str:
    """Never works."""
    raise ValueError("The shelf is empty.")


def write(count: int) -> str:
    """Writes so many letters."""
    return "x" * count


def wait(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "At last."


def end() -> str:
    """Ends the server in mid-call."""
    os._exit(1)


def environment() -> str:
    """The names of its variables, and where it runs."""
    return " ".join([os.getcwd(), str(os.getpid()), *os.environ])


if WAY == "reference":
    from mcp.server.mcpserver import MCPServer

    reference = MCPServer("tests", log_level="ERROR")
    reference.tool()(greet)
    reference.run()
    sys.exit()

TOOLS = {made.__name__: made for made in (greet, fail, write, wait, end, environment)}
if WAY == "dotted":  # two names that are one where a dot cannot stand
    TOOLS |= {"say.hello": greet, "say_hello": greet}
if WAY == "wordy":
    TOOLS["g" * 70] = greet


def described(name: str) -> dict:
    wanted = [one for one in TOOLS[name].__annotations__ if one != "return"]
    schema = {"type": "object", "properties": {key: {} for key in wanted}, "required": wanted}
    return {"name": name, "description": TOOLS[name].__doc__, "inputSchema": schema}


def answered(method: str, given: dict) -> dict:
    if method == "initialize":
        about = {"name": "tests", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [described(name) for name in TOOLS]}
    try:
        said, failed = TOOLS[given["name"]](**given.get("arguments") or {}), False
    except Exception as error:
        said, failed = str(error), True
    return {"content": [{"type": "text", "text": said}], "isError": failed}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:  # all others want no answer
        result = answered(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
