"""Names and things for word problems."""

from .wordings import lines


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
