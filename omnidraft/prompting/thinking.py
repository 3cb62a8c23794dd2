"""How thinking is switched through a template, which calls the switch what it likes. Found by rendering: an option is
known where what is written changes with it. Knows nothing of what is rendered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

EFFORTS = ("low", "medium", "high")
_SWITCHES: dict[str, tuple[Any, Any]] = {  # on, off
    "enable_thinking": (True, False), "thinking": (True, False), "thinking_mode": ("enabled", "disabled"),
    "thinking_budget": (-1, 0),
}  # fmt: skip
_DEGREES = ("reasoning_effort", "thinking_effort", "reasoning_strength")
_NONE = ("none", "no_think")  # what some say instead of a degree
# Values of which one or another changes what is written, whatever kind an option is of.
TRIED = (True, False, "low", "high")
Told = dict[str, Any]
Render = Callable[[Mapping[str, Any]], object]


def ways_of_thinking(render: Render, names: Collection[str], source: str) -> dict[str, Told]:
    """What to tell a template for each of our words ("on", "off" and `EFFORTS`) that means something to it.

    render: what it writes when told these options, None where it refuses; names: of its options.
    """
    found: dict[str, Told] = {}
    for name, (on, off) in _SWITCHES.items():
        if name in names and differ(render, name, (on, off)):
            found = {"on": {name: on}, "off": {name: off}}
            break
    for name in (name for name in _DEGREES if name in names):
        ways = {word: {**found.get("on", {}), name: word} for word in EFFORTS}
        told = {word: text for word, way in ways.items() if (text := render(way)) is not None}
        silent = next((word for word in _NONE if f"'{word}'" in source or f'"{word}"' in source), "")
        if not found and silent and differ(render, name, (silent, EFFORTS[-1])):
            found = {"on": {name: EFFORTS[-1]}, "off": {name: silent}}
        if len(set(told.values())) > 1:
            found |= {word: ways[word] for word in told}
        break
    return found


def differ(render: Render, name: str, values: Collection[Any], *others: Told) -> bool:
    texts = [render(told) for told in (*others, *({name: value} for value in values))]
    return len({text for text in texts if text is not None}) > 1
