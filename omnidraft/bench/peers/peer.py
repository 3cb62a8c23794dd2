"""What a program has to offer to be compared: ways of answering, the first of them plain. Knows no program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.bench.columns import Column, name_of, sampling_of
from omnidraft.bench.peers.bursts import Answer
from omnidraft.lab.prompts import Prompt
from omnidraft.settings.config import SamplingSettings

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Question:
    """prompt: as ids of the target, the same for every program."""

    messages: Sequence[Message]
    prompt: Sequence[int]
    column: Column
    seed: int
    max_tokens: int

    @property
    def sampling(self) -> SamplingSettings:
        return sampling_of(self.column, seed=self.seed, max_tokens=self.max_tokens)


@dataclass(frozen=True, slots=True)
class Models:
    """The same weights in every form. helper: a drafter of the target's own vocabulary, if there is one; taught: what
    to open for the drafter that learned (file, adapter), if it did; learned_ids: the answers it learned from, for the
    n-gram cache."""

    target: Path
    drafter: Path
    threads: int
    n_ctx: int
    helper: Path | None = None
    folder: Path | None = None
    drafter_folder: Path | None = None
    taught: tuple[Path, Path | None] | None = None
    learned_ids: Sequence[Sequence[int]] = ()


class Peer(Protocol):
    """A loaded program. ways: names of its ways, PLAIN first; notes: what it printed or should be known of it."""

    name: str
    ways: tuple[str, ...]
    notes: list[str]

    def answer(self, way: str, question: Question) -> Answer: ...

    def keeps_text(self, way: str, column: Column) -> bool:
        """Whether `way` promises plain decoding's text."""
        ...

    def close(self) -> None: ...


Opening = Callable[[], Peer]


def greedy(column: Column) -> bool:
    return name_of(column) == "0"


def chosen(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """The first `count` prompts, none twice."""
    found: dict[str, Prompt] = {}
    for prompt in prompts:
        found.setdefault("\n".join(message["content"] for message in prompt.messages), prompt)
    return [*found.values()][:count]
