"""Small parts of the chat page as HTML: the gauge, the notices, the empty chat, calls of functions and the question
whether they may run; and what they are made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from omnidraft.app import models_list
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.catalog import DEFAULT, KNOWN, Known
from omnidraft.app.conversing import answering
from omnidraft.app.kept_answer import stored_plain
from omnidraft.app.live import Live
from omnidraft.app.models_list import is_toy
from omnidraft.app.outlook import promise
from omnidraft.app.room import Room
from omnidraft.app.session import Session
from omnidraft.app.tool_use import ALWAYS, ONCE, REFUSE
from omnidraft.app.tools.server_file import BETWEEN
from omnidraft.app.tools.toolbox import Toolbox
from omnidraft.chats import Message
from omnidraft.chats.pictures import fenced
from omnidraft.chats.records import ASKED, DONE, REFUSED, ToolCall, open_call
from omnidraft.format import count, size
from omnidraft.learning.material.history import Gain, gain
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
    assistant = session.assistant
    return gain(assistant.learned.served_answers(), assistant.target_name, assistant.learner.status().served)


def pieces_of(path: list[Message]) -> list[tuple[str, str]]:
    """(text, origin) of the last answer's tokens."""
    answer = next((m for m in reversed(path) if m.role == "assistant"), None)
    return answer.pieces if answer else []


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
    said = (
        f"{count(pair.shared)} of the {count(pair.target.size)} tokens of its vocabulary "
        f"({pair.target.family}) are pieces of the drafter's, too; others are guessed in parts."
    )
    joined = f" {count(len(cache))} sequences of parts are known that make one token." if cache is not None else ""
    return said + joined


TEXT_CLAIM = "The text is plain decoding's, to the last token."


# What a small model answers well, each tried at default sampling; what the toys can: sums, functions, this program.
EXAMPLES = [
    "Give me three tips for a good night's sleep.",
    "Write a Python function that adds up all numbers in a list.",
    "What is gravity?",
]
TOY_EXAMPLES = [
    "What is 23 + 45?",
    "Write a function named add_all to add up all numbers in a list.",
    "What is OmniDraft?",
]
_WHAT = "A chat assistant on your own machine that gets faster as you talk to it, and says exactly the same."
_WAYS = (
    '<p class="od-ways"><a class="od-go" href="/drift-lab?race=go">See it race</a>'
    '<a class="od-go" href="/models">{}</a></p>'
)


def examples(target: Path | None) -> list[dict[str, str]]:
    """Questions that the model which would answer answers well."""
    return [{"text": text} for text in (TOY_EXAMPLES if is_toy(target) else EXAMPLES)]


def empty_state(session: Session, target: Path | None) -> str:
    """HTML for the empty chat; `target` is the model that would answer."""
    if target is None:
        return _empty(
            "No model yet",
            "There is no model file in the models folder. Put a GGUF file there, or get one on the "
            '<a href="/models">Models page</a>.',
        )
    if own := _others(session, target):
        names = ", ".join(escape(name) for name in own[:5]) + (" and others" if len(own) > 5 else "")
        said = f"{_WHAT} {escape(target.stem)} answers. On this machine, too: {names}; choose one above."
        return _empty("Ask something", said, _WAYS.format("All models"))
    if is_toy(target):
        return _empty(
            "Ask something",
            f"{_WHAT} The model at hand is a toy that knows sums, small Python functions and OmniDraft; "
            "one of these talks about anything:",
            _better(session, [DEFAULT]) + _WAYS.format("All models"),
        )
    if target.name == DEFAULT.file:
        return _empty(
            "Ask something",
            f"{_WHAT} SmolLM2-135M answers: a very small model that talks about anything, in English, and is often "
            f"wrong. {promise(session, target)} Better ones, each a button away:",
            _better(session, []) + _WAYS.format("All models"),
        )
    said = f"{_WHAT} {escape(target.stem)} answers. {promise(session, target)}"
    return _empty("Ask something", said, _WAYS.format("Other models"))


