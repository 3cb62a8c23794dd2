"""A drift run as HTML: its progress, its plots, its table, the list of runs. Pure functions of a run's state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from omnidraft.format import count, percent, rate
from omnidraft.lab.export import WINDOW, SegmentRow, plots, segment_rows
from omnidraft.lab.store import Options, RunState
from ui.common import notes
from ui.common.notes import tip

LITTLE = 0.05  # accepted, of the drafts: a fall from less shows nothing


def progress(state: RunState | None, doing: str, left: float, error: str) -> str:
    """One line and a bar."""
    if state is None:
        return '<p class="od-none">Pick a schedule and start it; the plot grows with every prompt.</p>'
    words = [f"{state.schedule.name}: {state.done} of {state.total} prompts", state.status]
    if state.status in ("new", "running") and doing:
        words.append(doing)
    elif state.status == "running" and left:
        words.append(f"about {_duration(left)} left")
    bad = f'<p class="od-note od-bad">{escape(error)}</p>' if error else ""
    share = state.done / state.total
    return (
        f'<div class="od-run" data-status="{state.status}"><p>{escape(", ".join(words))}</p>'
        f'<div class="od-bar"><i style="width:{share:.1%}"></i></div></div>{bad}'
    )


def told(state: RunState | None, beside: RunState | None = None) -> str:
    """What a run showed, in words and plots. beside: a run to compare with."""
    if state is None or not state.points:
        return ""
    return story(state) + "".join(plot.html() for plot in plots(state, beside))


def table(state: RunState | None) -> str:
    if state is None or not state.points:
        return ""
    found = segment_rows(state)
    columns: dict[str, Callable[[SegmentRow], str]] = {
        "target": lambda row: escape(row.target),
        "task": lambda row: escape(row.task),
        "prompts": lambda row: count(row.prompts),
        "accepted": lambda row: percent(row.acceptance),
        f"first {WINDOW}": lambda row: percent(row.first),
        f"last {WINDOW}": lambda row: percent(row.last),
        "recovered after": lambda row: f"{row.recovery} prompts" if row.recovery else "–",
        "tokens per pass": lambda row: f"{row.tokens_per_pass or 0:.2f}",
        "tokens/s": lambda row: rate(row.tokens_per_second),
        "n-grams learned": lambda row: count(row.cache_learned),
    }
    if any(row.speedup for row in found):
        columns["speedup"] = _speedup
    rows = (notes.cells([value(row) for value in columns.values()]) for row in found)
    return notes.table([tip(name) for name in columns], "".join(f"<tr>{row}</tr>" for row in rows))


def _speedup(row: SegmentRow) -> str:
    """With its interval; nothing where the prompts are too few to say."""
    if row.speedup is None or row.interval is None:
        return "–"
    low, high = row.interval
    return f"{row.speedup:.2f}× [{low:.2f}, {high:.2f}]"


def story(state: RunState | None) -> str:
    """What a run showed, in a sentence for each of its parts."""
    rows = segment_rows(state) if state is not None else []
    if state is None or not rows or rows[0].last is None:
        return ""
    said = [f"{_part(rows[0])}: {percent(rows[0].first)} of the drafts were accepted at first, "
            f"{percent(rows[0].last)} at the end."]  # fmt: skip
    for before, row in pairwise(rows):
        change = "the task" if before.target == row.target else "the model"
        said.append(f"Then {change} changed to {_part(row)}: {_fall(row)}.")
    if max(row.last or 0.0 for row in rows) < LITTLE and not state.options.learning:
        said.append("The drafter knows too little of this to lose any of it; let it learn as it goes.")
    return f'<p class="od-story">{escape(" ".join(said))}</p>'


def _part(row: SegmentRow) -> str:
    return f"{row.target}, {row.task}"


def _fall(row: SegmentRow) -> str:
    """How acceptance went over a change."""
    if row.before is None or row.first is None or row.last is None:
        return "nothing was drafted"
    fell = row.first < row.before
    word = f"{'it fell from' if fell else 'it went from'} {percent(row.before)} to {percent(row.first)}"
    if row.recovery:
        return f"{word} and was back after {row.recovery} prompts" if fell else word
    return f"{word}, and after {row.prompts} prompts it was at {percent(row.last)}"


def exports(state: RunState | None) -> str:
    if state is None or not state.points:
        return ""
    links = "".join(
        f'<a href="/drift/{state.id}.{kind}" download>{kind.upper()}</a>' for kind in ("csv", "json", "svg")
    )
    return f'<div class="od-links">Export {links}</div>'


def runs(found: Sequence[RunState], current: str | None, beside: str | None = None) -> str:
    """Earlier runs, the newest first, with what can be done with each."""
    if not found:
        return '<p class="od-none">No runs yet.</p>'
    return "".join(_run(state, state.id == current, state.id == beside) for state in found)


def _run(state: RunState, here: bool, beside: bool) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(state.created))
    about = f"{about_options(state.options)}, {state.done} of {state.total}, {state.status}"
    acts = []
    if not here:
        acts += [("show", "Show"), ("compare", "Stop comparing" if beside else "Compare")]
    if state.status != "running":
        acts.append(("delete", "Delete"))
    buttons = "".join(f'<button type="button" data-kind="{k}" data-run="{state.id}">{w}</button>' for k, w in acts)
    tag = '<span class="od-tag">shown</span>' if here else '<span class="od-tag">compared</span>' if beside else ""
    return (
        f'<div class="od-past"><div><b>{escape(state.schedule.name)}</b> {tag} <span>{when}; {about}</span></div>'
        f'<div class="od-card-buttons">{buttons}</div></div>'
    )


def about_options(options: Options) -> str:
    """How a run answers its prompts, in a few words."""
    length = "adaptive length" if options.draft_length is None else f"draft length {options.draft_length}"
    return f"{options.about_cache}, {options.about_learning}, {length}"


SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (button) trigger('act', {kind: button.dataset.kind, run: button.dataset.run});
});
"""


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
