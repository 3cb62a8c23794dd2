"""Where each token of an answer came from, as coloured text beside the conversation, never inside it.

Colouring the answer itself would end up in the clipboard.
"""

from __future__ import annotations

from html import escape

from omnidraft.decoding.events import ORIGINS
from ui.panel import ORIGIN_WORDS

_MOST = 4000  # tokens shown, the last ones


def origins(pieces: list[tuple[str, str]]) -> str:
    """HTML for (text, origin) pairs."""
    if not pieces:
        return '<p class="od-none">Once there is an answer, every token shows here in the colour of its origin.</p>'
    seen = {origin for _, origin in pieces}
    key = "".join(f'<li><i class="od-o-{o}"></i>{ORIGIN_WORDS[o]}</li>' for o in ORIGINS if o in seen)
    cut = f"<p>The last {_MOST:,} tokens.</p>" if len(pieces) > _MOST else ""
    text = "".join(
        f'<span class="od-k od-k-{o}" title="{ORIGIN_WORDS[o]}">{_shown(t)}</span>' for t, o in pieces[-_MOST:]
    )
    return (
        f'<section class="od-panel"><ul class="od-legend">{key}</ul>{cut}<div class="od-tokens">{text}</div></section>'
    )


def _shown(text: str) -> str:
    return escape(text).replace("\n", "↵<br>") if text else "·"
