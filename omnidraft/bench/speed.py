"""`bench speed`: methods against plain decoding, interleaved prompt by prompt in one run.

Every method answers the same distinct prompts with the same seeds on the same loaded models, from cold KV caches, and
keeps its own memory of costs, acceptance and earlier texts. Speed is compared within the run only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.prompting.prompted_model import Message, PromptedDrafter
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench import regimes
from omnidraft.bench.cells import Cell, Costs, make_cell
from omnidraft.bench.columns import Column, sampling_of
from omnidraft.bench.counted import count_fixed
from omnidraft.bench.opened import drafting_of, engine_of, pair_of
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import load_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import Translator
from omnidraft.vocab.ngram_cache import NgramCache

_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. drafters: "given", "random" or both; temperatures: columns; tasks, methods, regimes by name.

    compared: fixed draft lengths that the adaptive methods are held against by counting. repeats: of the whole; of each
    prompt the one with the median speedup counts, so that what interrupts a single answer does not. drafter_shape: what
    the drafter is enlarged to where the target is, "own" for the drafter as it is, None for the regime's.
    """

    tasks: Sequence[str]
    methods: Sequence[str]
    temperatures: Sequence[Column]
    regimes: Sequence[str]
    drafters: Sequence[str] = ("given",)
    prompts: int = 6
    max_tokens: int = 64
    seed: int = 0
    model: ModelSettings = field(default_factory=ModelSettings)
    compared: Sequence[int] = ()
    repeats: int = 1
    drafter_shape: str | None = None


class Way(NamedTuple):
    """A method with a drafter; plain decoding has none, but goes by the given one's name."""

    drafter: str
    method: str


Traces = dict[tuple[Column, str], dict[Way, list[Trace]]]  # by temperature and task; one trace a prompt


def draft_settings(method: str) -> DraftSettings:
    """plain, lookup, fixed:K, gamma:X, adaptive, or adaptive-alone (without lookups)."""
    name, _, value = method.partition(":")
    try:
        match name:
            case "plain":
                return DraftSettings(enabled=False)
            case "lookup":
                return DraftSettings(mode="lookup")
            case "fixed":
                return DraftSettings(mode="fixed", length=int(value))
            case "gamma":
                return DraftSettings(mode="gamma", gamma=float(value))
            case "adaptive":
                return DraftSettings(mode="adaptive")
            case "adaptive-alone":
                return DraftSettings(mode="adaptive", lookup=False)
    except ValueError:
        pass
    raise SettingsError(f"There is no method {method}; known are plain, lookup, fixed:K, gamma:X, adaptive.")


def run(home: DataHome, plan: Plan, targets: Sequence[Path], drafter: Path) -> Iterator[Cell]:
    """Cells as a pair of models in a regime is finished, in the order regime, target, temperature, task."""
    for method in plan.methods:
        draft_settings(method)
    for regime in plan.regimes:
        for target in targets:
            yield from _pair(home, plan, target, regime, drafter)


def _pair(home: DataHome, plan: Plan, target: Path, regime: str, drafter: Path) -> Iterator[Cell]:
    with ExitStack() as stack:
        assistant = Assistant(home, ephemeral=True)
        stack.callback(assistant.close)
        enlarged, given = regimes.models(home, regime, target, drafter, plan.drafter_shape)
        assistant.load(enlarged, given, plan.model, CacheSettings())
        seats = {"given": drafting_of(assistant)}
        if "random" in plan.drafters:
            _, random = regimes.models(home, regime, target, regimes.untaught(home, drafter), plan.drafter_shape)
            seats["random"] = _second_drafter(assistant, random, plan.model.threads, stack)
        bench = _Bench(assistant, plan, seats)
        yield from _cells(bench, plan, (target.stem, regime), [bench.run() for _ in range(plan.repeats)])


def _second_drafter(
    assistant: Assistant, path: Path, threads: int, stack: ExitStack
) -> tuple[PromptedDrafter, Translator]:  # fmt: skip
    """Another drafter with the loaded one's vocabulary, and a cache of its own."""
    model = LlamaDrafter.open(path, ModelSettings(threads=threads))
    stack.callback(model.close)
    cache = NgramCache.open(None, pair_of(assistant), CacheSettings())
    stack.callback(cache.close)
    seat = PromptedDrafter(model, ChatTemplate.from_model(model.info, model.vocabulary), [])
    return seat, Translator(pair_of(assistant), cache)


