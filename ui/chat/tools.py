"""Calls of functions on the chat page: how each is shown in its answer, and the question whether it may run."""

from __future__ import annotations

import json
import re
from html import escape

from omnidraft.app.tool_use import ALWAYS, ONCE, REFUSE
from omnidraft.app.tools import BETWEEN, Toolbox
from omnidraft.chats import Message
from omnidraft.chats.records import ASKED, DONE, REFUSED, ToolCall, open_call

INFO = "The model may ask to use a calculator, the clock and files you attached; you decide about every call."
NAMED = "Programs named in {}, started when you switch this on: {}."
TITLES = {ASKED: "Asks to use {}", DONE: "Used {}", REFUSED: "Was not allowed to use {}"}
WAITING = "*Waiting for you to decide about the call.*"
_CHOICES = ((ONCE, "Allow once"), (ALWAYS, "Always in this chat"), (REFUSE, "Refuse"))
_TICKS = re.compile("`{3,}")

# Sends what was chosen, and for which call.
SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-choice]');
  const box = button && button.closest('[data-call]');
  if (!box) return;
  for (const other of box.querySelectorAll('button')) other.disabled = true;
  trigger('act', {message: box.dataset.message, call: box.dataset.call, choice: button.dataset.choice});
});
"""


def info(toolbox: Toolbox) -> str:
    """What stands beside the switch: which functions there are, also those of the named servers."""
    listed = toolbox.listed()
    return f"{INFO} {NAMED.format(toolbox.file_name, '; '.join(listed))}" if listed else INFO


def title(call: ToolCall) -> str:
    return TITLES[call.state].format(call.name)


def described(call: ToolCall) -> str:
    """A call and its result as Markdown."""
    parts = [_block(_arguments(call))]
    if call.state == DONE:
        parts.append(_block(call.result))
    return "\n\n".join(parts)


def question(path: list[Message]) -> str:
    """The question about the call that the last answer waits for; "" if it waits for none."""
    last = path[-1] if path else None
    call = open_call(last.steps) if last is not None else None
    if last is None or call is None:
        return ""
    whose = ", which a program outside OmniDraft runs" if BETWEEN in call.name else ""
    buttons = "".join(f'<button type="button" data-choice="{choice}">{label}</button>' for choice, label in _CHOICES)
    return (
        f'<div class="od-permit" role="group" aria-label="A function asks to run" data-message="{escape(last.id)}" '
        f'data-call="{escape(call.id)}"><p>The model asks to use <b>{escape(call.name)}</b>{whose}:</p>'
        f'<pre tabindex="0">{escape(_arguments(call))}</pre><div>{buttons}</div></div>'
    )


def _arguments(call: ToolCall) -> str:
    given = json.loads(call.arguments)
    return "\n".join(f"{name}: {_value(value)}" for name, value in given.items()) or "(nothing)"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _block(text: str) -> str:
    fence = "`" * max((len(run) + 1 for run in _TICKS.findall(text)), default=3)
    return f"{fence}\n{text}\n{fence}"
