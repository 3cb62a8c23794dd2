"""From messages to the ids of the next prompt, which depend on the conversation alone.

What somebody typed is text, spelled by ordinary tokens; earlier answers stand there with their own ids where the
conversation has them (own_ids.py). Works alike for a target and a drafter, each with its own template and vocabulary.
Knows nothing of KV caches: they save work, and the caller compares the result with what its cache holds.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any, TypeVar

from omnidraft.backends.pictures import Picture
from omnidraft.errors import ContextFull, PictureError
from omnidraft.prompting.messages import Message, Span, control_spans, whole
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary

# Pictures in messages: a mark in the text where each stands, and the pictures themselves beside it. A message's
# "content" holds the marks, its "pictures" what they stand for. Templates pass marks on as text; a model with eyes
# gets a picture's ids in their place, every other (each drafter) a short neutral text. Nobody can type a mark: it
# holds a secret of this process. Knows nothing of what is in a picture.


M = TypeVar("M", bound=Message)
See = Callable[[Picture], Sequence[int]]  # the ids of a picture
UNSEEN = "[picture]"
_SECRET = secrets.token_hex(16)
_MARK = re.compile(rf"<picture {_SECRET} ([0-9a-f]+)>")
_LEFT_OUT = "{name} cannot see pictures, so those of earlier messages are left out."
_OLDER = "{name} sees the last {most} pictures of a conversation at most, so older ones are left out."
_TOO_MANY = "{name} sees {most} pictures of a conversation at most; ask about fewer."
_BLIND = "{name} cannot see pictures; load a model together with its projector (mmproj)."


def mark(picture: Picture) -> str:
    return f"<picture {_SECRET} {picture.digest}>"


def with_pictures(text: str, pictures: Sequence[Picture]) -> dict[str, Any]:
    """What a message about these pictures says: they stand before its text."""
    if not pictures:
        return {"content": text}
    return {"content": "\n".join([*map(mark, pictures), text]), "pictures": list(pictures)}


def unseen(messages: Sequence[M]) -> list[M]:
    """The same messages for a model without eyes."""
    return [_without(message) if message.get("pictures") else message for message in messages]


def _without(message: M) -> M:
    kept: Any = {**message, "content": _MARK.sub(UNSEEN, message["content"])}
    del kept["pictures"]
    return kept


def readable(messages: Sequence[M], name: str, most: int) -> tuple[Sequence[M], str | None]:
    """The messages for the model of this name, which can see `most` pictures of one conversation (0: it has no eyes),
    and a sentence if older ones are left out for that; PictureError if the last message alone shows more."""
    left, cut = most, 0
    for at in range(len(messages) - 1, -1, -1):
        left -= len(messages[at].get("pictures") or ())
        if left < 0:
            cut = at + 1
            break
    if cut == 0:
        return messages, None
    if cut == len(messages):
        raise PictureError((_TOO_MANY if most else _BLIND).format(name=name, most=most))
    return [*unseen(messages[:cut]), *messages[cut:]], (_OLDER if most else _LEFT_OUT).format(name=name, most=most)


def render(template: ChatTemplate, messages: Sequence[Message], see: See | None) -> list[Span]:
    """What a template writes of messages; a picture's ids come as control tokens where `see` tells them."""
    pictures = {picture.digest: picture for message in messages for picture in message.get("pictures") or ()}
    if see is None or not pictures:
        return template.render(unseen(messages))
    return [part for span in template.render(messages) for part in _parts(span, pictures, see)]


def _parts(span: Span, pictures: dict[str, Picture], see: See) -> Iterator[Span]:
    if span.ids:
        yield span
        return
    for at, part in enumerate(_MARK.split(span.text)):
        if at % 2 == 0:
            if part:
                yield Span(part, joined=span.joined and at == 0)
        elif part in pictures:
            yield from (Span("", id) for id in see(pictures[part]))


def prompt_ids(
    template: ChatTemplate, vocabulary: Vocabulary, messages: Sequence[Message], see: See | None = None
) -> list[int]:
    """Ids of the rendered conversation, ready for the answer; BOS stands once. see: the ids of a picture; None for a
    model that sees none.

    They depend on the conversation alone: what was typed is spelled by ordinary tokens, and earlier answers by their
    own ids where these are known (messages.py).
    """
    return spans_ids(render(template, messages, see), vocabulary)


def spans_ids(spans: Sequence[Span], vocabulary: Vocabulary) -> list[int]:
    """The same of what a template rendered."""
    return _ids(_begun(spans, vocabulary), vocabulary)


