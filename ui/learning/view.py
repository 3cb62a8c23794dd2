"""What the drafter has learned as HTML: how learning stands, its plots, its versions, its updates.

Pure functions from what scheduler and store tell; everything that comes from outside is escaped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape

from omnidraft.format import count, percent, seconds, share, size, version
from omnidraft.learning.material.history import ServedAnswer
from omnidraft.learning.material.replay import LIMIT_MB
from omnidraft.learning.scheduler import Status
from omnidraft.learning.store import Start, VersionInfo
from omnidraft.learning.update import Estimates, Update
from omnidraft.plot import Frame, Mark, Plot, Series, ceiling
from ui.common.notes import cells, table

DAY = 86_400.0  # seconds
STATES = {
    "off": "Learning is off",
    "unavailable": "Not learning now",
    "idle": "Waiting for answers",
    "due": "Waiting for a quiet moment",
    "training": "Training",
    "paused": "Training is paused",
}
OUTCOMES = {
    "running": "running",
    "published": "taken into use",
    "refused": "not better yet",
    "failed": "failed",
    "interrupted": "interrupted",
}
ORIGINS = {
    "none": "the bare drafter",
    "own": "what it learned for this vocabulary",
    "warm start": "what it learned for another vocabulary, as a start",
    "file": "an adapter given by file",
}


def standing(status: Status) -> str:
    """One line on what learning does now, why, and how far it is."""
    update = status.update
    state = status.state
    head = f'<p class="od-state" data-state="{state}"><b>{STATES[state]}</b> <span>{escape(status.reason)}</span></p>'
    if state in ("off", "unavailable"):
        return head
    if update is not None:
        share, words = update.step / max(update.steps, 1), _under_way(status, update)
    else:
        share, words = min(1.0, status.kept.fresh / status.interval), ""
    bar = f'<div class="od-bar" role="img" aria-label="{share:.0%}"><i style="width:{share:.1%}"></i></div>'
    return f'{head}{bar}<p class="od-under">{escape(words)}</p>'


def _under_way(status: Status, update: Update) -> str:
    parts = []
    if update.steps:
        parts += [f"Step {count(update.step)} of {count(update.steps)}", f"{count(update.tokens)} tokens"]
    if update.losses:
        parts.append(f"loss {update.losses[-1]:.3f} nats")
    if status.memory_mb:
        parts.append(f"{size(status.memory_mb * 1e6)} in a process of its own")
    return ", ".join(parts)


def facts(status: Status, versions: Sequence[VersionInfo], drafter: str = "") -> str:
    """The figures at a glance; none where no drafter is loaded, whose they could be. drafter: its name."""
    kept, spent = status.kept, status.kept.spent(DAY)
    if status.state == "unavailable" and not kept.answers:
        return ""
    served = next((v for v in versions if v.served), None)
    shown = [(f"of {drafter or 'the drafter'} drafts now", version(status.served))] if status.served else []
    if not status.served and drafter:
        shown = [("drafts now, as it came", escape(drafter))]
    if served is not None:
        shown.append(("held-out acceptance", percent(held_out(served.version.meta.after))))
        if served.live_acceptance is not None:
            shown.append(
                (f"of drafts accepted in {count(served.live_answers)} answers", percent(served.live_acceptance))
            )
    shown += [
        ("answers kept to learn from", count(kept.answers)),
        ("tokens in them", count(kept.tokens)),
        (f"of {size(LIMIT_MB * 1e6)}", size(kept.bytes)),
        ("processor time learning took in 24 hours", seconds(spent) if spent else "none"),
    ]
    body = "".join(f"<div><b>{value}</b><small>{escape(name)}</small></div>" for name, value in shown)
    return f'<div class="od-facts">{body}</div>{_origin(status)}'


def _origin(status: Status) -> str:
    if status.origin == "none":
        return ""
    merged = ", merged into the drafter's file" if status.merged else ""
    return f'<p class="od-under">Drafts with {ORIGINS[status.origin]}{merged}.</p>'


def nothing_yet(status: Status) -> str:
    """What will happen, for who has just begun."""
    interval = count(status.interval)
    return (
        '<div class="od-explain"><h2>Nothing learned yet</h2><ol>'
        "<li>Every answer is kept on this machine, with what the model thought at each token.</li>"
        f"<li>After {interval} new answers, and only while nobody waits, the drafter trains on them in a process of "
        "its own. It stops within a fifth of a second when you ask something.</li>"
        "<li>What it learned is tested on answers it did not train on. Only if it would propose better does it go "
        "into use, as a version you can take back.</li></ol>"
        "<p>What is learned guesses words and never chooses them: answers only come faster.</p></div>"
    )


def subject(of: tuple[str, str] | None) -> str:
    """Whose versions and updates are shown below."""
    if of is None:
        return "<p>No model is loaded, so the updates of all drafters and models are shown.</p>"
    drafter, family = map(escape, of)
    return f"<p>What <b>{drafter}</b> learned for models of the vocabulary <b>{family}</b>. One serves at a time.</p>"


def versions_table(versions: Sequence[VersionInfo], starts: Sequence[Start]) -> str:
    """The versions of the drafter and model that are loaded, the newest first, then what they began from."""
    if not versions and not any(start.warm for start in starts):
        return '<p class="od-none">No version for the model that is loaded.</p>'
    names = ["version", "state", "made", "answers", "tokens", "loss", "held-out before", "after", "drafts accepted",
             "size", ""]  # fmt: skip
    return table(names, "".join([*map(_version, versions), *map(_start, starts)]))


SERVES = '<span class="od-tag">serves</span>'


def _use(which: str, words: str, served: bool) -> str:
    """The button that takes a version into use, once it was confirmed."""
    if served:
        return ""
    return (
        f'<button type="button" class="od-use" data-kind="use" data-which="{escape(which)}" '
        f'aria-label="Draft with {escape(words)}">Use</button>'
    )


def _start(start: Start) -> str:
    """What a drafter has before it has a version of its own."""
    name = "warm start" if start.warm else "bare drafter"
    about = f"learned while {start.target} answered" if start.warm else "as it came, nothing learned"
    values = [
        name,
        SERVES if start.served else "",
        *["–"] * 8,
        _use("warm" if start.warm else "bare", name, start.served),
    ]
    return f'<tr title="{escape(about)}" data-version="{name}">{cells(values)}</tr>'


def _version(v: VersionInfo) -> str:
    m, name, state = v.version.meta, v.version.name, SERVES if v.served else "rolled back" if v.rejected else ""
    live = f"{percent(v.live_acceptance)} of {count(v.live_answers)}" if v.live_answers else "–"
    values = [
        escape(version(name)), state, when(m.created), count(m.answers), count(m.tokens), f"{m.loss:.3f}",
        percent(held_out(m.before)), percent(held_out(m.after)), live, size(v.bytes),
        _use(name, f"version {version(name)}", v.served),
    ]  # fmt: skip
    tip = escape(f"{m.loss_name}, rank {m.rank}, trained while {m.target} answered; {v.version.path}")
    return f'<tr title="{tip}" data-version="{escape(name)}">{cells(values)}</tr>'


def updates_table(updates: Sequence[Update]) -> str:
    """What was learned, when, from how much, and what came of it."""
    if not updates:
        return '<p class="od-none">No update has run yet.</p>'
    names = ["began", "for", "outcome", "new answers", "replayed", "tokens", "loss", "processor", "took"]
    return table(names, "".join(_update(u) for u in updates))


def _update(u: Update) -> str:
    outcome = OUTCOMES[u.outcome] + (f" ({version(u.version)})" if u.version else "")
    values = [
        when(u.started), escape(u.target), escape(outcome), count(u.answers_new), count(u.answers_replayed),
        count(u.tokens), f"{u.losses[0]:.2f} → {u.losses[-1]:.2f}" if u.losses else "–",
        seconds(u.cpu_seconds) if u.cpu_seconds else "–", seconds(u.seconds) if u.seconds else "–",
    ]  # fmt: skip
    return f'<tr title="{escape(u.reason)}" data-outcome="{u.outcome}">{cells(values)}</tr>'


def held_out(estimates: Estimates) -> float | None:
    """Held-out acceptance as the test weighs it: half greedy, half drawn, over the tokens of old and new answers."""
    total = sum(e.get("tokens", 0) for e in estimates.values())
    if not total:
        return None
    return sum(e["tokens"] * (e["greedy"] + e["overlap"]) / 2 for e in estimates.values() if e.get("tokens")) / total


def when(moment: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(moment))


# The plots of the Learning page: training loss, held-out acceptance per update, acceptance of the answers since. Pure
# functions from facts to SVG.


SHOWN = 24  # updates in a plot
WINDOW = 8  # answers a moving average covers
HALF = 420  # width of a plot that shares its row


def loss(updates: Sequence[Update]) -> str:
    """The loss of the last updates, step by step, oldest first; a mark where one begins."""
    with_losses = [u for u in updates if u.losses][-8:]
    if not with_losses:
        return ""
    points: list[tuple[float, float]] = []
    series, marks = [], []
    for update in with_losses:
        begin = len(points)
        points += [(begin + i, value) for i, value in enumerate(update.losses)]
        series.append(Series(points[begin:]))
        marks.append(Mark(begin - 0.5, _name(update), line=begin > 0))
    top = ceiling(max(value for _, value in points))
    frame = Frame((-0.5, max(len(points) - 0.5, 1)), (0.0, top), lambda v: f"{v:.2g}", width=HALF)
    last = with_losses[-1].losses
    about = f"Training loss; in the last update from {last[0]:.2f} to {last[-1]:.2f} nats in {len(last)} steps"
    return Plot("Training loss, nats per position", frame, series, marks if len(marks) < 5 else [], about=about).html()


def acceptance(updates: Sequence[Update]) -> str:
    """Held-out acceptance before and after each update, oldest first."""
    estimated = [(u, held_out(u.before), held_out(u.after)) for u in updates][-SHOWN:]
    judged = [(u, b, a) for u, b, a in estimated if b is not None and a is not None]
    if not judged:
        return ""
    top = ceiling(max(max(b, a) for _, b, a in judged))
    frame = Frame((-0.6, len(judged) - 0.4), (0.0, min(top, 1.0)), share, width=HALF)
    series = []
    for colour, name, wanted in (("od-c1", "taken into use", True), ("od-c4", "not better yet", False)):
        mine = [(i, u, b, a) for i, (u, b, a) in enumerate(judged) if (u.outcome == "published") is wanted]
        if mine:
            words = [f"{when(u.started)}: {percent(b)} before, {percent(a)} after" for _, u, b, a in mine]
            points = [(float(i), a) for i, _, _, a in mine]
            series.append(Series(points, "bars", colour, name, [b for _, _, b, _ in mine], words))
    ticks = [(float(i), _name(u)) for i, (u, _, _) in enumerate(judged)] if len(judged) <= 12 else []
    _, before, after = judged[-1]
    about = f"Held-out acceptance; the last update went from {percent(before)} to {percent(after)}"
    return Plot("Held-out acceptance, before and after each update", frame, series, ticks=ticks, about=about).html()


def served(answers: Sequence[ServedAnswer]) -> str:
    """Accepted / proposed of every answer, its moving average, and where another version began to serve."""
    drafted = [a for a in answers if a.proposed]
    if len(drafted) < 2:
        return ""
    dots = [(float(i), a.accepted / a.proposed) for i, a in enumerate(drafted)]
    line = []
    for i in range(len(drafted)):
        window = drafted[max(0, i + 1 - WINDOW) : i + 1]
        line.append((float(i), sum(a.accepted for a in window) / sum(a.proposed for a in window)))
    changes = [i for i in range(1, len(drafted)) if drafted[i].version != drafted[i - 1].version]
    marks = [Mark(i - 0.5, version(drafted[i].version) or "bare") for i in changes[-6:]]
    frame = Frame((-0.5, len(drafted) - 0.5), (0.0, min(1.0, ceiling(max(y for _, y in dots)))), share)
    series = [Series(dots, "dots", name="one answer"), Series(line, name=f"mean of the last {WINDOW}")]
    about = f"Acceptance of {len(drafted)} answers; {percent(line[-1][1])} in the last {WINDOW}"
    return Plot("Accepted of what the drafter guessed, answer by answer", frame, series, marks, about=about).html()


def _name(update: Update) -> str:
    return version(update.version) if update.version else f"#{update.number}"
