"""What a function says when it cannot do what was asked: the model reads the sentence."""

from __future__ import annotations


class ToolError(Exception):
    """A call that cannot be followed; the message is one sentence for the model."""
