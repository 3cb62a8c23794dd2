"""Tables over the cells of a peers' run: each way against its own program's plain decoding and against llama.cpp's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from omnidraft.bench.columns import Column, column_of, label, name_of
from omnidraft.bench.peers.bursts import Answer
from omnidraft.bench.peers.peer import PLAIN
from omnidraft.bench.peers.run import Cell, Found

OURS = ("omnidraft", "omnidraft, folder")
OWN_WAYS = ("learned", "untrained")  # the first that was run is what a user of ours has
BEHIND = 1.02  # a peer so much faster is named
REFERENCES = ("llama.cpp server", "llama-cpp-python", "omnidraft")  # whose plain decoding all are held against
ENOUGH = 8  # long answers a cell needs
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """speedup: median over prompts of plain decoding's time a token over the way's, quartiles behind it; pooled: of
    summed times, with a 95% interval (prompts drawn in pairs). against: the same median against the reference."""

    task: str
    sampling: Column
    program: str
    way: str
    tokens_per_second: float
    speedup: float
    quartiles: tuple[float, float]
    pooled: float
    interval: tuple[float, float]
    reference: str | None
    against: float | None
    tokens_per_pass: float | None
    answers: int
    long: int
    looped: int
    same_text: int | None
    promised: bool


def rows(found: Found) -> list[Row]:
    return [row for cell in found.cells for row in _rows(cell)]


def _rows(cell: Cell) -> Iterator[Row]:
    reference = next((f"{name}|{PLAIN}" for name in REFERENCES if f"{name}|{PLAIN}" in cell.answers), None)
    for key, answers in cell.answers.items():
        name, way = key.split("|")
        plain = cell.answers.get(f"{name}|{PLAIN}")
        if plain is None:
            continue
        pairs = _pairs(plain, answers)
        if not pairs:
            continue
        ratios = [p.seconds / p.tokens / (a.seconds / a.tokens) for p, a in pairs]
        held = _pairs(cell.answers[reference], answers) if reference else []
        low, high = np.quantile(ratios, [0.25, 0.75])
        yield Row(
            cell.task, column_of(name_of(cell.column)), name, way,
            tokens_per_second=sum(a.tokens for _, a in pairs) / sum(a.seconds for _, a in pairs),
            speedup=median(ratios), quartiles=(float(low), float(high)), pooled=_pooled(pairs),
            interval=_interval(pairs),
            reference=reference.split("|")[0] if reference else None,
            against=median([p.seconds / p.tokens / (a.seconds / a.tokens) for p, a in held]) if held else None,
            tokens_per_pass=_mean([a.per_pass for _, a in pairs]),
            answers=len(answers), long=sum(a.long for a in answers), looped=sum(a.looped for a in answers),
            same_text=cell.same.get(key), promised=key in cell.promised,
        )  # fmt: skip


def _pairs(plain: Sequence[Answer], answers: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Prompts with something to count on both sides."""
    return [(p, a) for p, a in zip(plain, answers, strict=True) if p.tokens and a.tokens and a.seconds and p.seconds]


def _pooled(pairs: Sequence[tuple[Answer, Answer]]) -> float:
    per_token = [sum(pair[i].seconds for pair in pairs) / sum(pair[i].tokens for pair in pairs) for i in (0, 1)]
    return per_token[0] / per_token[1]


def _interval(pairs: Sequence[tuple[Answer, Answer]]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(pairs), size=(_RESAMPLES, len(pairs)))
    low, high = np.quantile([_pooled([pairs[i] for i in row]) for row in drawn], [0.025, 0.975])
    return float(low), float(high)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def as_json(found: Found, plan: dict) -> dict:
    made = rows(found)
    return {"plan": plan, "rows": [asdict(row) for row in made], "means": means(made), "ahead": ahead(made),
            "failed": found.failed, "notes": found.notes}  # fmt: skip


