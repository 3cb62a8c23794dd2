"""A race as HTML: two lanes side by side, the proof of equal text, and two bars, before and after the lesson.

Pure functions of `omnidraft.app.race_state`; everything that comes from outside is escaped.
"""

from __future__ import annotations

import time
from html import escape

from omnidraft.app.race_job import RaceJob
from omnidraft.app.race_state import UNDER_WAY, LaneView, RaceView
from omnidraft.format import count, percent, rate
from omnidraft.lab.race import Score
from ui.common.words import tip

PHASES = {
    "loading": "Loading the models",
    "racing": "Racing",
    "teaching": "Teaching",
    "training": "Training",
    "raced": "Raced",
    "taught": "Raced, taught, raced again",
    "stopped": "Stopped",
    "failed": "Ended",
}
NAMES = {"plain": "Plain", "drafted": "Drafted"}
ABOUT = {"plain": "one token per pass", "drafted": "the drafter guesses, the same model checks"}
NOTABLE = 0.10  # of plain speed between two races
_SHOWN = 1500  # characters of an answer


def race(job: RaceJob | None) -> str:
    """The whole race, or what it would show."""
    if job is None:
        return '<p class="od-none">The same prompts are answered twice, plainly and drafted, with the same seeds.</p>'
    view = job.view
    parts = [_standing(job), _verdict(view), _bars(view), _proof(view), _lanes(view), _lesson(job)]
    return f'<section class="od-race" data-phase="{view.phase}">{"".join(parts)}</section>'


def _standing(job: RaceJob) -> str:
    view = job.view
    words = ", ".join(filter(None, (view.doing, _left(view)))) if view.phase in ("teaching", "training") else ""
    if view.phase == "racing":
        words = f"Prompt {view.number + 1} of {len(job.plan.raced)}: {view.prompt[:120]}"
    state = "training" if view.phase in UNDER_WAY else "idle"
    line = (
        f'<p class="od-state" data-state="{state}" role="status"><b>{PHASES[view.phase]}</b> '
        f"<span>{escape(words)}</span></p>"
    )
    if view.error:
        line += f'<p class="od-note od-bad" role="alert">{escape(view.error)}</p>'
    if view.phase not in UNDER_WAY:
        return line
    bar = f'<i style="width:{view.share:.1%}"></i>'
    return f'{line}<div class="od-bar" role="img" aria-label="{view.share:.0%}">{bar}</div>'


def _left(view: RaceView) -> str:
    """How long what is under way may still take, once that can be told."""
    if view.share < 0.05:
        return ""
    spent = time.monotonic() - view.since
    left = spent * (1 - view.share) / view.share
    return f"about {max(1, round(left))} s left" if left < 90 else f"about {round(left / 60)} min left"


def _verdict(view: RaceView) -> str:
    """The sum of all prompts in a sentence, above everything else."""
    found = view.after or view.before
    if found is None or view.phase in UNDER_WAY:
        return ""
    if found.interval is None:
        return '<p class="od-under">These are too few answers to say how much faster drafting is.</p>'
    low, high = found.interval
    words = (
        f"<b>{found.speedup:.2f}×</b> ({low:.2f} to {high:.2f}) as fast as {tip('plain decoding')}, over "
        f"{count(found.answers)} answers"
    )
    if view.after is not None and view.before is not None:
        words += f"; {view.before.speedup:.2f}× before the lesson, when {_right(view.before)}"
    if found.speedup < 1.0:
        words += f". Here guessing costs more than it saves, for {_right(found)}; in a chat it is left out then"
    return f'<p class="od-verdict">{words}.</p>{_changed(view)}'


def _right(found: Score) -> str:
    """How good the guesses were, which is why a race came out as it did."""
    return (
        "nothing was guessed" if found.acceptance is None else f"{percent(found.acceptance)} of the guesses were right"
    )


def _changed(view: RaceView) -> str:
    """Whether the machine itself was another one in the second race."""
    if view.before is None or view.after is None:
        return ""
    change = view.after.plain_speed / view.before.plain_speed - 1
    if abs(change) <= NOTABLE:
        return ""
    word = "faster" if change > 0 else "slower"
    return (
        f'<p class="od-under">Plain decoding itself was {percent(abs(change))} {word} in the second race: other '
        "programs were at work. Each bar compares answers of the same minutes; race again when it is quiet.</p>"
    )


