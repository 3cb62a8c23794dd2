"""Where each token of an answer came from, as coloured text beside the conversation, never inside it.

Colouring the answer itself would end up in the clipboard.
"""

from __future__ import annotations

from html import escape

from omnidraft.decoding.events import ORIGINS
from ui.chat.panel import ORIGIN_WORDS
from ui.common.words import tip

_MOST = 4000  # tokens shown, the last ones
_UNKNOWN = "unknown"  # for what an imported conversation says that this program never did
_WORDS = {**ORIGIN_WORDS, _UNKNOWN: "of unknown origin"}


def origins(pieces: list[tuple[str, str]]) -> str:
    """HTML for (text, origin) pairs."""
    if not pieces:
        return '<p class="od-none">Once there is an answer, every token shows here in the colour of its origin.</p>'
    known = [(text, origin if origin in ORIGINS else _UNKNOWN) for text, origin in pieces]
    seen = {origin for _, origin in known}
    key = "".join(f'<li><i class="od-o-{o}"></i>{tip(_WORDS[o])}</li>' for o in (*ORIGINS, _UNKNOWN) if o in seen)
    cut = f"<p>The last {_MOST:,} tokens.</p>" if len(pieces) > _MOST else ""
    text = "".join(f'<span class="od-k od-k-{o}" title="{_WORDS[o]}">{_shown(t)}</span>' for t, o in known[-_MOST:])
    return (
        f'<section class="od-panel"><ul class="od-legend">{key}</ul>{cut}<div class="od-tokens">{text}</div></section>'
    )


def _shown(text: str) -> str:
    return escape(text).replace("\n", "↵<br>") if text else "·"
