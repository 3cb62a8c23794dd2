"""What a grammar may be at most, and the error that says so."""

from __future__ import annotations

from omnidraft.errors import OmniDraftError

MAX_LENGTH = 1 << 18  # bytes of text
MAX_NESTING = 500  # brackets inside each other
MAX_REQUIRED = 100_000  # times something may be demanded: an answer has to get there
MAX_REPEATS = 10**18  # times something may be allowed
MAX_POSITIONS = 300_000  # places a compiled grammar has
MAX_READINGS = 4096  # ways in which a text so far may be understood at once
MAX_STEPS = 1_000_000  # of work for one token, about a second
MAX_STATES = 20_000  # remembered of one answer before remembering starts over


class GrammarError(OmniDraftError):
    """A grammar or schema that cannot be used; the message says why."""


def too_ambiguous() -> GrammarError:
    return GrammarError("The grammar can be understood in too many ways at once; make its alternatives begin apart.")
