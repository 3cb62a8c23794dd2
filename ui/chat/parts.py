"""Small parts of the chat page as HTML: the gauge, the export links, the notices; and what they are made from."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.app import models_list
from omnidraft.app.answer_job import AnswerJob, Live
from omnidraft.app.conversing import answering
from omnidraft.app.kept_answer import shown_pieces, stored_plain
from omnidraft.app.session import Session
from omnidraft.chats import Message
from omnidraft.format import count
from omnidraft.learning.learned import Gain, gain
from ui.common.notes import note

GONE = "This conversation is not here any more; reload the page."
GONE_ELSEWHERE = "The conversation of this address is not here any more; this is another one."
LOOKING = "*Looking at the picture …*"
ARRIVING = "This page is not filled yet; wait a moment, or reload it."


def _last_counted(path: list[Message]) -> Message | None:
    """The last answer with statistics."""
    return next((m for m in reversed(path) if m.role == "assistant" and m.statistics), None)


def stored_live(path: list[Message]) -> Live | None:
    """The counters of the last stored answer, for a page opened after a restart."""
    answer = _last_counted(path)
    return Live.stored(answer.statistics, answer.meta.get("disabled"), stored_plain(answer)) if answer else None


def acceptance_of(path: list[Message]) -> list[float]:
    """Of every answer the drafter guessed in, how much of that was accepted; copies are not its guesses."""
    lives = [Live.stored(m.statistics, None) for m in path if m.role == "assistant"]
    rates = [live.statistics.drafter_acceptance for live in lives]
    return [rate for rate in rates if rate is not None]


def gain_of(session: Session) -> Gain | None:
    """What the version that drafts now has brought with the model that is loaded."""
    learner = session.assistant.learner
    return gain(learner.learned.served_answers(), session.target_name(), learner.status().served)


def pieces_of(path: list[Message]) -> list[tuple[str, str]]:
    """(text, origin) of the last answer's tokens."""
    answer = next((m for m in reversed(path) if m.role == "assistant"), None)
    return shown_pieces(answer) if answer else []


def gauge(session: Session, path: list[Message]) -> str:
    """How much of the context the conversation takes, as of its last answer."""
    target, answer = session.assistant.target, _last_counted(path)
    if target is None or answer is None:
        return ""
    used = answer.statistics.get("prompt_tokens", 0) + answer.statistics.get("tokens", 0)
    share = min(used / target.n_ctx, 1.0)
    return (
        f'<div class="od-gauge" role="img" aria-label="{count(used)} of {count(target.n_ctx)} context tokens used" '
        f'title="{count(used)} of {count(target.n_ctx)} context tokens used"><span>{share:.0%} of context</span>'
        f'<div class="od-bar"><i style="width:{share:.1%}"></i></div></div>'
    )


def links(chat: str) -> str:
    return (
        f'<div class="od-links">Export <a href="/export/{chat}.md" download>Markdown</a>'
        f'<a href="/export/{chat}.json" download>JSON</a>'
        '<a href="/export/all.json" download title="Every conversation, as JSON">All</a></div>'
    )


def outcome(job: AnswerJob, path: list[Message]) -> str:
    """What the line above the composer says about a finished answer, unless the answer's own place says it."""
    if job.error:
        there = path and path[-1].meta.get("error") == job.error and not path[-1].content
        return "" if there else note(job.error, bad=True)
    said = list(job.live.notices)
    if job.live.finish_reason == "length":
        said.append("The answer reached its length limit; Continue goes on with it.")
    elif job.live.finish_reason == "context":
        said.append("The model's context is full.")
    elif job.stopped:
        said.append("Stopped; Continue goes on with the answer." if job.text else "Stopped.")
    elif job.begun and job.text == job.begun:
        said.append("The model ended its answer here; Continue makes it write more.")
    return note(" ".join(said))


def spoken(job: AnswerJob) -> str:
    """What stands in an answer's place while it is written."""
    reading = job.live.phase == "reading" and job.live.prefill is not None and job.live.prefill.picture
    return job.spoken or (LOOKING if reading else "")


def idle_sentence(session: Session) -> str:
    return (
        f"Nobody asked anything for {session.settings.unload_after:g} minutes, so the model left memory; "
        "the next message loads it again."
    )


def offered_target(session: Session, chat: str) -> str | None:
    """The model that would answer in a conversation, as the dropdown offers it."""
    return models_list.chosen(models_list.targets(session.assistant), answering(session, chat))


def describe_switch(session: Session, path: Sequence[Message] = ()) -> str:
    """Which model answers in a conversation, whether it sees the pictures there, and who guesses for it."""
    assistant = session.assistant
    target = assistant.target
    if target is None:
        return ""
    said = [f"{target.name} answers from here on."]
    engine = assistant.engine
    if engine is not None and any(message.pictures for message in path) and not engine.target.most_pictures:
        said.append("It cannot see pictures, so those of this conversation are left out.")
    if (reason := session.why_plain()) is not None:
        said.append(f"Nothing will be drafted: {reason}.")
    elif (choice := assistant.loaded.choice) is not None:
        said.append(f"{choice.drafter.stem} guesses for it.")
    return " ".join(said)


def pair_numbers(session: Session) -> str:
    """How the vocabularies of target and drafter meet, for who wants to know; empty where no drafter is loaded."""
    pair, cache = session.assistant.loaded.pair, session.assistant.loaded.cache
    if pair is None:
        return ""
    report = pair.report()
    said = (
        f"{count(report['direct'])} of the {count(report['target_size'])} tokens of its vocabulary "
        f"({pair.target.family}) are pieces of the drafter's, too; others are guessed in parts."
    )
    joined = f" {count(len(cache))} sequences of parts are known that make one token." if cache is not None else ""
    return said + joined


def text_claim(session: Session) -> str:
    """What drafting means for the text of answers, by how models are loaded and proposals are verified."""
    if session.settings.draft.verification != "coupled":
        return "Drafted text follows the same distribution as plain text; above temperature 0 it is another draw."
    if session.model_settings.exact == "fast":
        return "The text may differ from plain decoding's where two tokens are nearly equally likely."
    return "The text is plain decoding's, to the last token."
