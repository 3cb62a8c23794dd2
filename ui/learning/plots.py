"""The plots of the Learning page: training loss, held-out acceptance per update, acceptance of the answers since.

Pure functions from facts to SVG.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.format import percent, share, version
from omnidraft.learning.facts import ServedAnswer, Update
from omnidraft.plot import Frame, Mark, Plot, Series, ceiling
from ui.learning.view import held_out, when

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