def means(made: Sequence[Row]) -> list[dict]:
    """Over the tasks, for each sampling and way: the geometric mean of the median speedups."""
    found = []
    for sampling, name, way in dict.fromkeys((r.sampling, r.program, r.way) for r in made if r.way != PLAIN):
        mine = [r for r in made if (r.sampling, r.program, r.way) == (sampling, name, way)]
        against = [r.against for r in mine if r.against is not None]
        found.append({
            "sampling": sampling, "program": name, "way": way, "tasks": len(mine),
            "speedup": _geometric([r.speedup for r in mine]),
            "against_reference": _geometric(against) if len(against) == len(mine) else None,
        })  # fmt: skip
    return found


def ahead(made: Sequence[Row]) -> list[dict]:
    """Where another program's speedup over its own plain decoding is more than 2% above ours, by task and sampling.
    Programs on the folder are held against ours on the folder, those on the GGUF against ours on it."""
    found = []
    for row in made:
        if row.program in OURS or row.way == PLAIN:
            continue
        program = OURS[row.program == "transformers"]
        own = {r.way: r for r in made if (r.program, r.task, r.sampling) == (program, row.task, row.sampling)}
        mine = next((own[way] for way in OWN_WAYS if way in own), None)
        if mine is not None and row.speedup > BEHIND * mine.speedup:
            found.append({"sampling": row.sampling, "task": row.task, "program": row.program, "way": row.way,
                          "speedup": row.speedup, "ours": mine.speedup, "our_way": mine.way})  # fmt: skip
    return found


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def markdown(found: Found, plan: dict) -> Iterable[str]:
    """A table of means, one table a sampling, and what failed or was printed."""
    made = rows(found)
    reference = next((row.reference for row in made if row.reference), "none")
    yield (f"{', '.join(plan['models'])} at {plan['regime']}, {plan['threads']} threads, {plan['prompts']} prompts a "
           f"task of at most {plan['max_tokens']} tokens. Reference: plain decoding of {reference}.")  # fmt: skip
    yield from ("", "| geometric mean over tasks | sampling | against its own plain | against the reference |",
                "|---|---|---|---|")  # fmt: skip
    for mean in means(made):
        against = "" if mean["against_reference"] is None else f"{mean['against_reference']:.2f}"
        yield (f"| {mean['program']}, {mean['way']} | {label(mean['sampling'])} | {mean['speedup']:.2f} | {against} |")
    for sampling in dict.fromkeys(row.sampling for row in made):
        yield from ("", f"| {label(sampling)} | task | tokens/s | against its own plain [quartiles] | pooled [95%] "
                    "| against the reference | tokens per pass | answers (long, looped) | same text |",
                    "|---" * 9 + "|")  # fmt: skip
        yield from (_line(row) for row in made if row.sampling == sampling)
    named = ahead(made)
    yield from ("", "Ahead of ours by more than 2%: " + ("nobody." if not named else "")) if made else ()
    yield from (f"- {label(one['sampling'])}, {one['task']}: {one['program']}, {one['way']} {one['speedup']:.2f}, "
                f"ours ({one['our_way']}) {one['ours']:.2f}" for one in named)  # fmt: skip
    if found.failed or any(found.notes.values()):
        yield ""
    yield from (f"- {name} failed: {said}" for name, said in found.failed.items())
    yield from (f"- {name}: {note}" for name, notes in found.notes.items() for note in notes)


def _line(row: Row) -> str:
    quartiles, interval = ("[{:.2f}, {:.2f}]".format(*pair) for pair in (row.quartiles, row.interval))
    same = "" if row.same_text is None else f"{row.same_text}{'' if row.promised else ' (not promised)'}"
    few = "" if row.long >= ENOUGH else ", too few"
    return (
        f"| {row.program}, {row.way} | {row.task} | {row.tokens_per_second:.1f} | {row.speedup:.2f} {quartiles} "
        f"| {row.pooled:.2f} {interval} | {'' if row.against is None else f'{row.against:.2f}'} "
        f"| {'' if row.tokens_per_pass is None else f'{row.tokens_per_pass:.2f}'} "
        f"| {row.answers} ({row.long}, {row.looped}{few}) | {same} |"
    )