def count_ids(
    template: ChatTemplate,
    vocabulary: Vocabulary,
    messages: Sequence[Message],
    limit: int | None = None,
    see: See | None = None,
) -> int:
    """How many ids `prompt_ids` gives; at least how many, where even that is more than `limit`.

    Texts far too long for a context are not tokenized only to learn that.
    """
    spans = _begun(render(template, messages, see), vocabulary)
    if limit is not None:
        longest = vocabulary.longest_piece
        least = sum(len(span.ids) or -(-len(span.text.encode()) // longest) for span in spans)
        if least > limit:
            return least
    return len(_ids(spans, vocabulary))


def _ids(spans: list[Span], vocabulary: Vocabulary) -> list[int]:
    ids: list[int] = []
    for span in spans:
        ids += span.ids or vocabulary.encode(span.text, at_start=not span.joined)
    return ids


def answer_ids(vocabulary: Vocabulary, text: str, prefix: str = "", ids: Sequence[int] = ()) -> list[int]:
    """Ids of an answer's text so far: as many of `ids` as spell it, then the tokenization of the rest.

    `prefix` is `ChatTemplate.answer_prefix`: the model writes it first, though it is not part of the text.
    """
    if not text:
        return []
    forms = [(prefix + text).encode(), text.encode()]
    kept, spelled, form = max(((*_known(vocabulary, form, ids), form) for form in forms), key=lambda found: found[1])
    return [*ids[:kept], *_encode_middle(vocabulary, form[spelled:])]


def _known(vocabulary: Vocabulary, data: bytes, ids: Sequence[int]) -> tuple[int, int]:
    """How many of an answer's `ids` spell the beginning of `data`, and how much of it: (ids, bytes).

    Control tokens that the model wrote and nobody saw are among them; what ended the answer is not.
    """
    spelled = 0
    markers = vocabulary.control_texts
    for count, id in enumerate(ids):
        known = 0 <= id < vocabulary.size and id not in vocabulary.eog
        if not known or not data.startswith(vocabulary.pieces[id], spelled):
            return count, spelled
        marker = markers.get(id, b"")  # of thoughts and calls, which the answer's text spells out
        spelled += len(marker if marker and data.startswith(marker, spelled) else vocabulary.pieces[id])
    return len(ids), spelled


def _begun(spans: Sequence[Span], vocabulary: Vocabulary) -> list[Span]:
    """The spans with BOS in front, once, where the vocabulary wants it."""
    if not vocabulary.add_bos or vocabulary.bos is None:
        return list(spans)
    return [Span("", vocabulary.bos), *dropwhile(lambda span: span.control_id == vocabulary.bos, spans)]


def _encode_middle(vocabulary: Vocabulary, data: bytes) -> list[int]:
    try:
        return vocabulary.encode(data.decode()) if data else []
    except UnicodeDecodeError:  # the ids in front end inside a character
        return vocabulary.encode_bytes(data)


def ends_without_space(spans: Sequence[Span]) -> bool:
    """Whether a prompt ends in visible text (`ASSISTANT:`), where a model's own first token begins with a space."""
    return bool(spans) and not spans[-1].control and not spans[-1].text[-1:].isspace()


MANY = 64  # turns; with fewer, all of them are tried first


def fit_context(
    messages: Sequence[M], limit: int, count: Callable[[Sequence[M]], int], *, group: int = 4
) -> tuple[list[M], int]:
    """The messages that fit, and how many of the oldest turns were dropped for it.

    `count` gives the tokens of a prompt, `limit` how many may stand before the answer. System messages and the last
    user message stay. From long conversations turns go in groups, so that the prompts of the next turns begin alike
    and the KV cache can be reused. ContextFull with the numbers if the last message alone is too long.
    """
    first = next((index for index, message in enumerate(messages) if message["role"] != "system"), len(messages))
    users = [index for index, message in enumerate(messages) if message["role"] == "user" and index > first]
    starts = [first, *users]  # a turn is a user message and what follows it

    def without(turns: int) -> list[M]:
        return [*messages[:first], *messages[starts[turns] :]]

    # Of a conversation far too long, only about as much as fits is ever rendered: looked for from its end.
    kept = MANY
    while kept < len(starts) and count(without(len(starts) - kept)) <= limit:
        kept *= 2
    if kept >= len(starts) and count(messages) <= limit:
        return list(messages), 0
    low, high = max(1, len(starts) - kept + 1), len(starts) - 1
    needed = count(without(high)) if high else count(messages)
    if needed > limit:
        raise ContextFull(
            f"The last message needs {needed:,} tokens or more with its template, but only {limit:,} fit beside the "
            "room kept for the answer; shorten it, lower the longest answer or raise the context length."
        )
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count(without(middle)) <= limit else (middle + 1, high)
    rounded = -(-low // group) * group
    dropped = rounded if len(starts) - rounded >= 2 * group else low
    return without(dropped), dropped


# A text to go on with as it stands, without a chat template: what completions of the older kind ask for. Control
# tokens that it spells count as such, since whoever sends it has applied a template already; what stands around a gap
# is a text of somebody's, and stays one. Knows nothing of conversations.


# What begins, what splits and what ends a text with a gap in the prompts of models that fill one in.
_GAPS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)


@dataclass(frozen=True, slots=True)
class RawText:
    """text: what a drafter reads; ids: the target's own, where the text came as these; gap: the text in its parts,
    where it has a gap: what begins it, the text before, what splits it, the text behind, and what ends it; trims:
    whether the far ends of these may go."""

    text: str
    ids: tuple[int, ...] = ()
    gap: tuple[str, ...] = ()
    trims: bool = False

    @classmethod
    def of_ids(cls, ids: Sequence[int], vocabulary: Vocabulary) -> RawText:
        """A text that came as ids of `vocabulary`; ValueError if it has no such ids."""
        if not all(0 <= token < vocabulary.size for token in ids):
            raise ValueError("ids outside the vocabulary")
        return cls(vocabulary.decode(ids).decode("utf-8", "replace"), tuple(ids))

    @classmethod
    def with_gap(cls, before: str, behind: str, vocabulary: Vocabulary, trims: bool = False) -> RawText:
        """A text whose middle is to be written; ValueError if this model has no tokens for that."""
        known = next((gap for gap in _GAPS if all(name in vocabulary.controls for name in gap)), None)
        if known is None:
            raise ValueError("no tokens for a gap")
        begin, split, end = known
        gap = (begin, before, split, behind, end)
        return cls("".join(gap), gap=gap, trims=trims)

    def fitted(self, vocabulary: Vocabulary, most: int) -> RawText:
        """What of it is read where about `most` ids fit: of what stands around a gap, a quarter behind it at least."""
        if not self.trims:
            return self
        begin, before, split, behind, end = map(whole, self.gap)
        far = most * vocabulary.longest_piece  # what is further away is not tokenized only to learn that
        heads, tails = vocabulary.encode(before[-far:]), vocabulary.encode(behind[:far])
        room = max(0, most - 4)  # what is written around them, and what begins a text
        after = min(len(tails), max(room // 4, room - len(heads)))
        if len(heads) + after > room or len(before) > far:
            before = vocabulary.decode(heads[max(0, len(heads) - room + after) :]).decode("utf-8", "ignore")
        if len(tails) > after or len(behind) > far:
            behind = vocabulary.decode(tails[:after]).decode("utf-8", "ignore")
        gap = (begin, before, split, behind, end)
        return replace(self, text="".join(gap), gap=gap)

    def prompt_ids(self, vocabulary: Vocabulary) -> list[int]:
        """What a model with this vocabulary reads; at least one id. For the target also where it came as ids."""
        ids = spans_ids(self._spans(vocabulary.controls), vocabulary)
        starts = (vocabulary.bos, vocabulary.eos, 0)
        return ids or [next(token for token in starts if token is not None)]

    def _spans(self, controls: Mapping[str, int]) -> list[Span]:
        if not self.gap:
            return list(control_spans(whole(self.text), controls))
        spans = (Span(whole(part), controls.get(part) if at % 2 == 0 else None) for at, part in enumerate(self.gap))
        return [span for span in spans if span.text]

    def target_ids(self, vocabulary: Vocabulary, n_ctx: int) -> list[int]:
        """The same for the target; ContextFull if there is no room for an answer behind it."""
        least = len(self.ids) or len(self.text.encode("utf-8", "replace")) // vocabulary.longest_piece
        # A text far too long is not tokenized only to learn that.
        ids = list(self.ids) or (self.prompt_ids(vocabulary) if least < n_ctx else [])
        if max(least, len(ids)) >= n_ctx:
            raise ContextFull(
                f"The prompt has {max(least, len(ids)):,} tokens or more, but the model's context of {n_ctx:,} must "
                "hold it and the answer; shorten it or raise the context length."
            )
        return ids
