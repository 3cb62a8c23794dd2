"""From the training process's events to what is shown and kept of an update. Pure: it knows nothing of processes."""

from __future__ import annotations

import time
from dataclasses import replace

from omnidraft.learning.facts import Update

Event = dict[str, object]


def advance(update: Update, event: Event) -> Update:
    """The update behind `event`; events it does not know change nothing."""
    kind = event["event"]
    if kind == "started":
        return replace(update, answers_new=event["new"], answers_replayed=event["replayed"])
    if kind == "step":
        losses = (*update.losses, round(float(event["loss"]), 4))
        return replace(update, step=event["step"], steps=event["steps"], tokens=event["tokens"], losses=losses)
    if kind == "estimate":
        estimates = {name: event[name] for name in ("old", "new") if name in event}
        return replace(update, **{"before" if event["when"] == "before" else "after": estimates})
    if kind == "published":
        return replace(update, outcome="published", version=event["version"], reason=_sentence(event["reason"]))
    if kind == "refused":
        return replace(update, outcome="refused", reason=_sentence(event["reason"]))
    if kind == "failed":
        return replace(update, outcome="failed", reason=_sentence(event["message"]))
    if kind == "finished":
        used = {"cpu_seconds": round(event["cpu_seconds"], 2), "peak_mb": round(event["peak_mb"], 1)}
        return replace(update, **used)
    return update


def conclude(update: Update, event: Event, why: str | None) -> Update:
    """The update behind "ended". why: the reason this program ended the process, None if it did not."""
    now = time.time()
    update = replace(update, ended=now, seconds=round(now - update.started, 2))
    if update.outcome != "running":
        return update
    if why is not None:
        return replace(update, outcome="interrupted", reason=why)
    if event["code"] is not None and event["code"] < 0:
        return replace(update, outcome="interrupted", reason="The training process was ended from outside.")
    return replace(update, outcome="failed", reason=_sentence(event["message"] or "the training process gave up"))


def _sentence(words: object) -> str:
    text = str(words).strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
