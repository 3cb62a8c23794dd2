"""The OpenAI-compatible API: `/v1/models` and `/v1/chat/completions`, streaming and not, over the same engine.

Nothing said through it is stored. It waits while another answer is being written, and stops writing when the client
goes away. Served to this machine only, unless an API key guards it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from omnidraft.backends.gguf_file import ModelInfo
from omnidraft.config import DraftSettings, SamplingSettings
from omnidraft.errors import ModelError, OmniDraftError, SettingsError
from ui import models_list
from ui.answer_job import AnswerJob
from ui.request import session_of_request
from ui.session import Session, Sessions

MAX_BODY = 8 << 20
REASONS = {"stop": "stop", "stop_string": "stop", "length": "length", "context": "length", "cancelled": "stop"}
ROLES = ("system", "developer", "user", "assistant")
_UNSUPPORTED = ("tools", "tool_choice", "functions", "response_format", "logprobs", "logit_bias", "audio", "modalities")
_SAMPLING = {"temperature": float, "top_p": float, "seed": int, "top_k": int, "min_p": float, "repeat_penalty": float}


class BadRequest(OmniDraftError):
    """The request asks for something that is not there or not understood."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def add_routes(app: FastAPI, sessions: Sessions, key: str | None, exposed: bool) -> None:
    """`key`: what clients must send as a bearer token. Without one an `exposed` server refuses its API altogether."""

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        session = session_of_request(sessions, request)
        found = models_list.targets(await run_in_threadpool(models_list.scan, session.assistant))
        return JSONResponse({"object": "list", "data": [_described(model) for model in found]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        session = session_of_request(sessions, request)
        try:
            return JSONResponse(_described(await run_in_threadpool(_find, session, name)))
        except BadRequest as error:
            return _error(str(error), error.status)

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> Response:
        if (refusal := _refusal(request, key, exposed)) is not None:
            return refusal
        session = session_of_request(sessions, request)
        try:
            body = await _body(request)
            job = await _start(session, body, request)
        except BadRequest as error:
            return _error(str(error), error.status)
        except SettingsError as error:
            return _error(str(error), 400)
        except OmniDraftError as error:
            return _error(str(error), 503)
        name = session.target_name()
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return StreamingResponse(_stream(job, name, usage), media_type="text/event-stream")
        try:
            while not job.over:
                if await request.is_disconnected():
                    return _error("The client went away.", 499)
                await run_in_threadpool(job.join, 0.1)
        finally:
            job.stop()
        return _error(job.error, 500) if job.error else JSONResponse(_completion(job, name))


def _refusal(request: Request, key: str | None, exposed: bool) -> Response | None:
    if key is None:
        if exposed:
            return _error("This server is reachable from other machines; start it with --api-key to use its API.", 403)
        return None
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if hmac.compare_digest(given.encode(), key.encode()):
        return None
    return _error("The API key is missing or wrong.", 401)


async def _body(request: Request) -> dict[str, Any]:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise BadRequest("The request is too large.", 413)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequest("The request is not JSON.") from None
    if not isinstance(body, dict):
        raise BadRequest("The request is not a JSON object.")
    if body.get("n") not in (None, 1):
        raise BadRequest("n must be 1.")
    for name in _UNSUPPORTED:
        if body.get(name) not in (None, False, [], {}, {"type": "text"}):
            raise BadRequest(f"{name} is not supported by this server.")
    return body


async def _start(session: Session, body: dict[str, Any], request: Request) -> AnswerJob:
    """The answer's job, as soon as no other answer is being written."""
    messages = _messages(body.get("messages"))
    sampling = _sampling(session.settings.sampling, body)
    draft = _draft(session.settings.draft, body)
    model = await run_in_threadpool(_find, session, str(body.get("model") or ""))
    while True:
        if await request.is_disconnected():
            raise BadRequest("The client went away.", 499)
        if not session.busy:
            try:
                return await run_in_threadpool(_answer, session, model, messages, sampling, draft)
            except ModelError:
                if not session.busy:
                    raise
        await asyncio.sleep(0.05)


def _answer(
    session: Session, model: ModelInfo, messages: list, sampling: SamplingSettings, draft: DraftSettings
) -> Any:
    if session.loaded is None or session.loaded.resolve() != model.path.resolve():
        session.load(model.path)
    return session.answer(messages, sampling, draft)


def _messages(given: Any) -> list[dict[str, str]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message.")
    found = []
    for message in given:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise BadRequest(f"Every message needs one of the roles {', '.join(ROLES)}.")
        found.append({"role": "system" if role == "developer" else role, "content": _text(message.get("content"))})
    if found[-1]["role"] != "user":
        raise BadRequest("The last message must be the user's.")
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else None
    if parts is None or not all(isinstance(p, dict) and p.get("type") == "text" for p in parts):
        raise BadRequest("A message's content must be text, or a list of text parts.")
    return "".join(str(p.get("text", "")) for p in parts)


def _sampling(settings: SamplingSettings, body: dict[str, Any]) -> SamplingSettings:
    values: dict[str, Any] = {}
    for name, kind in _SAMPLING.items():
        value = body.get(name)
        if value is not None:
            values[name] = float(value) if kind is float and isinstance(value, int) else value
    longest = body.get("max_completion_tokens") or body.get("max_tokens")
    if longest is not None:
        values["max_tokens"] = longest
    stop = body.get("stop")
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return replace(settings, **values)


def _draft(settings: DraftSettings, body: dict[str, Any]) -> DraftSettings:
    speculation = body.get("speculation")
    return settings if speculation is None else replace(settings, enabled=bool(speculation))


def _find(session: Session, name: str) -> ModelInfo:
    """The model of that id; an empty name is the one that is loaded or would be."""
    found = models_list.targets(models_list.scan(session.assistant))
    if not name:
        path = session.target_path().resolve()
        match = next((m for m in found if m.path.resolve() == path), None)
    else:
        match = next((m for m in found if name in (m.path.stem, m.name)), None)
    if match is None:
        raise BadRequest(f"There is no model named {name[:100]}; /v1/models lists them.", 404)
    return match


def _described(model: ModelInfo) -> dict[str, Any]:
    created = int(model.path.stat().st_mtime) if model.path.exists() else 0
    return {"id": model.path.stem, "object": "model", "created": created, "owned_by": "local"}


def _completion(job: AnswerJob, name: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": job.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(job)}
    return {**_head(name, "chat.completion"), "choices": [choice], "usage": _usage(job), "omnidraft": _statistics(job)}


async def _stream(job: AnswerJob, name: str, with_usage: bool) -> AsyncIterator[str]:
    head = _head(name, "chat.completion.chunk")
    sent, seen = 0, -1
    try:
        yield _event(head, {"role": "assistant", "content": ""}, None)
        while True:
            over = job.over
            text = job.text
            if len(text) > sent:
                yield _event(head, {"content": text[sent:]}, None)
                sent = len(text)
            if over:
                break
            seen = await run_in_threadpool(job.wait, seen, 1.0)
        if job.error:
            yield f"data: {json.dumps({'error': {'message': job.error, 'type': 'server_error'}})}\n\n"
        else:
            yield _event({**head, "omnidraft": _statistics(job)}, {}, _reason(job))
            if with_usage:
                yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(job)})}\n\n"
        yield "data: [DONE]\n\n"
    finally:
        job.stop()  # also when the client went away


def _head(name: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "object": kind, "created": int(time.time()), "model": name}


def _event(head: dict[str, Any], delta: dict[str, str], reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return f"data: {json.dumps({**head, 'choices': [choice]}, ensure_ascii=False)}\n\n"


def _reason(job: AnswerJob) -> str:
    return REASONS.get(job.live.finish_reason or "", "stop")


def _usage(job: AnswerJob) -> dict[str, Any]:
    s = job.live.statistics
    return {
        "prompt_tokens": s.prompt_tokens,
        "completion_tokens": s.tokens,
        "total_tokens": s.prompt_tokens + s.tokens,
        "prompt_tokens_details": {"cached_tokens": s.reused_tokens},
        "completion_tokens_details": {"accepted_prediction_tokens": s.accepted,
                                      "rejected_prediction_tokens": s.proposed - s.accepted},
    }  # fmt: skip


def _statistics(job: AnswerJob) -> dict[str, Any]:
    """What drafting did, beside what OpenAI's format can say."""
    s = job.live.statistics
    return {
        "drafted": s.drafted,
        "proposed": s.proposed,
        "accepted": s.accepted,
        "acceptance_rate": s.acceptance_rate,
        "tokens_per_pass": s.tokens_per_pass,
        "tokens_per_second": s.tokens_per_second,
        "seed": job.live.seed,
        "draft_disabled_reason": job.live.disabled_reason,
    }


def _error(message: str | None, status: int) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status_code=status)
