"""What learning costs the one who waits: pauses, swaps, drafter steps with an adapter, and generation beside it.

Works in a data home of its own, with an adapter trained there, expanded to the shape that is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from omnidraft.app.assistant import Assistant
from omnidraft.backends.gguf.expand import SHAPES, expanded_adapter, expanded_model
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.bench import regimes
from omnidraft.bench.opened import pair_of
from omnidraft.decoding.events import Finished
from omnidraft.decoding.measure import step_seconds
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from omnidraft.lab.prompts import load_prompts
from omnidraft.learning.adapters.merge import write_merged
from omnidraft.learning.adapters.store import open_store
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Version, model_fingerprint
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.storage.paths import DataHome

Facts = dict[str, object]
ANSWERS = 16
_DRAFT = DraftSettings(mode="fixed", length=4)
_SHAPE = "68m"


class Workshop:
    """A profile in which the bundled drafter has learned once. home: for expanded models; own: the profile's."""

    def __init__(self, home: DataHome, own: DataHome, target: Path, drafter: Path, threads: int) -> None:
        self.home, self.own, self.target, self.drafter = home, own, target, drafter
        self.model = ModelSettings(threads=threads, n_ctx=1024)
        self.prompts = load_prompts("math")

    @contextmanager
    def assistant(self, target: Path, drafter: Path) -> Iterator[Assistant]:
        assistant = Assistant(self.own, learn=True)
        settings = {"learning.interval": ANSWERS, "learning.cpu_percent": 50, "learning.keep_minutes": 0.0}
        assistant.settings = changed(assistant.settings, **settings)
        try:
            assistant.load(target, drafter, self.model)
            yield assistant
        finally:
            assistant.close()

    def ask(self, assistant: Assistant, number: int, tokens: int = 48) -> tuple[int, float]:
        """(tokens, wall seconds) of an answer."""
        began = time.perf_counter()
        sampling = SamplingSettings(temperature=0, max_tokens=tokens)
        messages = self.prompts[number % len(self.prompts)].messages
        *_, finished = assistant.answer(
            AnswerRequest(messages, sampling, _DRAFT, source=f"bench-{number}", capture=assistant.capture)
        )
        assert isinstance(finished, Finished)
        return finished.statistics.tokens, time.perf_counter() - began

    def train(self, pauses: int) -> tuple[Version, Facts]:
        """An update of the bundled drafter, paused again and again on its way: its version, and what it took."""
        with self.assistant(self.target, self.drafter) as assistant:
            learner, waits = assistant.learner, list[float]()
            for number in range(ANSWERS):
                self.ask(assistant, number)
            _until(lambda: learner.status().pid is not None)
            process = psutil.Process(learner.status().pid)
            _until(lambda: (update := learner.status().update) is not None and update.answers_new)
            while learner.status().pid is not None and len(waits) < pauses:
                waits.append(_pause(assistant, process))
                time.sleep(0.2)
            _until(lambda: learner.status().served)
            last, choice = learner.status().last, assistant.loaded.choice
            gone = not psutil.pid_exists(process.pid)
        version = choice.version if choice is not None else None
        if last is None or version is None:
            raise ModelError("The update came to nothing, so its cost was not measured.")
        return version, {
            "pauses": len(waits), "pause_ms": _ms(max(waits, default=0.0)), "peak_mb": last.peak_mb,
            "gone_after": gone, "cpu_seconds": last.cpu_seconds, "loss": (last.losses[0], last.losses[-1]),
        }  # fmt: skip


def steps(shop: Workshop, version: Version, dtype: str) -> Facts:
    """Milliseconds of a drafter step at the 68M shape: bare, with the adapter, merged; the fastest of many each."""
    drafter, adapter = _expanded(shop, version, dtype)
    merged = write_merged(drafter, adapter, shop.own.cache / "merged.gguf")
    times: dict[str, list[float]] = {}
    with LlamaDrafter.open(drafter, shop.model) as one, LlamaDrafter.open(merged, shop.model) as whole:
        for _ in range(12):
            for name, model, path in (("bare", one, None), ("adapter", one, adapter), ("merged", whole, None)):
                if model is one:
                    model.set_adapter(path)
                times.setdefault(name, []).append(step_seconds(model, 16))
    best = {name: _ms(min(values)) for name, values in times.items()}
    ratios = {f"{name}_ratio": round(best[name] / best["bare"], 3) for name in ("adapter", "merged")}
    return {"dtype": dtype, **best, **ratios}


