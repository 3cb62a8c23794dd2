"""The live panel as HTML: speed, acceptance, tokens per pass, where time went, where tokens came from.

Pure functions from counters to text; everything that comes from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from omnidraft.app.live import Live, PlainSpeed
from omnidraft.decoding.events import ORIGINS, Statistics
from omnidraft.engine import SWITCHED_OFF
from omnidraft.format import count, percent, rate, seconds, version
from omnidraft.learning.material.history import Gain
from ui.common.notes import tip

ORIGIN_WORDS = {
    "target": "target alone",
    "direct": "drafted, direct",
    "ngram": "drafted, n-gram",
    "split": "drafted, split",
    "lookup": "copied from the text",
    "forced": "forced by the grammar",
}
SHORT = 0.006  # seconds of a pass below which guessing cannot gain
_FEW = 8  # proposals: fewer say nothing about what guesses cost
UNKNOWN = 0.2  # of a speedup: wider intervals say nothing
_TIMES = ("draft", "translate", "verify", "other")


def panel(
    live: Live | None,
    plain_reason: str | None = None,
    *,
    plain: PlainSpeed | None = None,
    past: Sequence[float] = (),
    gain: Gain | None = None,
    claim: str = "",
) -> str:
    """The side panel.

    `plain_reason` is why drafting is off before there is an answer to say so; `plain` is the answer's speed without
    drafting; `past` are the drafter's acceptance rates in the conversation's answers so far; `gain`
    is what learning has brought; `claim` what drafting means for the text.
    """
    if live is None or not live.statistics.tokens:
        return _frame(_idle(live if live is not None and live.phase != "done" else None), plain_reason)
    s = live.statistics
    course = list(past) if live.phase == "done" else [*past, *live.acceptance]
    parts = [_speed(s, plain), _drafted(s), _copied(s), learned(gain), _sparkline(course), _split(s), _origins(s)]
    parts.append(_small_print(s, claim if s.proposed else ""))
    return _frame("".join(parts), live.disabled_reason or plain_reason)


def summary(live: Live | None) -> str:
    """One line for narrow screens, above the composer."""
    if live is None or not live.statistics.tokens:
        return ""
    s = live.statistics
    parts = [f"<b>{rate(s.tokens_per_second)}</b> tokens/s"]
    if s.drafter_acceptance is not None:
        parts.append(f"<b>{percent(s.drafter_acceptance)}</b> of drafts accepted")
    if s.copied_accepted:
        parts.append(f"<b>{count(s.copied_accepted)}</b> copied")
    if s.proposed:
        parts.append(f"<b>{s.tokens_per_pass or 0:.2f}</b> per pass")
    return " · ".join(parts)


def _frame(body: str, reason: str | None) -> str:
    note = f'<p class="od-why">{why(reason)}</p>' if reason else ""
    return f'<section class="od-panel" aria-label="Speed of the answer">{body}{note}</section>'


def why(reason: str) -> str:
    """Why nothing was drafted, in words that fit the Drafting switch: only what was switched off is off."""
    if reason == SWITCHED_OFF:
        return "<b>Drafting is off</b> for this conversation."
    if reason.startswith("drafting does not pay"):
        return (
            "<b>The drafter rested:</b> with these two models, on this machine, guessing would have taken longer than "
            "it saves. It looks again now and then."
        )
    if reason.startswith("measured"):
        return f"<b>The drafter rested:</b> {escape(reason)}."
    return f"<b>Nothing was drafted:</b> {escape(reason)}."


def _idle(live: Live | None) -> str:
    if live is not None and live.prefill is not None:
        p = live.prefill
        reused = f", {count(p.reused)} of them still in memory" if p.reused else ""
        share = p.done / max(p.total, 1)
        return (
            f'<h3>Reading the prompt</h3><div class="od-bar"><i style="width:{share:.1%}"></i></div>'
            f"<p>{count(p.done)} of {count(p.total)} tokens{reused}.{' A picture comes next.' if p.picture else ''}</p>"
        )
    if live is not None:
        return "<h3>Starting</h3><p>The model is being prepared.</p>"
    return (
        "<h3>Speed</h3><p>Once an answer is being written, its speed shows here: how much of what the "
        f"{tip('drafter')} guessed the {tip('target')} accepted, and where the time went.</p>"
    )


def _speed(s: Statistics, plain: PlainSpeed | None) -> str:
    figure = (
        f'<div class="od-figure"><span class="od-number">{rate(s.tokens_per_second)}</span>'
        '<span class="od-unit">tokens/s</span></div>'
    )
    if not s.proposed:
        return figure + "<p>Plain decoding: one token in each pass of the model.</p>"
    passes = f"<b>{s.tokens_per_pass or 0:.2f}</b> tokens in each pass of the model; plain decoding has one."
    return f"{figure}{_compared(s, plain)}<p>{passes}</p>"


def _compared(s: Statistics, plain: PlainSpeed | None) -> str:
    """What guessing gained, with its interval; why nothing, where it gained nothing; nothing where nobody knows."""
    if plain is None or plain.error > UNKNOWN or not s.tokens_per_second:
        return ""
    gained = s.tokens_per_second / plain.speed
    low, high = gained * (1 - plain.error), gained * (1 + plain.error)
    if low > 1.0:
        return (
            f'<p><b class="od-gain">{gained:.2f}×</b> {tip("plain decoding")} ({low:.2f} to {high:.2f}), which made '
            f"{rate(plain.speed)} tokens/s in the same minutes.</p>"
        )
    took = s.verify / max(s.target_passes, 1)
    if took < SHORT:
        return (
            f"<p><b>No gain here:</b> a pass of this model takes {1000 * took:.1f} ms, hardly more than a guess does, "
            "so there is nothing to save. Larger models are sped up.</p>"
        )
    if s.proposed < _FEW:
        return "<p><b>No gain in this answer:</b> hardly anything was guessed.</p>"
    return "<p><b>No gain in this answer:</b> too few guesses were right for what they cost.</p>"


def _sparkline(values: Sequence[float]) -> str:
    """Acceptance over the conversation, 0 to 1 from bottom to top."""
    if len(values) < 2:
        return ""
    values = list(values)[-120:]
    step = 240 / (len(values) - 1)
    points = " ".join(f"{i * step:.1f},{34 - 32 * value:.1f}" for i, value in enumerate(values))
    return (
        '<h4>Drafts accepted over this conversation</h4><svg class="od-spark" viewBox="0 0 240 36" '
        f'preserveAspectRatio="none" role="img" aria-label="From {percent(values[0])} to {percent(values[-1])}">'
        f'<polyline points="{points}"/></svg>'
    )


def _drafted(s: Statistics) -> str:
    """What became of the drafter's guesses, copies left out."""
    proposed, _, accepted = s.by_drafter
    if not proposed:
        return ""
    share = accepted / proposed
    return (
        f'<div class="od-guesses"><span class="od-mid">{percent(share)}</span> <small>of what the '
        f"{tip('drafter')} guessed was accepted: {count(accepted)} of {count(proposed)}</small></div>"
        f'<div class="od-bar" role="img" aria-label="{percent(share)} of the drafts were accepted">'
        f'<i style="width:{share:.1%}"></i></div>'
    )