def _lanes(view: RaceView) -> str:
    if view.phase in ("teaching", "training") or not any(lane.text or lane.writing for lane in view.lanes.values()):
        return ""
    return f'<div class="od-lanes">{"".join(_lane(name, lane) for name, lane in view.lanes.items())}</div>'


def _lane(name: str, lane: LaneView) -> str:
    """An answer as it grows, its speed above it."""
    s = lane.live.statistics
    facts = [f"{count(s.tokens)} tokens"]
    if name == "drafted" and s.drafter_acceptance is not None:
        facts.append(f"{percent(s.drafter_acceptance)} of the drafts accepted")
    if s.tokens_per_pass:
        facts.append(f"{s.tokens_per_pass:.2f} tokens per pass")
    text = lane.text[-_SHOWN:] or ("…" if lane.writing else "")
    busy = ' aria-busy="true"' if lane.writing else ""
    return (
        f'<article class="od-lane" data-lane="{name}"{busy}><h3>{NAMES[name]} <small>{ABOUT[name]}</small></h3>'
        f'<div class="od-figure"><span class="od-mid">{rate(s.tokens_per_second)}</span>'
        f'<span class="od-unit">tokens/s</span></div>'
        f'<div class="od-lane-text">{escape(text)}</div><p class="od-under">{", ".join(facts)}.</p></article>'
    )


def _proof(view: RaceView) -> str:
    """Whether the texts are equal, compared token by token."""
    found = view.after or view.before
    if found is None or view.phase == "racing":
        return ""
    words = f"<b>Same text</b> in {count(found.same)} of {count(found.answers)} answers, compared token by token."
    equal = found.same == found.answers
    return f'<p class="od-proof" data-equal="{str(equal).lower()}">{words}</p>'


def _bars(view: RaceView) -> str:
    """Of races that are over: what grows would show the last prompts, not the sum."""
    rows = [("Untaught", view.before), ("Taught", view.after)]
    known = [(name, found) for name, found in rows if found is not None and found.interval is not None]
    if view.phase == "racing" and view.pairs:
        known = known[: 1 if view.after is not None else 0]
    if not known:
        return ""
    top = max(1.5, *(found.speedup for _, found in known))
    bars = "".join(_bar(name, found, top) for name, found in known)
    return f'<div class="od-bars">{bars}</div><p class="od-under">Drafted over plain; the line is plain decoding.</p>'


def _bar(name: str, found: Score, top: float) -> str:
    """The speedup as a bar; the line in it is plain decoding."""
    accepted = (
        f"{percent(found.acceptance)} of the drafts accepted" if found.acceptance is not None else "nothing drafted"
    )
    copied = f", {count(found.copied)} tokens copied" if found.copied else ""
    words = f"{rate(found.plain_speed)} → {rate(found.drafted_speed)} tokens/s, {accepted}{copied}"
    low, high = found.interval or (found.speedup, found.speedup)
    label = f"{name}: {found.speedup:.2f} ({low:.2f} to {high:.2f}) times plain decoding, {words}"
    return (
        f'<div class="od-gainbar" data-bar="{"after" if name == "Taught" else "before"}" role="img" '
        f'aria-label="{escape(label)}"><span>{name}</span>'
        f'<div class="od-track"><i style="width:{min(found.speedup / top, 1):.1%}"></i>'
        f'<u style="left:{1 / top:.1%}"></u></div><b>{found.speedup:.2f}×</b><small>{escape(words)}</small></div>'
    )


def _lesson(job: RaceJob) -> str:
    """What teaching will do, or did."""
    plan = job.plan
    if job.running:
        return ""
    if job.can_teach:
        where = "this profile's drafter, for good" if plan.kept else "a drafter that is forgotten with this race"
        return (
            f'<p class="od-under">Teaching answers {count(len(plan.lesson))} other prompts and trains {where}. '
            "What it learns guesses words and never chooses them.</p>"
        )
    if not plan.lesson and not job.view.error:
        return '<p class="od-under">There were too few prompts to teach with: give at least 12.</p>'
    return ""
