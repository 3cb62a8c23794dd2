"""Files that name servers, for tests: `named(home, ...)` writes one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omnidraft.storage.paths import DataHome

SERVER = Path(__file__).with_name("mcp_server.py")


def a_server(*way: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER), *way], **more}


def named(home: DataHome, profile: str = "ada", **servers: Any) -> Path:
    """The profile's file, with these servers."""
    file = home.servers(profile)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"mcpServers": servers}))
    return file
