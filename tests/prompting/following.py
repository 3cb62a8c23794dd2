"""What a template writes, and whether a text is what a grammar describes, asked of the matcher of bytes."""

from collections.abc import Sequence

from omnidraft.prompting.grammar import Grammar, by_bytes
from omnidraft.prompting.templates import ChatTemplate


def takes(grammar: Grammar, text: str) -> bool:
    matcher = by_bytes(grammar, (None,) * len(grammar.controls))
    data = list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()


def text(template: ChatTemplate, messages: Sequence[dict]) -> str:
    return "".join(span.text for span in template.render(messages))
