"""What `bench peers` asks of whom, and the prompts of each task. No models here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.bench.columns import DEFAULT, Column
from omnidraft.bench.peers.peer import chosen
from omnidraft.bench.regimes import shape_of_drafter
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import TASKS, Prompt, load_prompts
from omnidraft.lab.topics import TOPICS, lesson_prompts

EDIT = "edit"
PEERS = ("llama-cpp-python", "server", "transformers", "gguf", "folder")


@dataclass(frozen=True)
class Plan:
    """tasks: bundled names, "edit", or prompt files; data: a folder of `<task>.jsonl` that replaces the bundled ones;
    helper: a small model of the target's own vocabulary; learn_prompts: of each task, for the learned drafter, 0: none;
    drafter_shape: "own" for the drafter as it is, or a shape, None for the regime's; server: llama.cpp's program;
    recorded: a folder of cells whose answers are learned from again."""

    target: Path
    drafter: Path
    helper: Path | None
    server: Path
    peers: Sequence[str] = PEERS
    tasks: Sequence[str] = (*TASKS, EDIT)
    columns: Sequence[Column] = (0.0, DEFAULT, 1.0)
    regime: str = "0.5b-F32"
    prompts: int = 8
    max_tokens: int = 64
    learn_prompts: int = 24
    learn_tokens: int = 96
    seed: int = 0
    threads: int = 1
    data: Path | None = None
    recorded: Path | None = None
    drafter_shape: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("prompts", 1), ("max_tokens", 2), ("learn_prompts", 0), ("learn_tokens", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} is {getattr(self, name)}, but must be at least {least}.")
        if unknown := [peer for peer in self.peers if peer not in PEERS]:
            raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(PEERS)}.")
        shape_of_drafter(self.regime, self.drafter_shape)

    def decides(self) -> dict:
        """What a cell's numbers depend on besides its task and sampling; interrupted runs must agree in it."""
        files = [self.target, self.drafter, *([self.helper] if self.helper else [])]
        names = ("regime", "prompts", "max_tokens", "learn_prompts", "learn_tokens", "seed", "threads")
        shape = {"drafter_shape": self.drafter_shape} if self.drafter_shape else {}
        return {name: getattr(self, name) for name in names} | shape | {
            "peers": list(self.peers), "models": {file.stem: _digest(file) for file in files},
        }  # fmt: skip

    def test(self, task: str) -> list[Prompt]:
        """The prompts that are timed."""
        every = load_prompts(self._source(task))
        marked = [prompt for prompt in every if prompt.split == "test"]
        return chosen(marked or every, self.prompts)

    def train(self, task: str) -> list[Prompt]:
        """Prompts to learn from, none of them a test prompt; of a bundled task lessons are added where there are too
        few."""
        return self._train(task)[: self.learn_prompts]

    def _train(self, task: str) -> list[Prompt]:
        asked = {prompt.text for prompt in self.test(task)}
        source = self._source(task)
        every = [prompt for prompt in load_prompts(source) if prompt.split != "test"]
        if source in TOPICS and len(every) < self.learn_prompts:
            every += lesson_prompts(str(source))
        return chosen([prompt for prompt in every if prompt.text not in asked], len(every))

    def aside(self, task: str) -> Prompt:
        """A prompt to warm up with, a test prompt only where there is no other."""
        return (self._train(task) or self.test(task))[-1]

    def _source(self, task: str) -> str | Path:
        if self.data and task in (*TASKS, EDIT):
            return self.data / f"{task}.jsonl"
        return Path(__file__).with_name("edit.jsonl") if task == EDIT else task


def digest(prompts: Sequence[Prompt]) -> str:
    return hashlib.sha256(json.dumps([list(prompt.messages) for prompt in prompts]).encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
