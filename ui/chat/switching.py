"""What a change of models means for drafting, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.app.session import Session
from omnidraft.chats import Message
from omnidraft.format import count


def describe_switch(session: Session, path: Sequence[Message] = ()) -> str:
    """Which model answers in a conversation, whether it sees the pictures there, how its vocabulary meets the
    drafter's, what the n-gram cache brings along."""
    assistant = session.assistant
    target = assistant.target
    if target is None:
        return ""
    said = [f"{target.name} answers from here on."]
    engine = assistant.engine
    if engine is not None and any(message.pictures for message in path) and not engine.target.most_pictures:
        said.append("It cannot see pictures, so those of this conversation are left out.")
    if assistant.loaded.pair is not None:
        report = assistant.loaded.pair.report()
        said.append(
            f"Its vocabulary ({target.vocabulary.family}) shares {count(report['direct'])} of its "
            f"{count(report['target_size'])} tokens with the drafter."
        )
    if assistant.loaded.cache is not None:
        said.append(f"The n-gram cache of this family was loaded: {count(len(assistant.loaded.cache))} n-grams.")
    elif (reason := session.why_plain()) is not None:
        said.append(f"Nothing will be drafted: {reason}.")
    return " ".join(said)
