"""What a model writes before an answer that must follow a grammar: thoughts that its prompt has opened, or channels.

Without it such a model would have to write the answer where its thoughts stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from omnidraft.backends.prompting.formats.harmony import THOUGHT_MARKS
from omnidraft.backends.prompting.grammar import Grammar, literal
from omnidraft.backends.prompting.templates import ChatTemplate

_ANYTHING = r"/[\s\S]*/"
_SPACE = r"/[ \t\r\n]*/"


def behind_thoughts(grammar: Grammar, template: ChatTemplate) -> Grammar:
    """The grammar for an answer of this template's model; where that does not begin with thoughts, as it is."""
    markers = [text.decode() for text in template.markers.values()]
    controls = (*grammar.controls, *(text for text in markers if text not in grammar.controls))
    if template.form.harmony:
        begin, end, bare = (_parts(mark, controls) for mark in THOUGHT_MARKS)
        before = f"before: {_lark(begin, controls)} thoughts | {_lark(bare, controls)}\n{_up_to(end, controls)}"
    elif template.opens_thoughts:
        end = [part for item in template.form.thoughts.ends[0] for part in _parts(str(item), controls)]
        before = f"before: thoughts {_SPACE}\n{_up_to(end, controls)}"
    else:
        return grammar
    return replace(grammar, before=before, controls=controls)


def _parts(text: str, controls: Sequence[str]) -> list[str]:
    return [part for part in re.split(f"({'|'.join(map(re.escape, controls)) or '$^'})", text) if part]


def _lark(parts: Sequence[str], controls: Sequence[str]) -> str:
    return " ".join(f"control{controls.index(part)}" if part in controls else literal(part) for part in parts)


def _up_to(end: Sequence[str], controls: Sequence[str]) -> str:
    """A rule in Lark, `thoughts`: any text and the first `end` behind it. A control token stands in no text."""
    if end[0] in controls:
        return f"thoughts: {_ANYTHING} {_lark(end, controls)}"
    return f"thoughts: thought {_lark(end[1:], controls)}\nthought[lazy]: {_ANYTHING} {literal(end[0])}"
