"""What a person asked to be kept in mind, as models are told of it: behind the system prompt, within a budget."""

from __future__ import annotations

from omnidraft.app.session import Session
from omnidraft.vocab import Vocabulary

SHARE = 8  # of the context's tokens one may be facts
_HEAD = "The user asked you to remember:"


def with_facts(session: Session, system: str) -> str:
    """The system prompt of an answer by the model that is loaded."""
    engine = session.assistant.engine
    facts = session.store.library.facts()
    if engine is None or not facts:
        return system
    model = engine.target.model
    told = fitting(facts, model.vocabulary, model.n_ctx // SHARE)
    return "\n\n".join(filter(str.strip, [system, "\n- ".join([_HEAD, *told]) if told else ""]))


def fitting(facts: list[str], vocabulary: Vocabulary, budget: int) -> list[str]:
    """The newest facts that take at most `budget` tokens, in their order; one that alone takes more is passed over."""
    kept: list[str] = []
    for fact in reversed(facts):
        cost = len(vocabulary.encode(f"\n- {fact}"))
        if cost <= budget:
            budget -= cost
            kept.insert(0, fact)
    return kept
