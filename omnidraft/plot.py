"""Line plots as SVG, for a page whose style sheet has the colours.

Pure functions from numbers to text. The x axis is given in data units, so that marks and series share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 44, 10, 22, 22
WIDTH = 760


@dataclass(frozen=True, slots=True)
class Series:
    """Values at places. look: "line", "dots" or "bars" (a stroke from y to `base`); colour: a class of the style sheet.

    words: what the pointer is told about each point, if anything.
    """

    points: Sequence[tuple[float, float]]
    look: str = "line"
    colour: str = "od-c1"
    name: str = ""
    base: Sequence[float] = ()
    words: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A dashed line at x (unless it is the plot's left edge) and the words beside its top."""

    x: float
    words: str = ""
    line: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown of the plane, and how large. word: a y value in words."""

    x: tuple[float, float]
    y: tuple[float, float]
    word: Callable[[float], str]
    width: int = WIDTH
    height: int = 210

    def at(self, x: float) -> float:
        low, high = self.x
        return LEFT + (self.width - LEFT - RIGHT) * (x - low) / ((high - low) or 1)

    def up(self, y: float) -> float:
        low, high = self.y
        share = (min(max(y, low), high) - low) / ((high - low) or 1)
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)


@dataclass(frozen=True, slots=True)
class Plot:
    """about: what a screen reader says instead of the title."""

    title: str
    frame: Frame
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    ticks: Sequence[tuple[float, str]] = ()
    about: str = ""

    def html(self) -> str:
        """A figure with its caption and, where series have names, a legend."""
        label = escape(self.about or self.title)
        return (
            f'<figure class="od-plot"><figcaption>{escape(self.title)}{_legend(self.series)}</figcaption>'
            f'<svg viewBox="0 0 {self.frame.width} {self.frame.height}" role="img" aria-label="{label}">'
            f"{self.drawn()}</svg></figure>"
        )

    def drawn(self) -> str:
        """What stands inside the SVG."""
        series = "".join(_series(self.frame, one) for one in self.series)
        return f"{_grid(self.frame)}{_ticks(self.frame, self.ticks)}{_marks(self.frame, self.marks)}{series}"


def ceiling(value: float) -> float:
    """The next round number (1, 2, 2.5, 4 or 5 times a power of ten) at or above `value`; 1 for nothing."""
    if not value > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 10) if value <= step * power * (1 + 1e-9))


def _grid(frame: Frame) -> str:
    low, high = frame.y
    parts = []
    for value in (low, (low + high) / 2, high):
        y = frame.up(value)
        parts.append(f'<line class="od-grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{escape(frame.word(value))}</text>')
    return "".join(parts)


def _ticks(frame: Frame, ticks: Sequence[tuple[float, str]]) -> str:
    y = frame.height - 5
    return "".join(
        f'<text x="{frame.at(x):.1f}" y="{y}" text-anchor="middle">{escape(word)}</text>' for x, word in ticks
    )


def _marks(frame: Frame, marks: Sequence[Mark]) -> str:
    parts = []
    for mark in marks:
        x = frame.at(mark.x)
        if mark.line:
            parts.append(f'<line class="od-switch" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{frame.height - BOTTOM}"/>')
        if mark.words:
            parts.append(f'<text class="od-segment" x="{x + 5:.1f}" y="14">{escape(mark.words)}</text>')
    return "".join(parts)


def _series(frame: Frame, series: Series) -> str:
    places = [(frame.at(x), frame.up(y)) for x, y in series.points]
    if series.look == "line":
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        return f'<polyline class="{series.colour}" points="{points}"/>' if len(places) > 1 else ""
    words = list(series.words) + [""] * (len(places) - len(series.words))
    parts = []
    for i, ((x, y), word) in enumerate(zip(places, words, strict=True)):
        told = f"<title>{escape(word)}</title>" if word else ""
        if series.look == "bars":
            base = frame.up(series.base[i])
            parts.append(
                f'<line class="od-span {series.colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{base:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(f'<circle class="od-from {series.colour}" cx="{x:.1f}" cy="{base:.1f}" r="3"/>')
        radius = 4 if series.look == "bars" else 2.4
        parts.append(f'<circle class="{series.colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{told}</circle>')
    return "".join(parts)


def _legend(series: Sequence[Series]) -> str:
    named = [one for one in series if one.name]
    keys = "".join(f'<span><i class="{one.colour} od-look-{one.look}"></i>{escape(one.name)}</span>' for one in named)
    return f'<span class="od-keys">{keys}</span>' if named else ""
