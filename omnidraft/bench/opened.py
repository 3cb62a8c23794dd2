"""What an assistant has loaded, for benchmarks that have just loaded it: never None, or one clear sentence."""

from __future__ import annotations

from omnidraft.app.assistant import Assistant
from omnidraft.backends.prompting.prompted_model import PromptedDrafter
from omnidraft.engine import Engine
from omnidraft.errors import ModelError
from omnidraft.vocab import PairMap, Translator


def engine_of(assistant: Assistant) -> Engine:
    if assistant.engine is None:
        raise ModelError("Nothing is loaded that could be measured.")
    return assistant.engine


def pair_of(assistant: Assistant) -> PairMap:
    if assistant.loaded.pair is None:
        raise ModelError("No drafter is loaded that could be measured.")
    return assistant.loaded.pair


def drafting_of(assistant: Assistant) -> tuple[PromptedDrafter, Translator]:
    """The loaded drafter's seat and its translator."""
    engine = engine_of(assistant)
    if engine.drafter is None or engine.translator is None:
        raise ModelError("No drafter is loaded that could be measured.")
    return engine.drafter, engine.translator
