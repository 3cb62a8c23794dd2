"""Vocabularies and translation between them: what ids mean, and how a draft becomes proposals for another model."""

from omnidraft.vocab.ngram_cache import NgramCache
from omnidraft.vocab.pair_map import PairMap, Proposal, Translator
from omnidraft.vocab.vocabulary import TokenKind, Vocabulary

__all__ = ["NgramCache", "PairMap", "Proposal", "TokenKind", "Translator", "Vocabulary"]
