"""From a user's draft settings to the policy that follows them."""

from __future__ import annotations

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.gamma import GammaLength
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import FixedLength, LengthPolicy
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Translator


def make_policy(settings: DraftSettings, knowledge: Knowledge | None, translator: Translator | None) -> LengthPolicy:
    """`knowledge` is needed for every mode but "fixed"; without a translator only lookups can be proposed."""
    if settings.mode == "fixed" or knowledge is None:
        return FixedLength(settings.length)
    if settings.mode == "lookup":
        return AdaptiveLength(knowledge, None, settings.max_length)
    if settings.mode == "gamma" and translator is not None:
        return GammaLength(knowledge, translator, settings.max_length, settings.gamma)
    return AdaptiveLength(knowledge, translator, settings.max_length)
