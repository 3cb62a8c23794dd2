"""An MCP server for the tests, made with the `mcp` package: `python mcp_server.py [WAY]`.

WAY: how it misbehaves from its start on.
"""

from __future__ import annotations

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

from mcp.server.mcpserver import MCPServer  # noqa: E402  it takes a second
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402

server = MCPServer("tests", log_level="ERROR")


@server.tool()
def greet(name: str) -> str:
    """Greets somebody by name."""
    print(f"secret of {name}", file=sys.stderr)
    return f"Hello, {name}!"


@server.tool()
def fail() -> str:
    """Never works."""
    raise ToolError("The shelf is empty.")


@server.tool()
def write(count: int) -> str:
    """Writes so many letters."""
    return "x" * count


@server.tool()
def wait(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "At last."


@server.tool()
def end() -> str:
    """Ends the server in mid-call."""
    os._exit(1)


@server.tool()
def environment() -> str:
    """The names of its variables, and where it runs."""
    return " ".join([os.getcwd(), str(os.getpid()), *os.environ])


if WAY == "many":
    for number in range(90):
        server.add_tool(greet, name=f"greet_{number}")
if WAY == "dotted":  # two names that are one where a dot cannot stand
    server.add_tool(greet, name="say.hello")
    server.add_tool(greet, name="say_hello")
if WAY == "wordy":
    server.add_tool(greet, name="g" * 70)

server.run()
