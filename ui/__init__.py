"""The app's pages. They sit on top of `omnidraft`, which knows nothing of them. Gradio is imported here, as they want
it."""

from __future__ import annotations

import os
import sys

# Gradio reads these when it is imported and when blocks are made: nothing may call home, nothing may be recorded.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_RUN_HISTORY"] = "False"
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")

# It takes `mcp` in where that is installed, to be such a server, which these pages are not: 0.7 s of every start.
_is_there = "mcp" in sys.modules
if not _is_there:
    sys.modules["mcp"] = None  # type: ignore[assignment]
import gradio  # noqa: E402, F401

if not _is_there:
    del sys.modules["mcp"]
