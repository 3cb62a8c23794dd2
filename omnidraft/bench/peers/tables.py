"""Tables over the cells of a peers' run: each way against its own program's plain decoding and against llama.cpp's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omnidraft.bench.columns import Column, label
from omnidraft.bench.peers.peer import PLAIN, Answer
from omnidraft.bench.plans import Peers
from omnidraft.bench.report import Report, Table
from omnidraft.lab import statistics as stats

ENOUGH, LONG = 8, 31  # answers that a cell needs of so many counted tokens


@dataclass(frozen=True, slots=True)
class Row:
    """speedup: median over prompts of plain decoding's time a token over the way's, quartiles behind it; pooled: of
    summed times; against: the median against the reference's plain decoding, the first program's."""

    task: str
    sampling: Column
    program: str
    way: str
    tokens_per_second: float
    speedup: float
    quartiles: tuple[float, float]
    pooled: stats.Value
    reference: str
    against: float
    tokens_per_pass: float | None
    answers: int
    long: int
    looped: int
    same_text: int | None
    promised: bool


def report(cells: Sequence[dict[str, Any]], plan: Peers) -> Report:
    made = [row for cell in cells for row in rows(cell)]
    over = means(made)
    notes = {name: said for cell in cells for name, said in cell["notes"].items()}
    values = {"plan": asdict(plan), "rows": made, "means": over, "notes": notes}
    said = [f"{name}: {note}" for name, lines in notes.items() for note in lines]
    return Report(values, [_means(over), _rows(made)], said)


def rows(cell: dict[str, Any]) -> Iterator[Row]:
    answers = {key: [Answer(**one) for one in found] for key, found in cell["answers"].items()}
    reference = next(iter(answers)).split("|")[0]
    for key, found in answers.items():
        name, way = key.split("|")
        plain = answers[f"{name}|{PLAIN}"]
        pairs = [(p, a) for p, a in zip(plain, found, strict=False) if p.tokens and a.tokens and a.decode and p.decode]
        if not pairs:
            continue
        before, behind = [p for p, _ in pairs], [a for _, a in pairs]
        ratios, passes = stats.each(before, behind), [a.per_pass for a in behind if a.per_pass is not None]
        held = stats.each(answers[f"{reference}|{PLAIN}"], found)
        yield Row(
            cell["task"], cell["column"], name, way,
            tokens_per_second=sum(a.tokens for a in behind) / sum(a.decode for a in behind),
            speedup=stats.median(ratios).mean, quartiles=stats.quartiles(ratios),
            pooled=stats.speedup(before, behind), reference=reference,
            against=stats.median(held).mean,
            tokens_per_pass=sum(passes) / len(passes) if passes else None,
            answers=len(found), long=sum(a.tokens >= LONG for a in found), looped=sum(a.looped for a in found),
            same_text=cell["same"].get(key), promised=key in cell["promised"],
        )  # fmt: skip


def means(made: Sequence[Row]) -> list[dict[str, Any]]:
    """Over the tasks, for each sampling and way: the geometric mean of the median speedups."""
    found = []
    for sampling, name, way in dict.fromkeys((r.sampling, r.program, r.way) for r in made if r.way != PLAIN):
        mine = [r for r in made if (r.sampling, r.program, r.way) == (sampling, name, way)]
        found.append({
            "sampling": sampling, "program": name, "way": way, "tasks": len(mine),
            "speedup": stats.geometric([r.speedup for r in mine]),
            "against_reference": stats.geometric([r.against for r in mine]),
        })  # fmt: skip
    return found


def _means(found: Sequence[dict]) -> Table:
    return Table(
        "Geometric means over the tasks",
        ["program", "sampling", "against its own plain", "against the reference"],
        [[f"{m['program']}, {m['way']}", label(m["sampling"]), m["speedup"], m["against_reference"]] for m in found],
    )


def _rows(made: Sequence[Row]) -> Table:
    return Table(
        f"By task; the reference is plain decoding of {made[0].reference if made else 'none'}",
        ["program", "sampling", "task", "tokens/s", "against its own plain [quartiles]", "pooled [95%]",
         "against the reference", "tokens/pass", "answers (long, looped)", "same text"],
        [[f"{r.program}, {r.way}", label(r.sampling), r.task, r.tokens_per_second,
          stats.Value(r.speedup, *r.quartiles), r.pooled, r.against, r.tokens_per_pass,
          f"{r.answers} ({r.long}, {r.looped}{'' if r.long >= ENOUGH else ', too few'})", _same(r)] for r in made],
    )  # fmt: skip


def _same(row: Row) -> str | None:
    return None if row.same_text is None else f"{row.same_text}{'' if row.promised else ' (not promised)'}"
