"""`bench passes`: what passes of one row and of several take, beside what memory allows.

Three processes hold the same file and are asked in turns: with our kernels, with llama.cpp's on weights as the file has
them, and on weights as llama.cpp lays them out. The memory's speed is measured between them. This module is also what
those processes run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from omnidraft.app.models_list import choose_target
from omnidraft.backends.gguf.file import usable_info
from omnidraft.backends.llama.context import LlamaContext
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.sizes import pass_bytes
from omnidraft.bench.plans import Passes, Work
from omnidraft.errors import ModelError
from omnidraft.lab.results import Report, Table
from omnidraft.processes.children import LineChild
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import ModelSettings

WIDTHS = (1, 2, 3, 4, 5, 8, 16)
WAYS = {"ours": "", "llama": "llama.cpp", "llama_laid_out": "llama.cpp"}  # what LEFT_OUT says in their processes
_MODULE = "omnidraft.bench.passes"
_PROMPT = 400  # tokens
_TRIES = 3  # of a pass, of which the quickest counts: an interruption only adds time
_READ = 1 << 29  # bytes


def run(plan: Passes, work: Work) -> Iterator[Report]:
    """One object a file, after every file."""
    found: list[dict[str, Any]] = []
    for name in plan.target or (None,):
        found.append(_measured(choose_target(name, work.home), plan))
        yield Report(found, [*map(_table, found)])


def _measured(path: Path, plan: Passes) -> dict[str, Any]:
    threads = plan.threads or physical_cores()
    asked = [*map(str, WIDTHS), "prompt"]
    children = {way: _started(way, path, threads, plan.context) for way in WAYS}
    taken: dict[tuple[str, str], list[float]] = {(way, what): [] for way in WAYS for what in asked}
    speeds = []
    try:
        for _ in range(plan.rounds):
            speeds.append(memory_speed(threads))
            for what in asked:
                for way, child in children.items():
                    taken[way, what].append(_asked(child, what))
    finally:
        for child in children.values():
            child.kill()
            child.ended()
    middle = {key: median(values) for key, values in taken.items()}
    gb_s = median(speeds)
    result = {way: {what: round(middle[way, what], 3) for what in asked[:-1]} for way in WAYS}
    prompts = {"ours": middle["ours", "prompt"], "llama": max(middle[way, "prompt"] for way in WAYS if way != "ours")}
    limit = pass_bytes(usable_info(path)) / gb_s / 1e6
    return {
        "file": path.name, "threads": threads, "gb_s": round(gb_s, 1), "limit_ms": round(limit, 2), **result,
        "prompt": {way: round(speed, 1) for way, speed in prompts.items()},
    }  # fmt: skip


def memory_speed(threads: int) -> float:
    """GB/s that so many threads read at together; nan without our library."""
    if (read := library.reader()) is None:
        return float("nan")
    memory = np.ones(_READ, np.uint8)
    best = min(_seconds(lambda: read(memory.ctypes.data, memory.nbytes, threads)) for _ in range(_TRIES))
    return memory.nbytes / best / 1e9


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _started(way: str, path: Path, threads: int, behind: int) -> LineChild:
    environment = {library.LEFT_OUT: WAYS[way]} if WAYS[way] else {}
    child = LineChild(_MODULE, str(path), str(threads), str(behind), way, environment=environment)
    _asked(child, "")
    return child


def _asked(child: LineChild, what: str) -> float:
    child.say(what + "\n")
    answer = next(child.lines(), None)
    if answer is None:
        child.ended()
        raise ModelError(f"A measuring process ended: {child.last_words()}")
    return float(answer)


def _table(one: dict[str, Any]) -> Table:
    title = (
        f"{one['file']}, {one['threads']} threads: milliseconds of a pass; memory reads {one['gb_s']} GB/s, so a row "
        f"takes {one['limit_ms']} at least"
    )

    def rows(n: int) -> Callable[[str], str]:
        return lambda way: f"{one[way][str(n)]:.1f}"

    def cost(n: int) -> Callable[[str], str]:
        return lambda way: f"{one[way][str(n)] / one[way]['1']:.2f}"

    return Table.of(title, [*WAYS], {
        "way": str,
        **{f"{n} rows": rows(n) for n in WIDTHS},
        **{f"C({n})": cost(n) for n in WIDTHS[1:]},
        "of the limit": lambda way: f"{one['limit_ms'] / one[way]['1']:.2f}",
        "prompt, tokens/s": lambda way: f"{one['prompt'][way]:.0f}" if way in one["prompt"] else None,
    })  # fmt: skip


# A measuring process: a line names a width or "prompt", the answer is milliseconds or tokens a second.


def main(path: str, threads: str, behind: str, way: str) -> int:
    info, start = usable_info(path), int(behind)
    settings = ModelSettings(threads=int(threads), n_gpu_layers=0)
    room = max(start + max(WIDTHS), _PROMPT) + 1
    context = LlamaContext(info, settings, room, max(WIDTHS), verifies=way != "llama_laid_out")
    ids = np.resize(np.arange(100, 1000), room).tolist()
    for line in sys.stdin:
        what = line.strip()
        if what == "prompt":
            print(_PROMPT / min(_prompt(context, ids) for _ in range(2)), flush=True)
        elif what:
            _read(context, ids[:start])
            print(1e3 * min(_pass(context, ids[: int(what)], start) for _ in range(_TRIES)), flush=True)
        else:
            print(0, flush=True)
    return 0


def _read(context: LlamaContext, ids: list[int]) -> None:
    if context.held == len(ids):
        return
    context.clear()
    for at in range(0, len(ids), context.capacity):
        if context.decode(ids[at : at + context.capacity], at, 0):
            raise ModelError("A pass could not be computed.")


def _prompt(context: LlamaContext, ids: list[int]) -> float:
    context.clear()
    return _seconds(lambda: _read(context, ids[:_PROMPT]))


def _pass(context: LlamaContext, ids: list[int], start: int) -> float:
    taken = _seconds(lambda: (context.decode(ids, start, len(ids)), context.logits(len(ids))))
    context.cut(start)
    return taken


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
