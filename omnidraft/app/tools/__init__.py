"""Functions that a model may ask to be called: built in, local, without side effects, bounded in time and size.

Knows nothing of models, pages or who allowed a call.
"""

from omnidraft.app.tools.functions import MAX_RESULT, ToolError, offered, run

__all__ = ["MAX_RESULT", "ToolError", "offered", "run"]
