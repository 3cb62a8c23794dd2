"""`bench real`: public prompts, fetched row by row from the Hub's viewer of data sets, learned from and timed.

Acceptance and training are `bench learn`'s, speed is `bench speed`'s with the drafter as it came and as each loss left
it under seed 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.app.hub import HubError, unreachable
from omnidraft.bench import learn, speed
from omnidraft.bench.pairs import task_name
from omnidraft.bench.runner import SOURCES, Cells, Learn, Real, Report, Source, Speed, Table, Work
from omnidraft.errors import SettingsError
from omnidraft.learning.adapters.versions import can_merge
from omnidraft.storage.files import write_atomically

_PAGE = 100  # rows the viewer gives at once
_WAYS = ("plain", "fixed:4", "adaptive")
_SPARE = 2  # so many times the test prompts are fetched, for every seed draws its own


def run(plan: Real, work: Work) -> Iterator[Report]:
    """What there is so far, whenever it has grown."""
    if unknown := [task for task in plan.tasks if task not in SOURCES]:
        raise SettingsError(f"There are no prompts called {unknown[0][:40]}; known are {', '.join(SOURCES)}.")
    drafter = need_drafter(plan.drafter, work.home, choose_target((plan.target or (None,))[0], work.home))
    tasks = tuple(str(_prompts(plan, task, work)) for task in plan.tasks)
    found: list[Any] = []
    conditions = (learn.DIRECT, *(plan.loss if can_merge(drafter) else ()))
    timed: list[dict[str, Any]] = []
    for name in plan.target or (None,):
        target = choose_target(name, work.home)
        for one in learn.results(_learned(plan, target, drafter, tasks), work):
            found.append(one)
            yield _report(found, timed)
        for task, condition in ((task, one) for task in tasks for one in conditions):
            timed += _timed(plan, work, target, drafter, task, condition)
            yield _report(found, timed)


def _learned(plan: Real, target: Path, drafter: Path, tasks: tuple[str, ...]) -> Learn:
    names = ("threads", "loss", "seeds", "train_prompts", "train_tokens", "test_prompts", "test_tokens")
    return Learn(
        str(drafter), target=(str(target),), tasks=tasks, temperature=("0",),
        **{name: getattr(plan, name) for name in names},
    )  # fmt: skip


def _timed(
    plan: Real, work: Work, target: Path, drafter: Path, task: str, condition: str
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Rows of `bench speed` for the condition's drafter; where no update was let through that is the given one."""
    served = learn.drafter_of(work.cells.folder, target, task, condition) or drafter
    asked = Speed(
        str(served), plan.threads, (str(target),), tasks=(task,), methods=_WAYS, temperature=("0",),
        prompts=plan.timed_prompts, max_tokens=plan.test_tokens,
    )  # fmt: skip
    inner = replace(work, cells=Cells(work.cells.folder / f"speed-{task_name(task)}-{condition}"))
    for cell in speed.results(asked, inner):
        yield from ({**row, "task": task_name(task), "condition": condition} for row in cell["rows"])


def _prompts(plan: Real, task: str, work: Work) -> Path:
    """The task's prompts as a file that `bench learn` and `bench speed` read."""
    wanted = {"train": plan.train_prompts * plan.seeds, "test": plan.test_prompts * _SPARE}

    def fetch() -> list[dict[str, Any]]:
        made = []
        for split, count in wanted.items():
            sources = SOURCES[task][split]
            for source in sources:
                work.told(f"{source.dataset}: {split}")
                for text in islice(_texts(plan.rows, source), -(-count // len(sources))):
                    made.append({"split": split, "messages": [{"role": "user", "content": text}]})
        return made

    depends = {"sources": [list(source) for part in SOURCES[task].values() for source in part], "wanted": wanted}
    prompts = work.cells.get(f"prompts/{task}", depends, fetch)
    path = work.cells.place(f"prompts/{task}.jsonl")
    write_atomically(path, "".join(json.dumps(prompt) + "\n" for prompt in prompts).encode())
    return path


def _texts(address: str, source: Source) -> Iterator[str]:
    """The questions of a data set, page by page until there are no more."""
    from huggingface_hub.utils import get_session

    offset = source.offset
    while True:
        asked = {"dataset": source.dataset, "config": source.config, "split": source.split}
        try:
            answer = get_session().get(
                f"{address.rstrip('/')}/rows", params={**asked, "offset": offset, "length": _PAGE}, timeout=60
            )
            answer.raise_for_status()
            rows = [one["row"] for one in answer.json()["rows"]]
            texts = [source.form.format_map(row).strip() for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise HubError(f"{source.dataset} has other columns than it had: {error}.") from error
        except Exception as error:
            raise unreachable(error) from None
        yield from (text for text in texts if text)
        if len(rows) < _PAGE:
            return
        offset += _PAGE


def _report(found: Sequence[Any], timed: Sequence[dict[str, Any]]) -> Report:
    learned = learn.report(found)
    head, rows = ["drafter", *speed.HEAD], [[row["condition"], *speed.cells(row)] for row in timed]
    table = Table("Speed over plain decoding of the same prompts [95%]", head, rows)
    assert isinstance(learned.values, Mapping)
    return Report({**learned.values, "timed": timed}, [*learned.tables, *([table] if timed else [])])
