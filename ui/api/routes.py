"""The OpenAI-compatible API: `/v1/models` and `/v1/chat/completions`, streaming and not, over the same engine.

Nothing said through it is stored. It waits while another answer is being written, and stops writing when the client
goes away. A model it loads stays until the profile's own is asked something. Served to this machine only, unless an
API key guards it. What a request may hold is in api_request.py, what comes back in api_reply.py.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from omnidraft.app import models_list
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.session import Session, StillAnswering
from omnidraft.app.sessions import Sessions
from omnidraft.backends.gguf_file import ModelInfo
from omnidraft.backends.grammar import Grammar, GrammarError, GrammarState
from omnidraft.backends.tool_calls import call_grammar, format_of
from omnidraft.engine import Engine
from omnidraft.errors import ContextFull, OmniDraftError, SettingsError
from ui.api.reply import Heard, Reply
from ui.api.request import Asked, BadRequest, read_body
from ui.common.request import session_of_request


def add_routes(app: FastAPI, sessions: Sessions, key: str | None, exposed: bool) -> None:
    """`key`: what clients must send as a bearer token. Without one an `exposed` server refuses its API altogether."""

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        session = session_of_request(sessions, request)
        known = models_list.identifiers(await run_in_threadpool(_targets, session))
        return JSONResponse({"object": "list", "data": [_described(*one) for one in known.items()]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        session = session_of_request(sessions, request)
        try:
            return JSONResponse(_described(*await run_in_threadpool(_find, session, name)))
        except BadRequest as error:
            return error_reply(str(error), error.status)

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        return await _complete(session_of_request(sessions, request), request)


async def _complete(session: Session, request: Request) -> Response:
    try:
        # Reading a large body or turning a schema into a grammar takes its time; others go on meanwhile.
        asked = await run_in_threadpool(Asked.of_body, session, await read_body(request))
        reply = await _start(session, asked, request)
    except BadRequest as error:
        return error_reply(str(error), error.status)
    except (SettingsError, GrammarError) as error:
        return error_reply(str(error), 400)
    except OmniDraftError as error:
        return error_reply(str(error), 503)
    if asked.stream:
        while not reply.job.over and not await run_in_threadpool(reply.job.wait, 0, 0.2):
            if await request.is_disconnected():
                reply.job.stop()
        if (refused := _failed(reply.job)) is not None:  # before the first word it can still be told with a status
            return refused
        return StreamingResponse(reply.stream(asked.usage), media_type="text/event-stream")
    job = reply.job
    try:
        while not job.over:
            if await request.is_disconnected():
                return error_reply("The client went away.", 499)
            await run_in_threadpool(job.join, 0.1)
    finally:
        job.stop()
    return _failed(job) or JSONResponse(reply.completion())


def _failed(job: AnswerJob) -> Response | None:
    """The refusal of a job that ended with an error; None while it has not."""
    if not job.error or not job.over:
        return None
    if isinstance(job.failure, ContextFull):
        return error_reply(job.error, 400, "context_length_exceeded")
    return error_reply(job.error, 400 if isinstance(job.failure, GrammarError) else 500)


def _refusal(request: Request, key: str | None, exposed: bool) -> Response | None:
    if key is None:
        if exposed:
            why = "This server is reachable from other machines; start it with --api-key to use its API."
            return error_reply(why, 403)
        return None
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if hmac.compare_digest(given.encode(), key.encode()):
        return None
    return error_reply("The API key is missing or wrong.", 401)


async def _start(session: Session, asked: Asked, request: Request) -> Reply:
    """The answer's job, as soon as no other answer is being written."""
    name, model = await run_in_threadpool(_find, session, asked.model)
    while True:
        if await request.is_disconnected():
            raise BadRequest("The client went away.", 499)
        if not session.busy:
            try:
                return await run_in_threadpool(_answer, session, name, model, asked)
            except StillAnswering:
                pass  # another one began in the meantime
        await asyncio.sleep(0.05)


def _answer(session: Session, name: str, model: ModelInfo, asked: Asked) -> Reply:
    with session.turn(guest=model.path):
        engine = session.assistant.engine
        form = format_of(engine.target.template.source) if asked.tools is not None else None
        heard = Heard(_markers(engine, form.markers)) if form is not None else None
        grammar = _checked_grammar(engine, asked)
        more: dict[str, Any] = {"watch": heard.watch} if heard is not None else {}
        job = session.answer(_with_tools(asked), asked.sampling, asked.draft, grammar=grammar, **more)
        return Reply(job, name, heard, asked.tools, form)


def _markers(engine: Engine, texts: tuple[str, ...]) -> dict[int, str]:
    """The control tokens among these texts, by id."""
    controls = engine.target.model.vocabulary.controls
    return {controls[text]: text for text in texts if text in controls}


def _checked_grammar(engine: Engine, asked: Asked) -> Grammar | None:
    """What the answer must follow; GrammarError if that is no grammar, BadRequest if tools are not known here."""
    grammar, tools, target = asked.grammar, asked.tools, engine.target
    if tools is not None:
        if not target.template.supports_tools:
            raise BadRequest(f"The chat template of {target.model.name} does not support tools; choose another model.")
        if tools.forced:
            grammar = call_grammar(format_of(target.template.source), tools.forced)
    if grammar is not None:
        GrammarState(grammar, target.model.vocabulary)
    return grammar


def _with_tools(asked: Asked) -> list[dict[str, Any]]:
    if asked.tools is None:
        return asked.messages
    *earlier, last = asked.messages
    return [*earlier, {**last, "tools": asked.tools.offered}]


def _targets(session: Session) -> list[ModelInfo]:
    """The models one can talk to."""
    return models_list.targets(models_list.scan(session.assistant))


def _find(session: Session, name: str) -> tuple[str, ModelInfo]:
    """The model of that id, or of that name in the pages; an empty one is the one that is loaded or would be."""
    known = _targets(session)
    if name:
        match = models_list.find(known, name)
    else:
        path = session.target_path().resolve()
        match = next((one for one in models_list.identifiers(known).items() if one[1].path.resolve() == path), None)
    if match is None:
        raise BadRequest(f"There is no model named {name[:100]}; /v1/models lists them.", 404)
    return match


def _described(name: str, model: ModelInfo) -> dict[str, Any]:
    created = int(model.path.stat().st_mtime) if model.path.exists() else 0
    return {"id": name, "object": "model", "created": created, "owned_by": "local"}


def error_reply(message: str | None, status: int, code: str | None = None) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code}}, status_code=status)
