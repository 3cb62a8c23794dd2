"""`bench idle`: what learning costs the one who waits: pauses, swaps, and generation beside it.

Works in a data home of its own, with an adapter trained there, expanded to the shape that is measured.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from omnidraft.app.assistant import Assistant
from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.backends.gguf.expand import SHAPES, expanded_adapter, expanded_model
from omnidraft.bench import regimes
from omnidraft.bench.plans import Idle
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work
from omnidraft.decoding.events import Finished
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import load_prompts
from omnidraft.learning.adapters.merge import write_merged
from omnidraft.learning.adapters.store import open_store
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Version, model_fingerprint
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.storage.paths import DataHome, find_data_home
from omnidraft.vocab import PairMap

Facts = dict[str, object]
ANSWERS = 16
PARTS = ("train", "swaps", "slowdown")
_DRAFT = DraftSettings(mode="fixed", length=4)
_SHAPE = "68m"


def run(plan: Idle, work: Work) -> Iterator[Report]:
    """The parts one after another, all with what was learned at the beginning."""
    if unknown := [name for name in plan.what if name not in PARTS]:
        raise SettingsError(f"There is no part {unknown[0][:40]}; known are {', '.join(PARTS)}.")
    found: list[Facts] = []
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as own:
        target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
        shop = Workshop(work.home, find_data_home(own), target, drafter, plan.threads)
        work.told("train")
        version, trained = shop.train(pauses=10)
        parts: dict[str, Callable[[], Facts]] = {
            "train": lambda: trained,
            "swaps": lambda: swaps(shop, version),
            "slowdown": lambda: slowdown(shop, plan.regime, plan.pairs, plan.max_tokens),
        }
        for name in plan.what:
            work.told(name)
            found.append({"what": name} | parts[name]())
            rows = [[one.pop("what"), "  ".join(f"{k} {v}" for k, v in one.items())] for one in map(dict, found)]
            yield Report(found, [Table("", ["", "milliseconds unless named otherwise"], rows)])


class Workshop:
    """A profile in which the bundled drafter has learned once. home: for expanded models; own: the profile's."""

    def __init__(self, home: DataHome, own: DataHome, target: Path, drafter: Path, threads: int) -> None:
        self.home, self.own, self.target, self.drafter = home, own, target, drafter
        self.model = ModelSettings(threads=threads, n_ctx=1024)
        self.prompts = load_prompts("math")

    @contextmanager
    def assistant(self, target: Path, drafter: Path) -> Iterator[Assistant]:
        assistant = Assistant(self.own, learn=True)
        settings = {"learning.interval": ANSWERS, "learning.cpu_percent": 50, "learning.keep_minutes": 0.0,
                    "learning.minutes_per_hour": 10_000.0}  # fmt: skip
        assistant.learner.machine.busy = 2.0
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
        request = AnswerRequest(messages, sampling, _DRAFT, source=f"bench-{number}", capture=assistant.capture)
        *_, finished = assistant.answer(request)
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


def swaps(shop: Workshop, version: Version, times: int = 12) -> Facts:
    """Milliseconds for which an answer would have to wait while the app swaps versions of a 68M drafter."""
    drafter, adapter = _expanded(shop, version)
    taken: dict[str, list[float]] = {"adapter": [], "merged": []}
    with shop.assistant(shop.target, drafter) as assistant:
        assistant.learner.hold()
        store = open_store(
            shop.own.profile().adapters, drafter, model_fingerprint(drafter), _pair(assistant).target.fingerprint
        )
        for _ in range(2):
            meta = replace(version.meta, parent=None, chats=())
            store.publish({ADAPTER: adapter.read_bytes(), WEIGHTS: version.weights.read_bytes()}, meta)
        for i in range(times):
            for name in ("v000001", "v000002"):
                store.choose(name)
                if i == times // 2:  # from here on as merged files
                    choice = assistant.loaded.choose(drafter, _pair(assistant), "auto", "per-target")
                    assert choice.adapter is not None
                    assert choice.merged is not None
                    write_merged(drafter, choice.adapter, choice.merged)
                made = assistant.loaded.prepare("per-target")
                assert made is not None
                began = time.perf_counter()
                assistant.loaded.take_up(made)
                taken["merged" if made.choice.is_merged else "adapter"].append(time.perf_counter() - began)
                made.close()
    return {**{f"{name}_ms": _ms(max(values, default=0.0)) for name, values in taken.items()},
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


def _pair(assistant: Assistant) -> PairMap:
    assert assistant.loaded.pair is not None  # it was loaded with a drafter
    return assistant.loaded.pair


def _expanded(shop: Workshop, version: Version) -> tuple[Path, Path]:
    shape = SHAPES[_SHAPE]
    drafter = expanded_model(shop.home.cache, shop.drafter, shape, regimes.DRAFTER_DTYPE)
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
