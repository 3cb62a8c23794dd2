"""`bench first-session`: what a new user meets, in a fresh data home with default settings, updates included.

One topic is asked for a while, a conversation a prompt, as somebody would who waits for the learner where it is due.
Every answer is paired with plain decoding of the same prompt and seed, and with drafting that may not copy earlier
text; the three take turns in going first, each from empty KV caches. Only the answer with default settings is learned
from. The home is a temporary folder: nothing of the caller's is read or changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.bench.opened import engine_of
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import PLAIN, drafter_acceptance, median_interval, per_token, trained
from omnidraft.lab.topics import parted, topic_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import find_data_home

WAYS = ("plain", "drafted", "default")  # drafted: by the drafter alone, without copies; default: as the app does
BUSY_ANSWERS = 10
SETTLED = 20  # answers after which the busy processes' traces must be gone
LONG = 100  # tokens
Told = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """prompts: asked while the drafter learns; after: asked behind that; busy: processes that compute beside the first
    ten answers. threads: 0 as the app chooses."""

    target: Path
    drafter: Path
    topic: str = "math"
    prompts: int = 40
    after: int = 20
    busy: int = 0
    seed: int = 0
    threads: int = 0


@dataclass(slots=True)
class Lived:
    """One prompt with its three answers, and the version that drafted them ("" for the bare drafter)."""

    number: int
    version: str
    traces: dict[str, Trace]
    same: bool

    def speedup(self, way: str) -> float:
        return per_token(self.traces["plain"]) / per_token(self.traces[way])


@dataclass(slots=True)
class Session:
    """What was lived so far. updates: facts of each, the oldest first."""

    lived: list[Lived] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)
    seconds: float = 0.0


def run(plan: Plan, told: Told = lambda _line: None) -> dict[str, Any]:
    """Live the session and report it as one JSON object."""
    learned_from, after = parted(topic_prompts(plan.topic), plan.prompts, plan.after)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as folder, ExitStack() as closing:
        assistant = Assistant(find_data_home(folder), learn=True)
        closing.callback(assistant.close)
        model = replace(assistant.settings.model, threads=plan.threads)
        assistant.load(plan.target, plan.drafter, model)
        session = Session()
        for lived in _live(assistant, plan, learned_from, 0, told):
            session.lived.append(lived)
        for lived in _live(assistant, plan, after, len(learned_from), told, learning=False):
            session.lived.append(lived)
        session.updates = assistant.learner.learned.history()[::-1]
        session.seconds = time.monotonic() - begun
    return report(plan, session)


def _live(
    assistant: Assistant, plan: Plan, prompts: Sequence[Prompt], first: int, told: Told, learning: bool = True
) -> Iterator[Lived]:
    """Answer the prompts; with `learning` wait after each for the update that is due."""
    with ExitStack() as closing:
        if plan.busy and learning:
            closing.enter_context(busy_processes(plan.busy))
        for number, prompt in enumerate(prompts, first):
            if number == BUSY_ANSWERS:
                closing.close()
            lived = _answers(assistant, plan, prompt, number)
            told(_line(lived))
            yield lived
            if learning:
                _wait(assistant, told)


def _answers(assistant: Assistant, plan: Plan, prompt: Prompt, number: int) -> Lived:
    version = assistant.learner.status().served or ""
    settings = assistant.settings
    drafts = {"plain": PLAIN, "drafted": replace(settings.draft, lookup=False), "default": settings.draft}
    turn, traces = number % len(WAYS), {}
    sampling: SamplingSettings = replace(settings.sampling, seed=plan.seed + number)
    for way in WAYS[turn:] + WAYS[:turn]:
        engine_of(assistant).forget()
        chat = f"first-session-{number}" if way == "default" else None
        traces[way] = record(
            assistant.answer(
                AnswerRequest(prompt.messages, sampling, drafts[way], source=chat, capture=assistant.capture)
            )
        )
    same = all(trace.ids == traces["plain"].ids for trace in traces.values())
    return Lived(number, version, traces, same)


def _wait(assistant: Assistant, told: Told) -> None:
    """Idle time: until an update that is due is over, and what it made is in use."""
    learner, before = assistant.learner, assistant.learner.status().last
    time.sleep(0.1)  # the answer is put into the replay behind its end
    status = learner.status()
    if status.waiting < status.interval:
        return
    for _ in trained(learner, force=False):
        pass
    status = learner.status()
    if status.last is not None and status.last != before:
        told(f"update {status.last.number}: {status.last.outcome}, {status.last.cpu_seconds:.1f} CPU seconds")


_BUSY = """import os
parent = os.getppid()
while os.getppid() == parent:  # not for ever, if who began it is killed
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """`count` processes that take what they get of the processor, until the end of the block."""
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def report(plan: Plan, session: Session) -> dict[str, Any]:
    """The figures. Speedups are medians over answers of plain decoding's time a token over the way's."""
    bare = [one for one in session.lived[: plan.prompts] if not one.version]
    after = session.lived[plan.prompts :]
    groups = {
        "untrained": (bare, "drafted"),
        "untrained_with_copies": (bare, "default"),
        "learned": (after, "drafted"),
        "learned_with_copies": (after, "default"),
    }
    return {
        "target": plan.target.stem, "drafter": plan.drafter.stem, "topic": plan.topic, "cores": os.cpu_count(),
        "busy": plan.busy, "seconds": round(session.seconds, 1),
        **{name: _median(lived, way) for name, (lived, way) in groups.items()},
        "intervals": {name: _interval(lived, way) for name, (lived, way) in groups.items()},
        "answers": {"untrained": len(bare), "learned": len(after)},
        "acceptance": {"untrained": _acceptance(bare), "learned": _acceptance(after)},
        "tokens_per_pass": {name: _per_pass(lived, way) for name, (lived, way) in groups.items()},
        "tokens_per_second": {way: _rate(session.lived, way) for way in WAYS},
        "version": after[-1].version if after else "",
        "updates": [
            {"outcome": u.outcome, "answers": u.answers_new, "cpu_seconds": round(u.cpu_seconds, 2),
             "seconds": round(u.seconds, 2)} for u in session.updates
        ],
        "update_cpu_seconds": round(sum(u.cpu_seconds for u in session.updates), 2),
        "same_text": sum(one.same for one in session.lived),
        "from_answer_20": _median(session.lived[SETTLED:], "default"),
        "lowest_long_answer": min(
            (one.speedup("default") for one in session.lived if one.traces["default"].tokens > LONG), default=None
        ),
        "each": [
            {"number": one.number, "tokens": one.traces["default"].tokens, "version": one.version,
             "drafted": round(one.speedup("drafted"), 3), "default": round(one.speedup("default"), 3)}
            for one in session.lived
        ],
    }  # fmt: skip


