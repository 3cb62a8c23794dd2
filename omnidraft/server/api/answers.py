"""From a request for an answer to the answer: its choices are written one after the other, each when nobody else's is.

What a request may hold is in request.py, what comes back in reply.py and the forms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, cast

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.session import Session
from omnidraft.app.waiting import Job
from omnidraft.backends.base import LanguageModel
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.errors import OmniDraftError
from omnidraft.prompting.call_grammar import behind_thoughts, required_call
from omnidraft.prompting.grammar import Grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.prompting.prompt import RawText
from omnidraft.prompting.prompted_model import Continued
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.server.api import errors
from omnidraft.server.api import reply as completions
from omnidraft.server.api.body import json_body, read_body
from omnidraft.server.api.errors import BadRequest, refused
from omnidraft.server.api.forms import ChatForm, Logprobs, TextForm
from omnidraft.server.api.reply import Reply
from omnidraft.server.api.request import EFFORT, Asked, Choice, CompletionRequest, Prompt

GONE = "The client went away."
LOOK_EVERY = 0.05  # seconds between looks at whether the client of a request that waits has gone
_EFFORTS = {"none": "off", "minimal": "low", "xhigh": "high"}  # words of OpenAI's that none of ours is called


async def complete(kind: type[Asked], session: Session, request: Request, form: ModuleType = completions) -> Response:
    """The answer to a request of this kind, by `whole` or `stream` of a module that has its format."""
    try:
        # Reading a large body or turning a schema into a grammar takes its time; others go on meanwhile.
        body = await run_in_threadpool(json_body, await read_body(request))
        asked = await run_in_threadpool(lambda: kind.read(body).asked(session))
        first, *others = asked.choices
        reply = await start(session, first, request)
        if asked.stream:
            starts = [partial(start, session, one, request) for one in others]
            return await _streamed(reply, form.stream(reply, starts, asked.usage), request)
        return await _whole(session, reply, others, request, form)
    except OmniDraftError as error:
        return refused(error)


async def _streamed(reply: Reply, events: AsyncIterator[str], request: Request) -> Response:
    await unless_gone(reply.job, request, partial(reply.job.wait, 0))
    if (failed := _failed(reply.job)) is not None:  # before the first word it can still be told with a status
        return failed
    return StreamingResponse(events, media_type="text/event-stream")


async def _whole(session: Session, reply: Reply, others: list[Choice], request: Request, form: ModuleType) -> Response:
    replies = [reply]
    while True:
        job = replies[-1].job
        await unless_gone(job, request, job.join)
        if (failed := _failed(job)) is not None:
            return failed
        if len(replies) > len(others):
            return JSONResponse(form.whole(replies))
        replies.append(await start(session, others[len(replies) - 1], request))


def _failed(job: AnswerJob) -> Response | None:
    """The refusal of a job that ended with an error; None while it has not."""
    return refused(job.failure, otherwise=500) if job.failure is not None and job.over else None


async def start(session: Session, choice: Choice, request: Request) -> Reply:
    """A choice's job, as soon as no other answer is being written."""
    name, model = await run_in_threadpool(errors.find, session, choice.asked.model)
    begin = partial(_answer, session, name, model, choice)
    return await when_idle(session, request, begin, again=choice.index > 0)


async def unless_gone(job: Job, request: Request, wait: Callable[[], object]) -> None:
    """`wait`; BadRequest, and the job is stopped, if the client goes away before."""
    try:
        await _awaited(request, asyncio.ensure_future(run_in_threadpool(wait)))
    except BaseException:
        job.stop()
        raise


async def when_idle(session: Session, request: Request, begin: Callable[[], Any], again: bool = False) -> Any:
    """What `begin` gives when its turn comes; BadRequest if the client goes away before, QueueFull if too many wait and
    this request was not let in before (`again`)."""
    place = session.queue.enter(lambda _: begin(), again=again)
    try:
        if (given := await _awaited(request, asyncio.wrap_future(place.begun))) is None:
            raise BadRequest(GONE, 499)
        return given
    finally:
        if not place.begun.done():
            session.queue.take_back(place)


async def _awaited(request: Request, coming: asyncio.Future[Any]) -> Any:
    while not coming.done():
        if await request.is_disconnected():
            raise BadRequest(GONE, 499)
        await asyncio.wait([coming], timeout=LOOK_EVERY)
    return coming.result()


