"""A race as HTML: two lanes side by side, the proof of equal text, two bars, before and after the lesson, and how long
everything takes. Pure functions of `omnidraft.app.race_job`; everything that comes from outside is escaped."""

from __future__ import annotations

from html import escape

from omnidraft.app.live import Live
from omnidraft.app.race_job import RaceJob
from omnidraft.app.race_view import UNDER_WAY, Needed, Offer, RaceView
from omnidraft.format import count, counted, percent, rate
from omnidraft.lab.race import Score
from ui.common.notes import tip

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
        return '<p class="od-none">No race yet.</p>'
    view = job.view
    parts = [_standing(job), _verdict(view), _brought(view), _bars(view), _proof(view), _lanes(view), _lesson(job)]
    return f'<section class="od-race" data-phase="{view.phase}">{"".join(parts)}</section>'


def _standing(job: RaceJob) -> str:
    """What is done now, and how long all that is to come still takes."""
    view = job.view
    words = {
        "racing": f"Prompt {view.number + 1} of {len(job.plan.raced)}: {view.prompt[:120]}",
        "teaching": f"Answer {view.done} of {view.of} to learn from",
        "training": f"Step {view.done} of {view.of}" if view.of else "The training begins",
    }.get(view.phase, "")
    if view.phase in UNDER_WAY and (needed := job.needed) is not None:
        words += f"{', ' if words else ''}{time_of(needed)} to go"
    phase = PHASES[view.phase]
    if job.stopping:
        phase, words = "Stopping", ""
    elif view.aside:
        phase, words = "Waiting", "Somebody is being answered; it goes on behind that"
    state = "training" if view.phase in UNDER_WAY else "idle"
    line = f'<p class="od-state" data-state="{state}" role="status"><b>{phase}</b> <span>{escape(words)}</span></p>'
    if view.error:
        line += f'<p class="od-note od-bad" role="alert">{escape(view.error)}</p>'
    if view.phase not in UNDER_WAY:
        return line
    bar = f'<i style="width:{view.share:.1%}"></i>'
    return f'{line}<div class="od-bar" role="img" aria-label="{view.share:.0%}">{bar}</div>'


def time_of(needed: Needed) -> str:
    """How long, and what for where that is more than one thing."""
    parts = [f"{duration(seconds)} of {name}" for name, seconds in needed.items() if seconds]
    return f"about {duration(sum(needed.values()))}" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")


def duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


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
    if high < 1.0:
        words += f". Here guessing costs more than it saves: {_right(found)}; in a chat it is left out then"
    elif low < 1.0:
        words += ". Whether guessing pays here, so few answers do not tell; in a chat it is left out where it does not"
    return f'<p class="od-verdict">{words}.</p>{_changed(view)}'


def _brought(view: RaceView) -> str:
    """What the lesson changed, or why it changed nothing."""
    update = view.taught
    if view.after is None or view.before is None or update is None or view.phase in UNDER_WAY:
        return ""
    if update.outcome != "published":
        return f'<p class="od-under">The lesson changed nothing: {escape(update.reason)}</p>'
    guesses = (
        f"{percent(view.before.acceptance)} of the guesses were right before, {percent(view.after.acceptance)} now"
    )
    words = f"The lesson brought {view.before.speedup:.2f}× to {view.after.speedup:.2f}×: {guesses}"
    return f'<p class="od-under">{words}, by {count(view.lesson)} answers.</p>'


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
    begun = any(lane.text or lane.phase != "done" for lane in view.lanes.values())
    if view.phase in ("teaching", "training") or not begun:
        return ""
    return f'<div class="od-lanes">{"".join(_lane(name, lane) for name, lane in view.lanes.items())}</div>'


def _lane(name: str, lane: Live) -> str:
    """An answer as it grows, its speed above it."""
    s = lane.statistics
    facts = [f"{count(s.tokens)} tokens"]
    if name == "drafted" and s.drafter_acceptance is not None:
        facts.append(f"{percent(s.drafter_acceptance)} of the drafts accepted")
    if s.tokens_per_pass:
        facts.append(f"{s.tokens_per_pass:.2f} tokens per pass")
    writing = lane.phase != "done"
    text = lane.text[-_SHOWN:] or ("…" if writing else "")
    busy = ' aria-busy="true"' if writing else ""
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
    if view.phase == "racing" and view.turns:
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
    """What teaching will do, and how long it takes."""
    plan, given = job.plan, job.view.given
    if job.running:
        return ""
    if job.can_teach:
        where = "this profile's drafter, for good" if plan.kept else "a drafter that is forgotten with this race"
        words = (
            f"Teaching answers other prompts and trains {where}. What it learns guesses words and never chooses them."
        )
        told = [f"{_size(offer).capitalize()}: {time_of(offer.needed)}." for offer in job.offers]
        if given:
            told.append(
                f"{counted(given, 'answer')} of the lesson {'is' if given == 1 else 'are'} kept and not asked again."
            )
        if not job.times.measured:
            told.append("Nobody has trained this drafter here yet, so its part is a rule of thumb.")
        told.append("Meanwhile you can chat: it stands still for every question.")
        return f'<p class="od-under">{words} {" ".join(told)}</p>'
    if not plan.lesson and not job.view.error:
        return '<p class="od-under">There were too few prompts to teach with: give at least 12.</p>'
    return ""


def _size(offer: Offer) -> str:
    return counted(offer.prompts, "answer")


def teach_label(offer: Offer) -> str:
    verb = "Go on teaching" if offer.given else "Teach it"
    return f"{verb}: {_size(offer)}, about {duration(offer.seconds)}"
