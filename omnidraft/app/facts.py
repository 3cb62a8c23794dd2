"""What a person asked to be kept in mind: how a message becomes such a fact, and how models are told of it.

They read it behind the system prompt, within a budget.
"""

from __future__ import annotations

from omnidraft.app.session import Session
from omnidraft.chats import Fact
from omnidraft.chats.library import MAX_FACT
from omnidraft.chats.search import said
from omnidraft.chats.titles import one_line
from omnidraft.errors import StorageError
from omnidraft.vocab import Vocabulary

SHARE = 8  # of the context's tokens one may be facts
_HEAD = "The user asked you to remember:"


def remember(session: Session, message: str, chosen: str) -> str:
    """Keep a part of a message, or all that it says where nothing was chosen; says in a sentence what came of it."""
    told = session.store.message(message)
    whole = told.content if told.role == "user" else said(told.content)["content"]
    fact = one_line(chosen) or one_line(whole)
    if len(fact) > MAX_FACT:
        raise StorageError(
            f"What is remembered has at most {MAX_FACT} characters: select them in the message, then press Remember."
        )
    if session.store.library.save(Fact(fact)):
        return f"Remembered already: {fact}"
    return f"Remembered, for every conversation; the Profiles page shows and forgets it: {fact}"


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
