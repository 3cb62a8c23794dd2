"""What a conversation store hands out: small frozen records, and the meta data an answer carries."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from omnidraft.chats.pictures import ShownPicture, TextFile, are_pictures, files_of, pictures_of, with_files
from omnidraft.chats.search import said
from omnidraft.chats.titles import MAX_TITLE, one_line, shorten
from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.settings.config import SamplingSettings

# Calls of functions inside an answer: how they are kept with it, and how a model reads the answer then. An answer with
# calls stays one message: its text as it was said, and the steps at which it asked for something. They are kept as
# plain JSON values in the meta data; what is no step there is passed over (it may come from an import).


ASKED, DONE, REFUSED = "asked", "done", "refused"
NOT_ALLOWED = "The user did not allow this call."
_LONGEST = 20_000  # characters of arguments or a result that make sense


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. arguments: a JSON object as text; state: ASKED, DONE or REFUSED; result: what the model reads."""

    id: str
    name: str
    arguments: str
    state: str = ASKED
    result: str = ""

    def done(self, result: str) -> ToolCall:
        return replace(self, state=DONE, result=result)

    def refused(self) -> ToolCall:
        return replace(self, state=REFUSED, result=NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class Step:
    """Calls behind the first `at` characters and `ids` tokens of an answer."""

    at: int
    ids: int
    calls: tuple[ToolCall, ...]


def steps_meta(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Plain values that keep `steps`."""
    return [{"at": step.at, "ids": step.ids, "calls": [asdict(call) for call in step.calls]} for step in steps]


def open_call(steps: Sequence[Step]) -> ToolCall | None:
    """The call that waits for its user, the first of them."""
    return next((call for step in steps for call in step.calls if call.state == ASKED), None)


def last_step(steps: Sequence[Step]) -> int:
    """Where in an answer's text the last of its steps stands; 0 without any."""
    return steps[-1].at if steps else 0


def with_call(steps: Sequence[Step], call: ToolCall) -> list[Step]:
    """The steps with this call in place of the one of the same id."""
    return [replace(step, calls=tuple(call if old.id == call.id else old for old in step.calls)) for step in steps]


def messages_with_steps(
    content: str, steps: Sequence[Step], own: Spelled, last: Callable[[str], dict[str, Any]] = said
) -> list[dict[str, Any]]:
    """What a model reads of an answer: its text up to each step, the calls, their results, and the text behind, which
    `last` makes a message of. own: the answer's ids, of which each of its parts gets its own."""
    found: list[dict[str, Any]] = []
    start = read = 0
    for step in steps:
        calls = [_described(call) for call in step.calls]
        spelled = own.part(read, step.ids)
        found.append({**said(content[start : step.at].rstrip()), KEY: spelled, "tool_calls": calls})
        start, read = max(start, step.at), step.ids
        found += [
            {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result or NOT_ALLOWED}
            for c in step.calls
        ]
    if rest := content[start:]:
        found.append({**last(rest), KEY: own.part(read)})
    return found


def _described(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _step(given: Any) -> Step | None:
    if not isinstance(given, Mapping) or not isinstance(given.get("calls"), list):
        return None
    at, ids = given.get("at"), given.get("ids")
    if type(at) is not int or type(ids) is not int or at < 0 or ids < 0:
        return None
    calls = tuple(call for one in given["calls"] if (call := _call(one)) is not None)
    return Step(at, ids, calls) if calls else None


def _call(given: Any) -> ToolCall | None:
    names = ("id", "name", "arguments", "state", "result")
    values: list[Any] = [given.get(name) for name in names] if isinstance(given, Mapping) else []
    if not values or not all(isinstance(value, str) and len(value) <= _LONGEST for value in values):
        return None
    try:
        usable = isinstance(json.loads(values[2]), dict)
    except (ValueError, RecursionError):
        usable = False
    return ToolCall(*values) if usable and values[3] in (ASKED, DONE, REFUSED) else None


_SURROGATES = re.compile("[\ud800-\udfff]")
ROLES = ("user", "assistant", "system", "tool")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation without its messages. Times are seconds since 1970.

    `named`: the user chose the title. `sampling`, `target` None: the profile's. `speculation`: may the drafter draft.
    `pinned`: it stands at the top of the list. `tools`: the functions that may always run, None: none are offered.
    `archived`: put away behind all others.
    """

    id: str
    title: str
    created: float
    updated: float
    named: bool = False
    system: str = ""
    sampling: SamplingSettings | None = None
    target: str | None = None
    speculation: bool = True
    pinned: bool = False
    tools: tuple[str, ...] | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One version of one turn. `parent` is the message it answers (None: the first turn).

    `active`: the version shown among its siblings. `meta` holds JSON values only; see `sound`.
    """

    id: str
    chat: str
    parent: str | None
    role: str
    content: str
    created: float
    active: bool = True
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> list[TextFile]:
        """The text files that came with the message."""
        return files_of(self.meta)

    @property
    def pictures(self) -> list[ShownPicture]:
        """The pictures that came with the message; `ChatStore.pictures` has them, if they are not lost."""
        return pictures_of(self.meta)

    @property
    def steps(self) -> list[Step]:
        """Where an answer asked for functions, and what came of it, in order."""
        given = self.meta.get("steps")
        found = [step for one in given if (step := _step(one)) is not None] if isinstance(given, list) else []
        return sorted(found, key=lambda step: step.at)

    @property
    def prompt(self) -> str:
        """What a model reads: the message with its files."""
        return with_files(self.content, self.files)

    @property
    def partial(self) -> bool:
        """The answer was still being written when this was stored; left so by a kill, it was interrupted."""
        return bool(self.meta.get("partial", False))

    @property
    def statistics(self) -> Mapping[str, Any]:
        return self.meta.get("statistics", {})

    @property
    def token_ids(self) -> list[int]:
        return self.meta.get("token_ids", [])

    @property
    def own_ids(self) -> Spelled:
        """The ids of `token_ids` with the vocabulary they are in; an answer of an earlier version does not say it, so
        that they mean nothing."""
        vocabulary = self.meta.get("vocabulary", "")
        return Spelled(vocabulary, tuple(self.token_ids if vocabulary else ()))

    @property
    def origins(self) -> list[str]:
        """Where each token of `token_ids` came from: target, direct, ngram, split or lookup."""
        return self.meta.get("origins", [])

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """(text, origin) of an answer's tokens."""
        return list(zip(self.meta.get("pieces", []), self.origins, strict=False))


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `message` is None where the title matched; `snippet` is plain text around the match."""

    conversation: Conversation
    message: str | None
    snippet: str


def json_value(value: Any) -> Any:
    """`value` with everything JSON cannot say made sayable (NumPy numbers become plain, NaN becomes None); TypeError
    for what has no counterpart."""
    if value is None or isinstance(value, (bool, str)):
        return whole_text(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {whole_text(str(name)): json_value(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(inner) for inner in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return json_value(value.tolist())
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")


def whole_text(text: str) -> str:
    """`text` with lone surrogates (half an emoji, cut by a browser) replaced by U+FFFD, so that UTF-8 can say it."""
    return _SURROGATES.sub("\ufffd", text)


def title_of(text: str) -> str:
    """A conversation's title as it is kept: on one line, and not too long."""
    return shorten(one_line(whole_text(text)), MAX_TITLE * 2)


# What the meta data of a message may hold. What is of another type reads as absent: it may come from an import.
# Whoever shows an answer or goes on with it relies on this, so a wrong value costs that value, never the conversation.
# Names that are not known here stay as they are.


LARGEST = 2**53  # what every reader of JSON keeps exactly; sums and shares of such numbers overflow nothing
LARGEST_ID = 2**31 - 1
LARGEST_SEED = 2**63 - 1

# The types are compared exactly and all at once: a page reads every message's lists whenever it is shown, and to
# Python a bool would pass for an int.


def sound(meta: Mapping[str, Any]) -> dict[str, Any]:
    """`meta` without the values of known names that nobody could use."""
    kept = {name: value for name, value in meta.items() if name not in _RULES or _RULES[name](value)}
    if "statistics" in kept:
        kept["statistics"] = _sound_statistics(kept["statistics"])
    return kept


def _sound_statistics(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers under their names, but for the one that holds several."""
    counts = lambda value: isinstance(value, Mapping) and all(map(_is_number, value.values()))  # noqa: E731
    return {name: value for name, value in given.items() if (counts if name == "origins" else _is_number)(value)}


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    """A count or a duration."""
    return type(value) in (int, float) and 0 <= value <= LARGEST


def _is_whole(value: Any, largest: int) -> bool:
    return type(value) is int and 0 <= value <= largest


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {str}


def _is_ids(value: Any) -> bool:
    whole = isinstance(value, list) and set(map(type, value)) <= {int}
    return whole and (not value or (min(value) >= 0 and max(value) <= LARGEST_ID))


_RULES: dict[str, Callable[[Any], bool]] = {
    "statistics": lambda value: isinstance(value, Mapping),
    "token_ids": _is_ids,
    "origins": _is_texts,
    "pieces": _is_texts,
    "notices": _is_texts,
    "target": _is_text,
    "vocabulary": _is_text,
    "finish_reason": _is_text,
    "error": _is_text,
    "note": _is_text,
    "disabled": _is_text,
    "seed": lambda value: _is_whole(value, LARGEST_SEED),
    "plain": _is_number,
    "plain_error": _is_number,
    "thinks": lambda value: isinstance(value, bool),
    "marks": lambda value: _is_texts(value) and len(value) == 3,
    "pictures": are_pictures,
    "partial": lambda value: isinstance(value, bool),
}