def _cells(bench: _Bench, plan: Plan, labels: tuple[str, str], runs: Sequence[Traces]) -> Iterator[Cell]:
    everything = [t for run in runs for found in run.values() for way in found.values() for t in way]
    costs = Costs.of(everything, bench.measured)
    for temperature, task in runs[0]:
        found = [run[temperature, task] for run in runs]
        for way in found[0]:
            plain, own = typical([f[bench.plain] for f in found], [f[way] for f in found])
            fixed = None
            if plan.compared and way.method.startswith("adaptive") and way.drafter == "given":
                fixed = bench.fixed(task, temperature, plain)
            yield make_cell((*labels, way.drafter, task, temperature, way.method), plain, own, costs, fixed)


def typical(plain: Sequence[Sequence[Trace]], own: Sequence[Sequence[Trace]]) -> tuple[list[Trace], list[Trace]]:
    """Of each prompt's repeats (by repeat, then prompt) the pair whose ratio is the median of all."""
    chosen = []
    for pairs in zip(*(zip(p, o, strict=True) for p, o in zip(plain, own, strict=True)), strict=True):
        ordered = sorted(pairs, key=lambda pair: pair[0].decode / pair[1].decode)
        chosen.append(ordered[(len(ordered) - 1) // 2])
    return [p for p, _ in chosen], [o for _, o in chosen]


class _Bench:
    """Runs prompts through every method on one loaded target."""

    plain = Way("given", "plain")

    def __init__(self, assistant: Assistant, plan: Plan, seats: dict[str, tuple[PromptedDrafter, Translator]]) -> None:
        self._assistant = assistant
        self._plan = plan
        self._seats = seats
        drafted = [Way(d, m) for d in plan.drafters for m in plan.methods if m != "plain"]
        self._ways = [self.plain, *dict.fromkeys(drafted)]
        self.measured = engine_of(assistant).measured()
        self._memories: dict[Way, Memory] = {}

    def run(self) -> Traces:
        """Every prompt once with every way and sampling, each with a fresh memory: one that holds a prompt's answer at
        another temperature has something to copy."""
        traces: Traces = {}
        for temperature in self._plan.temperatures:
            self._memories = {way: Memory.with_cost(self.measured.copy()) for way in self._ways}
            self._warm_up(temperature)
            for task in self._plan.tasks:
                traces[temperature, task] = self._task(task, temperature)
        return traces

    def _warm_up(self, temperature: Column) -> None:
        for task in self._plan.tasks[:_WARM_UP]:
            prompt = load_prompts(task, split="train", limit=1)[0]
            for way in self._ways:
                self._answer(prompt.messages, way, self._sampling(temperature, 1))

    def _task(self, task: str, temperature: Column) -> dict[Way, list[Trace]]:
        """Traces by way, one a prompt, ways in turning order so that none is always first."""
        traces: dict[Way, list[Trace]] = {way: [] for way in self._ways}
        for number, prompt in enumerate(self._prompts(task)):
            turn = number % len(self._ways)
            for way in self._ways[turn:] + self._ways[:turn]:
                traces[way].append(self._answer(prompt.messages, way, self._sampling(temperature, number)))
        return traces

    def fixed(self, task: str, temperature: Column, plain: Sequence[Trace]) -> dict[int, list[Trace]]:
        """What the compared draft lengths would have done with the answers that plain decoding gave."""
        answers = [
            (prompt.messages, self._sampling(temperature, number), trace.ids)
            for number, (prompt, trace) in enumerate(zip(self._prompts(task), plain, strict=True))
        ]
        return count_fixed(self._assistant, *self._seats["given"], answers, self._plan.compared)

    def _prompts(self, task: str):
        return load_prompts(task, split="test", limit=self._plan.prompts)

    def _sampling(self, temperature: Column, number: int) -> SamplingSettings:
        return sampling_of(temperature, seed=self._plan.seed + number, max_tokens=self._plan.max_tokens)

    def _answer(self, messages: Sequence[Message], way: Way, sampling: SamplingSettings) -> Trace:
        engine = engine_of(self._assistant)
        seat, translator = self._seats[way.drafter]
        engine.pair_drafter(seat.model, seat.template, translator)
        engine.forget()
        engine.memory = self._memories[way]
        return record(self._assistant.answer(AnswerRequest(messages, sampling, draft_settings(way.method))))