def _median(lived: Sequence[Lived], way: str) -> float | None:
    return median(one.speedup(way) for one in lived) if lived else None


def _interval(lived: Sequence[Lived], way: str) -> tuple[float, float] | None:
    return median_interval([one.speedup(way) for one in lived]) if lived else None


def _acceptance(lived: Sequence[Lived]) -> float | None:
    """Of the drafter's own proposals."""
    return drafter_acceptance([one.traces["drafted"] for one in lived])


def _per_pass(lived: Sequence[Lived], way: str) -> float | None:
    rounds = [r for one in lived for r in one.traces[way].rounds]
    return sum(r.emitted for r in rounds) / len(rounds) if rounds else None


def _rate(lived: Sequence[Lived], way: str) -> float | None:
    return 1 / per_token(*[one.traces[way] for one in lived]) if lived else None


def _line(lived: Lived) -> str:
    return (
        f"answer {lived.number + 1}: {lived.traces['default'].tokens} tokens, drafted x{lived.speedup('drafted'):.2f}, "
        f"with copies x{lived.speedup('default'):.2f}, {lived.version or 'bare drafter'}"
    )


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The report for people."""
    for name in ("untrained", "learned", "learned_with_copies"):
        low, high = found["intervals"][name] or (float("nan"), float("nan"))
        value = found[name]
        shown = "-" if value is None else f"x{value:.2f} [{low:.2f}, {high:.2f}]"
        yield f"{name.replace('_', ' '):20} {shown}"
    rates = [found["acceptance"][name] for name in ("untrained", "learned")]
    yield "acceptance           " + " -> ".join("-" if rate is None else f"{rate:.3f}" for rate in rates)
    yield f"{len(found['updates'])} updates, {found['update_cpu_seconds']:.0f} CPU seconds, {found['seconds']:.0f} s"
