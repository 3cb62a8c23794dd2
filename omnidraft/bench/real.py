"""`bench real`: the paper's pairs and public prompts, fetched, learned from and timed; ours beside what it reports.

For a machine with a network, and a card that holds the targets. Models come from the Hub as `models get` brings them,
prompts row by row from its data sets' viewer, which needs no reader of their formats. Acceptance and training are
`bench learn`'s, speed is `bench speed`'s with the drafter as it came and as each loss left it under seed 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from omnidraft.app.default_models import existing_path
from omnidraft.app.hub import Download
from omnidraft.app.hub_files import HubError, list_models, named, unreachable
from omnidraft.bench import learn, learn_report, regimes, speed
from omnidraft.bench.learn_report import DIRECT
from omnidraft.bench.plans import METHODS, Learn, Real, Speed
from omnidraft.bench.published import DRAFTER, FIGURES, SOURCES, Source
from omnidraft.bench.questions import label
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Cells, Work
from omnidraft.errors import SettingsError
from omnidraft.format import size
from omnidraft.lab import statistics as stats
from omnidraft.storage.files import write_atomically

_PAGE = 100  # rows the viewer gives at once
_WAYS = ("plain", "fixed:4", "adaptive")
_SPARE = 2  # so many times the test prompts are fetched, for every seed draws its own
Timed = dict[tuple[str, str, str], dict[str, dict[str, Any]]]  # target, task, condition; way -> row of `bench speed`


def run(plan: Real, work: Work) -> Iterator[Report]:
    """What there is so far, whenever it has grown."""
    if unknown := [task for task in plan.tasks if task not in SOURCES]:
        raise SettingsError(f"There are no prompts called {unknown[0][:40]}; known are {', '.join(SOURCES)}.")
    drafter = _model(plan.drafter or DRAFTER, work)
    tasks = tuple(str(_prompts(plan, task, work)) for task in plan.tasks)
    found: list[Any] = []
    names, timed = dict[str, str](), Timed()
    for spec in plan.target:
        name, _, where = spec.rpartition("=")
        target = _model(where, work)
        names[target.stem] = name
        asked = _learned(plan, target, drafter, tasks)
        for one in learn.results(asked, work):
            found.append(one)
            yield _report(names, found, timed)
        for task, condition in ((task, one) for task in tasks for one in (DIRECT, *METHODS)):
            timed |= _timed(plan, work, target, drafter, task, condition)
            yield _report(names, found, timed)


def _learned(plan: Real, target: Path, drafter: Path, tasks: tuple[str, ...]) -> Learn:
    names = ("threads", "seeds", "train_prompts", "train_tokens", "test_prompts", "test_tokens")
    return Learn(
        str(drafter), target=(str(target),), tasks=tasks, loss=METHODS, temperature=("0",),
        **{name: getattr(plan, name) for name in names},
    )  # fmt: skip


def _timed(plan: Real, work: Work, target: Path, drafter: Path, task: str, condition: str) -> Timed:
    """The condition's drafter against plain decoding; nothing where it cannot be written as one file."""
    adapter = learn.adapter_of(work.cells.folder, target, task, condition)
    if adapter is not None:  # where no update was let through the drafter as it came is what is served
        drafter, left = regimes.taught(work.home, "bundled", adapter, drafter)
        if left is not None:
            return {}
    asked = Speed(
        str(drafter), plan.threads, (str(target),), tasks=(task,), methods=_WAYS, temperature=("0",),
        prompts=plan.timed_prompts, max_tokens=plan.test_tokens,
    )  # fmt: skip
    inner = replace(work, cells=Cells(work.cells.folder / f"speed-{label(task)}-{condition}"))
    rows = [row for cell in speed.results(asked, inner) for row in cell["rows"]]
    return {(target.stem, label(task), condition): {row["method"]: row for row in rows}}


def _model(spec: str, work: Work) -> Path:
    """A file here, or OWNER/NAME[:FILE], fetched once."""
    if (path := existing_path(spec)) is not None:
        return path
    cell = f"models/{spec.replace('/', '--').replace(':', '--')}"
    path = Path(work.cells.get(cell, {"of": spec}, partial(_fetched, spec, work)))
    return path if path.exists() else _fetched(spec, work)


def _fetched(spec: str, work: Work) -> Path:
    repo, _, file = spec.partition(":")
    download = Download(named(list_models(repo), repo, file), work.home)
    if download.path.exists():
        return download.path
    work.told(f"{spec}: {size(download.model.size)}")
    download.start()
    try:
        download.join()
    except KeyboardInterrupt:  # the next run goes on from what has come
        download.cancel()
        download.join()
        raise
    if download.error:
        raise HubError(download.error)
    return download.path


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


def _report(names: dict[str, str], found: Sequence[Any], timed: Timed) -> Report:
    rows = []
    for row in learn_report.rows(found):
        target, task, condition = row["target"], row["task"], row["condition"]
        published = FIGURES.get(names[target], {}).get(task, {})
        ways = timed.get((target, task, condition), {})
        ours = {way: stats.Value(ways[way]["speedup"], *ways[way]["speedup_ci"]) for way in _WAYS[1:] if way in ways}
        same = [ways[way]["same"] for way in _WAYS[1:] if way in ways]
        rows.append({**row, "paper": published.get(condition), "paper_lora": published.get(f"{condition}, LoRA"),
                     "speedup": ours, "same": sum(same) if same else None,
                     "asked": sum(ways[way]["answers"] for way in _WAYS[1:]) if same else None})  # fmt: skip
    return Report({"rows": rows, "costs": learn_report.costs(found)}, [_table(rows)], (
        "Paper: arXiv 2507.02659 v3, acceptance and speedup, with LoRA in brackets. Speedup is over plain decoding.",
    ))  # fmt: skip


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    head = ["target", "task", "drafter", "paper", "accepted", "tokens/pass", "speedup, four pieces", "adaptive",
            "same text", "training, processor s"]  # fmt: skip
    return Table("The paper's pairs: published, and measured here [95%]", head, [
        [r["target"], r["task"], r["condition"], _paper(r), r["acceptance"], r["tokens_per_pass"],
         *(r["speedup"].get(way) for way in _WAYS[1:]), None if r["same"] is None else f"{r['same']} of {r['asked']}",
         r.get("training_cpu")] for r in rows
    ])  # fmt: skip


def _paper(row: dict[str, Any]) -> str | None:
    shown = ["{:.2f}, {:.2f}".format(*row[name]) for name in ("paper", "paper_lora") if row[name]]
    return None if not shown else shown[0] + (f" ({shown[1]})" if len(shown) > 1 else "")
