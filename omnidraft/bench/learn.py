"""`bench learn`: what online learning gains, by the app's own updates and the real engine, learning frozen at the test.

Cells (target, task, seed) are run one after another and each condition's numbers are kept in a file of their own, so
that a run that was interrupted goes on where it stopped and a larger one takes over what a smaller one found.
Conditions: `direct` (the untrained drafter by the direct map alone, the paper's SpD_DM), `cache` (with the n-gram
cache), each loss (with the cache, learned from the stream), and `offline` (the same answers distilled to convergence).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from omnidraft.bench.columns import Column, name_of
from omnidraft.bench.learn_answers import answered, taken_over
from omnidraft.bench.learn_plan import LearnPlan, Prompts, choose, label
from omnidraft.bench.learn_stream import distil, live
from omnidraft.bench.learn_tester import Tester
from omnidraft.errors import SettingsError, StorageError
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.offline import Answering
from omnidraft.learning.material.record import Record
from omnidraft.learning.training.stream import StreamLearner, quiet_torch
from omnidraft.storage.files import write_atomically
from omnidraft.vocab.ngram_cache import NgramCache

DIRECT, CACHE, OFFLINE, SEQUENCE = "direct", "cache", "offline", "sequence"
REFERENCE_LOSS = "projected"
Result = dict  # a condition's JSON object
Told = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One target, task (or SEQUENCE) and seed. folder: where its numbers, answers and adapters are."""

    target: str
    task: str
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.target} {self.task} seed {self.seed}"


def run(
    plan: LearnPlan, folder: Path, maps: Path, told: Told = lambda _line: None
) -> Iterator[tuple[Cell, str, Result]]:
    """(cell, condition, result) of the whole plan, those of earlier runs in `folder` included. maps: for pair maps."""
    _same_plan(plan, folder)
    quiet_torch(plan.threads)
    for seed in range(plan.seeds):
        for target in plan.targets:
            for task in plan.tasks:
                cell = Cell(target.stem, label(task), seed, folder / f"{target.stem}-{label(task)}-s{seed}")
                yield from _Runner(plan, target, cell, [choose(plan, task, seed)], maps, told).results()
            if plan.sequence:
                cell = Cell(target.stem, SEQUENCE, seed, folder / f"{target.stem}-{SEQUENCE}-s{seed}")
                every = [choose(plan, task, seed) for task in plan.tasks]
                yield from _Runner(plan, target, cell, every, maps, told).results()