def _copied(s: Statistics) -> str:
    """What was proposed without the drafter."""
    rows = (
        ("Copied from earlier text", s.copied_accepted, s.copied),
        ("Forced by the grammar", s.forced_accepted, s.forced),
    )
    return "".join(f"<p>{word}: {count(kept)} of {count(tried)} accepted.</p>" for word, kept, tried in rows if tried)


def learned(gain: Gain | None) -> str:
    """What learning has brought: since version 3: 21% → 58% accepted."""
    if gain is None:
        return ""
    words = " → ".join(percent(value) for value in gain.acceptance) + " of drafts accepted"
    since = tip("version", f"Since version {version(gain.version).removeprefix('v')}:")
    return f'<p class="od-learned"><b>{since}</b> {words}.</p>'


def _split(s: Statistics) -> str:
    total = s.decode_seconds
    if not total:
        return ""
    if not s.proposed:
        words = {"verify": "passes of the model"}
        rows = [(words.get(name, name), getattr(s, name), f"od-t-{name}") for name in _TIMES]
    else:  # plain rounds verify nothing
        checking = 1 - min(s.plain_seconds / max(s.verify + s.other, 1e-9), 1.0)
        spent = {"draft": s.draft, "translate": s.translate, "verify": checking * s.verify, "other": checking * s.other}
        rows = [(name, spent[name], f"od-t-{name}") for name in _TIMES]
        rows.append(("passes without guesses", min(s.plain_seconds, s.verify + s.other), "od-t-plain"))
    return _stack("Where the time went", [(w, v, c, f"{v / total:.0%}") for w, v, c in rows if v > 0])


def _origins(s: Statistics) -> str:
    if not s.tokens:
        return ""
    rows = [(ORIGIN_WORDS[o], s.origins.get(o, 0), f"od-o-{o}") for o in ORIGINS]
    return _stack("Where the tokens came from", [(w, v, c, count(v)) for w, v, c in rows if v])


def _stack(title: str, rows: list[tuple[str, float, str, str]]) -> str:
    """A stacked bar with its legend; rows are (word, value, class, shown value)."""
    total = sum(value for _, value, _, _ in rows) or 1
    bar = "".join(f'<i class="{cls}" style="width:{value / total:.2%}"></i>' for _, value, cls, _ in rows)
    legend = "".join(f'<li><i class="{cls}"></i>{tip(word)}<b>{shown}</b></li>' for word, _, cls, shown in rows)
    return f'<h4>{title}</h4><div class="od-stack" aria-hidden="true">{bar}</div><ul class="od-legend">{legend}</ul>'


def _small_print(s: Statistics, claim: str) -> str:
    parts = [f"{count(s.tokens)} tokens in {seconds(s.decode_seconds)}"]
    if s.prompt_tokens:
        fresh = s.prompt_tokens - s.reused_tokens
        parts.append(f"{count(fresh)} of {count(s.prompt_tokens)} prompt tokens read in {seconds(s.prefill)}")
    if s.threads is not None:
        used, most = s.threads
        parts.append(f"{used} of {most} threads" + (": the machine is busy" if used < most else ""))
    return f'<p class="od-small">{"; ".join(parts)}. {escape(claim)}</p>'
