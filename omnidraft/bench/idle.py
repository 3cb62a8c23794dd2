"""`bench idle`: what learning costs the one who waits: pauses, and generation beside it.

Works in a data home of its own, with an adapter trained there.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from omnidraft.app.assistant import Assistant
from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import regimes
from omnidraft.bench.plans import Idle
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work
from omnidraft.decoding.events import Finished
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.storage.paths import DataHome, find_data_home

Facts = dict[str, object]
ANSWERS = 16
_DRAFT = DraftSettings(mode="fixed", length=4)


def run(plan: Idle, work: Work) -> Iterator[Report]:
    """An update, and then answers beside what learns on from it."""
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as own:
        target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
        shop = Workshop(work.home, find_data_home(own), target, drafter, plan.threads)
        work.told("train")
        found = [{"what": "train"} | shop.train(pauses=10)]
        yield _report(found)
        work.told("slowdown")
        found.append({"what": "slowdown"} | slowdown(shop, plan.regime, plan.pairs, plan.max_tokens))
        yield _report(found)


def _report(found: Sequence[Facts]) -> Report:
    rows = [[one["what"], "  ".join(f"{k} {v}" for k, v in one.items() if k != "what")] for one in found]
    return Report(found, [Table("", ["", "milliseconds unless named otherwise"], rows)])


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

    def train(self, pauses: int) -> Facts:
        """What an update of the bundled drafter takes, paused again and again on its way."""
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
            last, gone = learner.status().last, not psutil.pid_exists(process.pid)
        if last is None:
            raise ModelError("The update came to nothing, so its cost was not measured.")
        return {
            "pauses": len(waits), "pause_ms": round(1e3 * max(waits, default=0.0), 2), "peak_mb": last.peak_mb,
            "gone_after": gone, "cpu_seconds": last.cpu_seconds, "loss": (last.losses[0], last.losses[-1]),
        }  # fmt: skip


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