class _Runner:
    """Runs one cell. Models and answers are loaded when the first missing condition needs them."""

    def __init__(
        self, plan: LearnPlan, target: Path, cell: Cell, prompts: Sequence[Prompts], maps: Path, told: Told
    ) -> None:
        self.plan, self.target, self.cell, self.prompts, self.maps, self.told = plan, target, cell, prompts, maps, told
        self._tester: Tester | None = None

    def results(self) -> Iterator[tuple[Cell, str, Result]]:
        wanted = [DIRECT, CACHE, *self.plan.losses]
        if self.plan.reference and len(self.prompts) == 1:
            wanted.insert(3, OFFLINE)
        self._same_prompts()
        try:
            for condition in wanted:
                path = self.cell.folder / f"{condition}.json"
                if not path.exists():
                    self.told(f"{self.cell.name}: {condition}")
                    self._prepare()
                    result = self._condition(condition)
                    write_atomically(path, json.dumps(result).encode())
                yield self.cell, condition, json.loads(path.read_bytes())
        finally:
            if self._tester is not None:
                self._tester.close()

    def _same_prompts(self) -> None:
        """Refuse to take over a cell that was made on other prompts."""
        path = self.cell.folder / "prompts"
        mine = " ".join(part.digest for part in self.prompts)
        made = any(self.cell.folder.glob("*.json"))
        if made and (not path.is_file() or path.read_text() != mine):
            raise SettingsError(f"{self.cell.folder} holds a run on other prompts; name another --json file.")
        self.cell.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, mine.encode())

    def _prepare(self) -> None:
        if self._tester is not None:
            return
        folder, plan = self.cell.folder, self.plan
        folder.mkdir(parents=True, exist_ok=True)
        self.records: list[Record] = []
        self._ends: list[int] = []
        with Answering(self.target, plan.drafter, self.maps, plan.threads) as answering:
            for part in self.prompts:
                path = folder.with_name(f"{self.target.stem}-{part.task}-s{self.cell.seed}-{part.digest}.answers")
                if self.plan.recorded and not path.exists() and taken_over(path, self.plan.recorded, self._made_with()):
                    self.told(f"{self.cell.name}: answers taken from {self.plan.recorded}")
                self.records += answered(
                    path, answering, part.train, part.task, plan.train_temperature, plan.train_tokens, self.cell.seed
                )
                self._ends.append(len(self.records))
            self.table = ExpansionTable.from_pair(answering.pair)
            self.vocabulary = answering.pair.target.fingerprint
        self.table.save(folder / "table.npz")
        self._tester = Tester(self.target, plan.drafter, self.maps, plan.threads)
        self.cache = self._tester.cache_after(self.records)

    def _made_with(self) -> dict:
        """What answers depend on besides their prompts."""
        decides = self.plan.decides()
        models = {name: digest for name, digest in decides["models"].items() if name == self.target.stem}
        return {"models": models} | {name: decides[name] for name in ("train_tokens", "train_temperature")}

    def _condition(self, condition: str) -> Result:
        if condition == DIRECT:
            return {"counts": self._counts(None, None)}
        if condition == CACHE:
            return {"counts": self._counts(self.cache, None), "cache": self.cache.stats()}
        adapter = self.cell.folder / f"{condition}.gguf"
        if condition == OFFLINE:
            learned = asdict(distil(
                self.plan.drafter, self.records, self.table, REFERENCE_LOSS, self.plan.learning, self.cell.seed,
                adapter, lambda n, value: self.told(f"  pass {n}: {value:.4f}"),
            ))  # fmt: skip
        else:
            learned = self._live(condition, adapter)
        return {"counts": self._counts(self.cache, adapter if adapter.exists() else None), **learned}

    def _live(self, loss: str, adapter: Path) -> Result:
        """Learn from the stream; test along the way. Leaves the last version's adapter at `adapter`."""
        folder = self.cell.folder / f"{loss}.run"
        shutil.rmtree(folder, ignore_errors=True)
        settings = replace(self.plan.learning, loss=loss)
        learner = StreamLearner(folder, self.plan.drafter, settings, seed=1000 * self.cell.seed)
        learner.switched(self.vocabulary, self.cell.target, {self.vocabulary: str(self.cell.folder / "table.npz")})
        updates, stops, served = [], self._stops(), None
        for update in live(learner, self.records):
            served = update.version.adapter if update.version else None
            kept = {k: v for k, v in asdict(update).items() if k != "version"}
            if update.answers in stops:
                kept["counts"] = self._counts(self.cache, served, self.plan.temperatures[:1])
                rates = [_rate(c) for by_task in kept["counts"].values() for c in by_task.values()]
                self.told(f"  {update.answers} answers: " + "  ".join(f"{rate:.3f}" for rate in rates))
            updates.append(kept)
        if served is not None:
            shutil.copyfile(served, adapter)
        shutil.rmtree(folder)
        return {"updates": updates, **{k: sum(u[k] for u in updates) for k in ("seconds", "cpu")}}

    def _stops(self) -> set[int]:
        """Numbers of answers after which to test: the ends of tasks in a sequence, doublings in a single stream."""
        step, total = self.plan.learning.interval, len(self.records)
        if len(self._ends) > 1:
            return {min(-(-end // step) * step, total) for end in self._ends}
        return {step << i for i in range(total.bit_length()) if step << i < total} if self.plan.curve else set()

    def _counts(self, cache: NgramCache | None, adapter: Path | None, temperatures: Sequence[Column] = ()) -> dict:
        """{temperature: {task: [[proposed, accepted, tokens, passes, looped], ...]}}."""
        assert self._tester is not None  # `with` has opened it
        ask = self._tester.ask
        return {
            name_of(t): {
                part.task: [
                    astuple(count)
                    for count in ask(part.test, t, self.plan.test_tokens, self.cell.seed + 7, cache, adapter)
                ]
                for part in self.prompts
            }
            for t in temperatures or self.plan.temperatures
        }


def _rate(counts: Sequence[Sequence[int]]) -> float:
    return sum(c[1] for c in counts) / max(sum(c[0] for c in counts), 1)


def _same_plan(plan: LearnPlan, folder: Path) -> None:
    """Refuse to mix numbers of different plans in one folder. New models may join those there are."""
    path, asked = folder / "plan.json", plan.decides()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_bytes()) if path.exists() else asked
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be used: {error}") from error
    models = before["models"] | asked["models"]
    differ = [name for name in asked if name != "models" and before.get(name) != asked[name]]
    differ += [name for name in before["models"] if models[name] != before["models"][name]]
    if differ:
        raise SettingsError(f"{folder} holds a run with other {', '.join(differ)}; name another --json file.")
    write_atomically(path, json.dumps(asked | {"models": models}, indent=1).encode())