def _answer(session: Session, name: str, model: ModelInfo, choice: Choice) -> Reply:
    asked, chat = choice.asked, isinstance(choice.prompt, list) and isinstance(choice.prompt[0], dict)
    with session.turn(lambda: model.path):
        engine = session.assistant.engine
        assert engine is not None
        prompted = engine.target
        if any(token >= prompted.model.vocabulary.size for token in asked.bias):
            raise BadRequest(f"logit_bias has token ids that {prompted.model.name} does not know.")
        begun, messages = _begun(choice.prompt) if chat else (None, choice.prompt)
        prompt = _with_tools(messages, asked) if chat else _raw(choice.prompt, engine, asked)
        wanted = AnswerRequest(
            prompt, choice.sampling, asked.draft, begun, alternatives=asked.alternatives, bias=asked.bias,
            template_options=template_options(prompted.template, asked.template_options),
            scores_prompt=asked.echo and asked.alternatives is not None, writes=asked.writes,
        )  # fmt: skip
        template = wanted.told(prompted.template)
        wanted = replace(wanted, grammar=_checked_grammar(prompted.model, template, asked))
        echo, scores = "", None
        if asked.echo:  # ids as the text that was read
            echo = choice.prompt if isinstance(choice.prompt, str) else prompt.text
        if asked.alternatives is not None:
            scores = Logprobs(
                prompted.model.vocabulary, template.answer_prefix if chat else "", prompt.text if echo else ""
            )
        job = AnswerJob(session.assistant, wanted, listener=scores)
        if chat:
            read = partial(template.reader, asked.tools.schemas)
            reply = Reply(job, name, choice, ChatForm(job, read(), asked.tools.one, scores), read)
        else:
            reply = Reply(job, name, choice, TextForm(job, echo, scores), None)
        session.start(job)
        return reply


def _begun(messages: Any) -> tuple[Continued | None, Any]:
    """(what the assistant has said already, the messages before it): an answer that the client began is gone on with,
    and only what is new is told."""
    *earlier, last = messages
    return (Continued(last["content"]), earlier) if last["role"] == "assistant" else (None, messages)


def _raw(prompt: Prompt, engine: Engine, asked: CompletionRequest) -> RawText:
    if asked.suffix is not None:
        return _gap(prompt, asked.suffix, engine, asked.trims)
    if isinstance(prompt, str):
        return RawText(prompt)
    try:
        return RawText.of_ids(cast(list[int], prompt), engine.target.model.vocabulary)
    except ValueError:
        raise BadRequest(f"prompt has token ids that {engine.target.model.name} does not know.") from None


def _gap(prompt: Prompt, suffix: str, engine: Engine, trims: bool) -> RawText:
    if not isinstance(prompt, str):
        raise BadRequest("suffix needs a prompt that is a text.")
    try:
        return RawText.with_gap(prompt, suffix, engine.target.model.vocabulary, trims)
    except ValueError:
        raise BadRequest(
            f"{engine.target.model.name} does not fill gaps, so suffix cannot be used; Qwen2.5-Coder and StarCoder do."
        ) from None


def _checked_grammar(model: LanguageModel, template: ChatTemplate, asked: CompletionRequest) -> Grammar | None:
    """What the answer must follow; GrammarError if that is no grammar, BadRequest if tools are not known here."""
    grammar, tools = asked.form.grammar, asked.tools
    if tools.offered:
        if not template.supports_tools:
            raise BadRequest(f"The chat template of {model.name} does not support tools; choose another model.")
        if tools.forced:
            grammar = required_call(template, tools.forced)
    if grammar is None:
        return None
    if isinstance(asked.prompts[0], list) and isinstance(asked.prompts[0][0], dict):
        grammar = behind_thoughts(grammar, template)
    GrammarState(grammar, model.vocabulary)
    return grammar


def _with_tools(messages: Any, asked: CompletionRequest) -> Any:
    if not asked.tools.offered:
        return messages
    *earlier, last = messages
    return [*earlier, {**last, "tools": asked.tools.offered}]


def template_options(template: ChatTemplate, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a client tells the template, as that calls it. BadRequest for an option that would do nothing."""
    told: dict[str, Any] = {}
    for name, value in asked.items():
        variable = "reasoning_effort" if name == EFFORT else name
        known = template.known({variable: value}) or template.thinking.get(_word(variable, value))
        if known is None:
            raise BadRequest(f"{name[:100]} does nothing with the chat template of {template.name}; leave it out.")
        told |= known
    return told


def _word(name: str, value: Any) -> str:
    """What `SamplingSettings.thinking` would be, where a template has another name for it; else ""."""
    if name == "enable_thinking" and isinstance(value, bool):
        return "on" if value else "off"
    return _EFFORTS.get(value, value) if name == "reasoning_effort" and isinstance(value, str) else ""