def _others(session: Session, target: Path) -> list[str]:
    """Models that somebody brought, where it is none of them that would answer."""
    if not is_toy(target) and target.name != DEFAULT.file:
        return []
    brought = [m for m in models_list.targets(session.assistant) if not models_list.is_bundled(m.path)]
    return [model.name for model in brought if model.path.name != DEFAULT.file]


def arriving() -> str:
    """Until the page has been filled."""
    return _empty("Ask something", "")


def _empty(title: str, text: str, more: str = "") -> str:
    return f'<div class="od-empty"><h2>{title}</h2><p>{text}</p>{more}</div>'


def offered(room: Room, first: list[Known]) -> list[Known]:
    """Of the models known by name that fit into the room the lightest and the two best, behind `first`."""
    fitting = [known for known in KNOWN if known is not DEFAULT and room.holds(known.bytes)[0]]
    light = fitting[:1] or [known for known in KNOWN if known is not DEFAULT][:1]
    return list(dict.fromkeys([*first, *light, *fitting[-2:]]))[:3]


def _better(session: Session, first: list[Known]) -> str:
    """A row for each model offered. A click goes to the Models page, where its download begins."""
    room = Room.beside(session)
    rows = []
    for known in offered(room, first):
        name, _, about = known.about.partition(": ")
        facts = [size(known.bytes), room.holds(known.bytes)[1]]
        rows.append(
            f"<li><b>{escape(name)}</b><span>{escape(about)}</span><small>{' · '.join(facts)}</small>"
            f'<a href="/models#get={escape(known.name)}">Get it<span class="od-hidden">: {escape(name)}</span></a></li>'
        )
    return f'<ul class="od-better">{"".join(rows)}</ul>'


TOOLS = "The model may ask to use a calculator, the clock and files you attached; you decide about every call."
_PROGRAMS = "Programs named in {}, started when you switch this on: {}."
_TITLES = {ASKED: "Asks to use {}", DONE: "Used {}", REFUSED: "Was not allowed to use {}"}
CALL_WAITS = "*Waiting for you to decide about the call.*"
_CHOICES = ((ONCE, "Allow once"), (ALWAYS, "Always in this chat"), (REFUSE, "Refuse"))


def tools_info(toolbox: Toolbox) -> str:
    """What stands beside the switch: which functions there are, also those of the named servers."""
    listed = toolbox.listed()
    return f"{TOOLS} {_PROGRAMS.format(toolbox.file_name, '; '.join(listed))}" if listed else TOOLS


def call_title(call: ToolCall) -> str:
    return _TITLES[call.state].format(call.name)


def call_text(call: ToolCall) -> str:
    """A call and its result as Markdown."""
    return "\n\n".join(map(fenced, [_given(call), *([call.result] if call.state == DONE else [])]))


def question(path: list[Message]) -> str:
    """The question about the call that the last answer waits for; "" if it waits for none."""
    last = path[-1] if path else None
    call = open_call(last.steps) if last is not None else None
    if last is None or call is None:
        return ""
    whose = ", which a program outside OmniDraft runs" if BETWEEN in call.name else ""
    which = f'data-message="{escape(last.id)}" data-call="{escape(call.id)}"'
    buttons = "".join(
        f'<button type="button" data-kind="{choice}" {which}>{label}</button>' for choice, label in _CHOICES
    )
    return (
        f'<div class="od-permit" role="group" aria-label="A function asks to run"><p>The model asks to use '
        f"<b>{escape(call.name)}</b>{whose}:</p>"
        f'<pre tabindex="0">{escape(_given(call))}</pre><div>{buttons}</div></div>'
    )


def _given(call: ToolCall) -> str:
    given = json.loads(call.arguments)
    return "\n".join(f"{name}: {_value(value)}" for name, value in given.items()) or "(nothing)"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
