"""What a client tells the chat template, checked: an option that would do nothing is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.server.api.fields import BadRequest

# Words of OpenAI's that none of ours is called.
_EFFORTS = {"none": "off", "minimal": "low", "xhigh": "high"}


def template_options(template: ChatTemplate, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the template calls them. BadRequest for one that it has no use for."""
    told: dict[str, Any] = {}
    for name, value in asked.items():
        known = template.known({name: value}) or template.thinking.get(_word(name, value))
        if known is None:
            raise BadRequest(f"{name[:100]} does nothing with the chat template of {template.name}; leave it out.")
        told |= known
    return told


def _word(name: str, value: Any) -> str:
    """What `SamplingSettings.thinking` would be, where a template has another name for it; else ""."""
    if name == "enable_thinking" and isinstance(value, bool):
        return "on" if value else "off"
    return _EFFORTS.get(value, value) if name == "reasoning_effort" and isinstance(value, str) else ""
