"""`bench first-session`: what a new user meets, in a fresh data home with default settings, updates included.

One topic is asked for a while, a conversation a prompt, as somebody would who waits for the learner where it is due.
Every answer is paired with plain decoding of the same prompt and seed, and with drafting that may not copy earlier
text; the three take turns in going first, each from empty KV caches. Only the answer with default settings is learned
from. The home is a temporary folder: nothing of the caller's is read or changed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench.pairs import engine_of
from omnidraft.bench.plans import FirstSession
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Told, Work
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab import statistics as stats
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import PLAIN, drafter_acceptance, per_token, trained
from omnidraft.lab.topics import parted, topic_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import SamplingSettings, changed
from omnidraft.storage.paths import find_data_home

WAYS = ("plain", "drafted", "default")  # drafted: by the drafter alone, without copies; default: as the app does
LONG = 100  # tokens


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


def run(plan: FirstSession, work: Work) -> Iterator[Report]:
    """Live the session; one report at its end."""
    target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
    learned_from, after = parted(topic_prompts(plan.topic), plan.prompts, plan.after)
    begun, session = time.monotonic(), Session()
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as folder, closing(
        Assistant(find_data_home(folder), learn=True)
    ) as assistant:  # fmt: skip
        assistant.learner.machine.busy = 2.0  # what is measured is not when others leave room
        assistant.settings = changed(assistant.settings, **{"learning.minutes_per_hour": 10_000.0})
        assistant.load(target, drafter, replace(assistant.settings.model, threads=plan.threads))
        session.lived += _live(assistant, plan, learned_from, 0, work.told)
        session.lived += _live(assistant, plan, after, len(learned_from), work.told, learning=False)
        session.updates = assistant.learner.learned.history()[::-1]
        session.seconds = time.monotonic() - begun
    yield report(plan, target, drafter, session)


def _live(
    assistant: Assistant, plan: FirstSession, prompts: Sequence[Prompt], first: int, told: Told, learning: bool = True
) -> Iterator[Lived]:
    """Answer the prompts; with `learning` wait after each for the update that is due."""
    for number, prompt in enumerate(prompts, first):
        lived = _answers(assistant, plan, prompt, number)
        told(_line(lived))
        yield lived
        if learning:
            _wait(assistant, told)


def _answers(assistant: Assistant, plan: FirstSession, prompt: Prompt, number: int) -> Lived:
    version = assistant.learner.status().served or ""
    settings = assistant.settings
    drafts = {"plain": PLAIN, "drafted": replace(settings.draft, lookup=False), "default": settings.draft}
    turn, traces = number % len(WAYS), {}
    sampling: SamplingSettings = replace(settings.sampling, seed=plan.seed + number)
    for way in WAYS[turn:] + WAYS[:turn]:
        engine_of(assistant).forget()
        chat = f"first-session-{number}" if way == "default" else None
        request = AnswerRequest(prompt.messages, sampling, drafts[way], source=chat, capture=assistant.capture)
        traces[way] = record(assistant.answer(request))
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


def report(plan: FirstSession, target: Path, drafter: Path, session: Session) -> Report:
    """Speedups are medians over answers of plain decoding's time a token over the way's."""
    bare = [one for one in session.lived[: plan.prompts] if not one.version]
    after = session.lived[plan.prompts :]
    groups = {
        "untrained": (bare, "drafted"),
        "untrained_with_copies": (bare, "default"),
        "learned": (after, "drafted"),
        "learned_with_copies": (after, "default"),
    }
    speedups = {name: _median(lived, way) for name, (lived, way) in groups.items()}
    per_pass = {name: _per_pass(lived, way) for name, (lived, way) in groups.items()}
    accepted = {name: drafter_acceptance([one.traces["drafted"] for one in lived])
                for name, lived in (("untrained", bare), ("learned", after))}  # fmt: skip
    long = [one.speedup("default") for one in session.lived if one.traces["default"].tokens > LONG]
    values = {
        "target": target.stem, "drafter": drafter.stem, "topic": plan.topic, "cores": os.cpu_count(),
        "seconds": round(session.seconds, 1),
        **{name: value and value.mean for name, value in speedups.items()},
        "intervals": {name: value and (value.low, value.high) for name, value in speedups.items()},
        "answers": {"untrained": len(bare), "learned": len(after)},
        "acceptance": accepted, "tokens_per_pass": per_pass,
        "tokens_per_second": {way: _rate(session.lived, way) for way in WAYS},
        "version": after[-1].version if after else "",
        "updates": [
            {"outcome": u.outcome, "answers": u.answers_new, "cpu_seconds": round(u.cpu_seconds, 2),
             "seconds": round(u.seconds, 2)} for u in session.updates
        ],
        "update_cpu_seconds": round(sum(u.cpu_seconds for u in session.updates), 2),
        "same_text": sum(one.same for one in session.lived),
        "lowest_long_answer": min(long, default=None),
        "each": [
            {"number": one.number, "tokens": one.traces["default"].tokens, "version": one.version,
             "drafted": round(one.speedup("drafted"), 3), "default": round(one.speedup("default"), 3)}
            for one in session.lived
        ],
    }  # fmt: skip
    rows = [[name.replace("_", " "), speedups[name], per_pass[name], accepted.get(name)] for name in groups]
    said = (f"{values['same_text']} of {len(session.lived)} texts the same; {len(session.updates)} updates, "
            f"{values['update_cpu_seconds']:.0f} CPU seconds, {session.seconds:.0f} s")  # fmt: skip
    return Report(values, [Table("", ["", "speedup [95%]", "tokens/pass", "accepted"], rows)], [said])


def _median(lived: Sequence[Lived], way: str) -> stats.Value | None:
    return stats.median([one.speedup(way) for one in lived]) if lived else None


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