def swaps(shop: Workshop, version: Version, dtype: str, times: int = 12) -> Facts:
    """Milliseconds for which an answer would have to wait while the app swaps versions of a 68M drafter."""
    drafter, adapter = _expanded(shop, version, dtype)
    taken: dict[str, list[float]] = {"adapter": [], "merged": []}
    with shop.assistant(shop.target, drafter) as assistant:
        assistant.learner.hold()
        store = open_store(
            shop.own.profile().adapters, drafter, model_fingerprint(drafter), pair_of(assistant).target.fingerprint
        )
        for _ in range(2):
            meta = replace(version.meta, parent=None, chats=())
            store.publish({ADAPTER: adapter.read_bytes(), WEIGHTS: version.weights.read_bytes()}, meta)
        for i in range(times):
            for name in ("v000001", "v000002"):
                store.choose(name)
                if i == times // 2:  # from here on as merged files
                    choice = assistant.loaded.choose(drafter, pair_of(assistant), "auto", "per-target")
                    assert choice.adapter is not None
                    assert choice.merged is not None
                    write_merged(drafter, choice.adapter, choice.merged)
                made = assistant.loaded.prepare("per-target")
                assert made is not None
                began = time.perf_counter()
                assistant.loaded.take_up(made)
                taken["merged" if made.choice.is_merged else "adapter"].append(time.perf_counter() - began)
                made.close()
    return {"dtype": dtype, **{f"{name}_ms": _ms(max(values, default=0.0)) for name, values in taken.items()},
            "swaps": {name: len(values) for name, values in taken.items()}}  # fmt: skip


def slowdown(shop: Workshop, regime: str, pairs: int, tokens: int) -> Facts:
    """Wall time of answers with learning on over the same with learning off, in turns, the order alternating.

    With learning on there is a training process, stopped while the answer is written, and answers are kept.
    """
    target, drafter = regimes.models(shop.home, regime, shop.target, shop.drafter)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with shop.assistant(target, drafter) as assistant:
        assistant.learner.waits.resume = 0.0
        for number in range(2):
            shop.ask(assistant, number, 8)
        for number in range(pairs):
            for on in (True, False) if number % 2 else (False, True):
                assistant.settings = changed(assistant.settings, **{"learning.enabled": on})
                shop.ask(assistant, number + 1, 4)  # the same cache state before both
                seconds[on].append(shop.ask(assistant, number, tokens)[1])
    ratios = [a / b for a, b in zip(seconds[True], seconds[False], strict=True)]
    return {"regime": regime, "pairs": pairs, "median_ratio": round(statistics.median(ratios), 4),
            "total_ratio": round(sum(seconds[True]) / sum(seconds[False]), 4),
            "fastest_ratio": round(min(seconds[True]) / min(seconds[False]), 4)}  # fmt: skip


def _expanded(shop: Workshop, version: Version, dtype: str) -> tuple[Path, Path]:
    shape = SHAPES[_SHAPE]
    drafter = expanded_model(shop.home.cache, shop.drafter, shape, dtype)
    return drafter, expanded_adapter(shop.home.cache, version.adapter, shop.drafter, shape)


def _pause(assistant: Assistant, process: psutil.Process) -> float:
    """Seconds from the beginning of an answer until the training process stands still."""
    began = time.perf_counter()
    assistant.learner.answer_begins()
    try:
        while process.is_running() and process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(0)
        return time.perf_counter() - began
    except psutil.NoSuchProcess:
        return 0.0
    finally:
        assistant.learner.answer_ends()


def _until(happened: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise ModelError("The training process did not get anywhere; is the machine busy?")
        time.sleep(0.02)


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 2)
