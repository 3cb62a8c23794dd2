"""From messages to the ids of the next prompt, keeping every id the model has already read.

The committed ids are the truth about the conversation so far: an answer's ids stay as they were generated, and only
the text behind them is tokenized. Works alike for a target and a drafter, each with its own template and vocabulary.
Knows nothing of KV caches: the caller compares the result with what its cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from omnidraft.backends.prompting.messages import Message
from omnidraft.backends.prompting.picture_marks import See, render
from omnidraft.backends.prompting.spans import Span
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.errors import ContextFull
from omnidraft.vocab import Vocabulary

M = TypeVar("M", bound=Message)

Run = int | str  # a control token's id, or the text between two of them


class Joined(str):
    """Text that goes on from the run before it: cut there so that no token stands for both."""

    __slots__ = ()


def prompt_ids(
    template: ChatTemplate,
    vocabulary: Vocabulary,
    messages: Sequence[Message],
    committed: Sequence[int] = (),
    see: See | None = None,
) -> list[int]:
    """Ids of the rendered conversation, ready for the answer, beginning with as much of `committed` as it can.

    If the rendering begins with exactly the bytes and control tokens of `committed`, the result is `committed` plus
    the tokenization of what follows. If the conversation was changed, the ids before the text run with the change are
    kept, so a regenerated answer gets the very prompt it had. BOS stands once. see: the ids of a picture; None for a
    model that sees none.
    """
    return spans_ids(render(template, messages, see), vocabulary, committed)


def spans_ids(spans: Sequence[Span], vocabulary: Vocabulary, committed: Sequence[int] = ()) -> list[int]:
    """The same of what a template rendered."""
    return _ids(_runs(spans, vocabulary), vocabulary, committed)


def count_ids(
    template: ChatTemplate,
    vocabulary: Vocabulary,
    messages: Sequence[Message],
    committed: Sequence[int] = (),
    limit: int | None = None,
    see: See | None = None,
) -> int:
    """How many ids `prompt_ids` gives; at least how many, where even that is more than `limit`.

    Texts far too long for a context are not tokenized only to learn that.
    """
    runs = _runs(render(template, messages, see), vocabulary)
    if limit is not None:
        longest = vocabulary.longest_piece
        least = sum(1 if isinstance(run, int) else -(-len(run.encode()) // longest) for run in runs)
        if least > limit:
            return least
    return len(_ids(runs, vocabulary, committed))


def _ids(runs: list[Run], vocabulary: Vocabulary, committed: Sequence[int]) -> list[int]:
    kept, covered, rest = _match(runs, vocabulary, committed)
    ids = [*committed[:kept], *_encode_middle(vocabulary, rest)]
    for run in runs[covered:]:
        start = not isinstance(run, Joined)
        ids.extend([run] if isinstance(run, int) else vocabulary.encode(run, at_start=start))
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


def _runs(spans: Sequence[Span], vocabulary: Vocabulary) -> list[Run]:
    runs: list[Run] = []
    for span in spans:
        if span.control_id is not None:
            runs.append(span.control_id)
        else:
            runs.append(Joined(span.text) if span.joined else span.text)
    if vocabulary.add_bos and vocabulary.bos is not None:
        while runs[:1] == [vocabulary.bos]:
            del runs[0]
        runs.insert(0, vocabulary.bos)
    return runs


def _match(runs: list[Run], vocabulary: Vocabulary, committed: Sequence[int]) -> tuple[int, int, bytes]:
    """How far `committed` spells `runs`: (ids kept, runs they cover, bytes left of the run they end in)."""
    prefix = _space_prefix(vocabulary)
    kept = 0
    for index, run in enumerate(runs):
        if kept == len(committed):
            return kept, index, b""
        if isinstance(run, int):
            if committed[kept] != run:
                return kept, index, b""
            kept += 1
            continue
        data = run.encode()
        # A run tokenized as prompt carries the vocabulary's space prefix; one the model began itself does not.
        forms = (prefix + data, data) if prefix and not isinstance(run, Joined) else (data,)
        end, spelled, form = max((*_spell(vocabulary, committed, kept, form), form) for form in forms)
        if spelled < len(form):
            return (end, index + 1, form[spelled:]) if end == len(committed) else (kept, index, b"")
        kept = end
    return kept, len(runs), b""


def _spell(vocabulary: Vocabulary, committed: Sequence[int], start: int, data: bytes) -> tuple[int, int]:
    """Walks along `committed` from `start` while its pieces spell `data`: (next id, bytes spelled)."""
    spelled, markers = 0, vocabulary.control_texts
    while start < len(committed) and spelled < len(data):
        id = committed[start]
        piece = b"" if id >= vocabulary.size else vocabulary.pieces[id] or markers.get(id, b"")
        if not piece or not data.startswith(piece, spelled):
            break
        spelled += len(piece)
        start += 1
    return start, spelled


def _space_prefix(vocabulary: Vocabulary) -> bytes:
    """What the tokenizer puts in front of a text: b" " for SentencePiece style, else b""."""
    return vocabulary.decode(vocabulary.encode("a", at_start=True))[:-1]


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
