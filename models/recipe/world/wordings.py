"""Wordings as text, in wordings/: what is indented below a heading is said in that many ways, a line each.

And the names and things for word problems, from wordings/words.txt.
"""

from functools import cache
from pathlib import Path


@cache
def _sections(module: str) -> dict[str, tuple[str, ...]]:
    """{heading: its lines} of a module's wordings, in the file's order."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (Path(__file__).parent / "wordings" / f"{module}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            found[heading].append(line[2:])
        elif line and not line.startswith("#"):
            heading = line
            found[heading] = []
    return {heading: tuple(lines) for heading, lines in found.items()}


def lines(module: str, name: str) -> tuple[str, ...]:
    """What stands below NAME."""
    return _sections(module)[name]


def kinds(module: str, name: str) -> dict[str, tuple[str, ...]]:
    """{kind: its lines} of the headings "NAME kind"."""
    found = ((heading.partition(" "), said) for heading, said in _sections(module).items())
    return {kind: said for (first, _, kind), said in found if first == name and kind}


def answered(module: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """{kind: (its lines, the answer to them)} of the headings "kind: answer"."""
    found = ((heading.partition(": "), said) for heading, said in _sections(module).items())
    return {kind: (said, answer) for (kind, _, answer), said in found}


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def _paired(name: str) -> dict[str, str]:
    return {one: other for one, _, other in (line.partition(": ") for line in lines("words", name))}


SHE, HE, THINGS, MORE_THINGS, PLACES, COLOURS, SIBLINGS, MONEY, DAYS = (
    words(" ".join(lines("words", name)))
    for name in ("SHE", "HE", "THINGS", "MORE_THINGS", "PLACES", "COLOURS", "SIBLINGS", "MONEY", "DAYS")
)
CONTAINER, GOODS, RELATIVES = map(_paired, ("CONTAINER", "GOODS", "RELATIVES"))
