"""What a conversation store hands out: small frozen records, and the meta data an answer carries."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnidraft.chats.files import TextFile, files_of, with_files
from omnidraft.chats.pictures import ShownPicture, pictures_of
from omnidraft.chats.steps import Step, steps_of
from omnidraft.settings.config import SamplingSettings

_SURROGATES = re.compile("[\ud800-\udfff]")
ROLES = ("user", "assistant", "system", "tool")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation without its messages. Times are seconds since 1970.

    `named`: the user chose the title. `sampling`, `target` None: the profile's. `speculation`: may the drafter draft.
    `pinned`: it stands at the top of the list. `tools`: the functions that may always run, None: none are offered.
    `tags`: words of its owner's it is found by. `archived`: put away behind all others.
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
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One version of one turn. `parent` is the message it answers (None: the first turn).

    `active`: the version shown among its siblings. `meta` holds JSON values only; see `answer_meta`.
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
        """Where an answer asked for functions, and what came of it."""
        return steps_of(self.meta)

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
    def origins(self) -> list[str]:
        """Where each token of `token_ids` came from: target, direct, ngram, split or lookup."""
        return self.meta.get("origins", [])


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `message` is None where the title matched; `snippet` is plain text around the match."""

    conversation: Conversation
    message: str | None
    snippet: str


def answer_meta(
    *,
    statistics: Mapping[str, Any] | None = None,
    token_ids: Sequence[int] = (),
    origins: Sequence[str] = (),
    target: str | None = None,
    seed: int | None = None,
    finish_reason: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The meta data of an assistant message, as JSON values (NumPy numbers become plain, NaN becomes None)."""
    given = {
        "statistics": dict(statistics) if statistics else None,
        "token_ids": list(token_ids) or None,
        "origins": list(origins) or None,
        "target": target,
        "seed": seed,
        "finish_reason": finish_reason,
        **more,
    }
    return {name: json_value(value) for name, value in given.items() if value is not None}


def json_value(value: Any) -> Any:
    """`value` with everything JSON cannot say made sayable; TypeError for what has no counterpart."""
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
