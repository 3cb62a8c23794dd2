"""The adapter that "learned" drafts with, trained in the same run by `bench learn` on prompts of all tasks in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from omnidraft.bench import learn_answers
from omnidraft.bench.learn_plan import LearnPlan
from omnidraft.lab.prompts import Prompt
from omnidraft.storage.files import write_atomically

LOSS = "projected"


@dataclass(frozen=True, slots=True)
class Learned:
    """adapter: None if no update was let through; ids: of the answers, in the target's tokens."""

    adapter: Path | None
    ids: list[list[int]]


def learn_from(
    target: Path, drafter: Path, tasks: Sequence[Sequence[Prompt]], folder: Path, maps: Path, threads: int,
    max_tokens: int, told: Callable[[str], None], recorded: Path | None = None,
) -> Learned:  # fmt: skip
    """Answer the prompts of every task once, in turn, and learn from them as the app does. What `folder` holds already
    is not done again."""
    from omnidraft.bench import learn  # brings torch

    mixed = [prompt for row in zip_longest(*tasks) for prompt in row if prompt is not None]
    file = folder / "mixed.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(_line(prompt, "train") for prompt in mixed[:-1]).encode()
                     + _line(mixed[-1], "test").encode())  # fmt: skip
    plan = LearnPlan(
        [target], drafter, [str(file)], (LOSS,), train_prompts=len(mixed) - 1, test_prompts=1, seeds=1,
        train_tokens=max_tokens, test_tokens=16, temperatures=(0.0,), curve=False, reference=False, threads=threads,
        recorded=recorded,
    )  # fmt: skip
    cells = folder / "learned"
    (cell,) = {cell.folder for cell, _, _ in learn.run(plan, cells, maps, told)}
    (answers,) = cells.glob(f"{target.stem}-mixed-s0-*.answers")
    adapter = cell / f"{LOSS}.gguf"
    ids = [record.targets.tolist() for record in learn_answers.read(answers)]
    return Learned(adapter if adapter.exists() else None, ids)


def _line(prompt: Prompt, split: str) -> str:
    return json.dumps({"id": prompt.id, "task": "mixed", "split": split, "messages": list(prompt.messages)}) + "\n"
