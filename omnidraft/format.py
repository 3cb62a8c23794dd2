"""Numbers and sizes as people read them."""

from __future__ import annotations

_ROUNDED = 0.9995  # of a unit: what would be written as a thousand of the next smaller one


def count(value: int) -> str:
    """12,345 with thin spaces left to the reader's eye: commas."""
    return f"{value:,}"


def counted(number: int, what: str) -> str:
    """1 answer, 1,200 answers."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def version(name: str) -> str:
    """v3 for v000003, the name of an adapter's version."""
    return f"v{int(name[1:])}" if name[1:].isdecimal() else name


def short(value: float) -> str:
    """4.4M, 0.5B, 320K: parameter counts."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= _ROUNDED * limit:
            scaled = value / limit
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}{unit}"
    return f"{value:.0f}"


def size(value: float) -> str:
    """Bytes in the largest fitting unit, a thousand of the next, as file managers and model hubs count."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= _ROUNDED * limit:
            scaled = value / limit
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.1f} {unit}"
    return f"{value:.0f} bytes"


def rate(value: float | None) -> str:
    """Tokens per second; a dash where nothing was measured."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def share(value: float) -> str:
    """A share as an axis says it: with the decimals it has, for 2.5% is no 2%."""
    return f"{value * 100:.3g}%"


def seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 90:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min"
