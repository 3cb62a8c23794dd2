"""Whether a text is what a grammar describes, asked of the matcher of bytes."""

from __future__ import annotations

from omnidraft.backends.prompting.grammar import Grammar, by_bytes


def takes(grammar: Grammar, text: str) -> bool:
    matcher = by_bytes(grammar, (None,) * len(grammar.controls))
    data = list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()
