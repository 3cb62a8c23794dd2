"""`/v1/embeddings`: what a request holds, checked, and the vectors in OpenAI's format."""

from __future__ import annotations

import base64
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, Field
from starlette.concurrency import run_in_threadpool

from omnidraft.app.embedding import NoEmbeddings
from omnidraft.app.session import Session
from omnidraft.app.waiting import Job
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.server.api import errors
from omnidraft.server.api.answers import unless_gone, when_idle
from omnidraft.server.api.body import Body, Texts, json_body, read_body
from omnidraft.server.api.errors import error_reply, refused

MAX_INPUTS = 2048


def _full(texts: list[Any]) -> list[Any]:
    if not all(texts):
        raise ValueError("must not be empty")
    return texts


class Wanted(Body):
    """What a request may hold. dimensions: how long the vectors are expected to be; None: as they are."""

    model: str = ""
    input: Annotated[Texts, Field(max_length=MAX_INPUTS), AfterValidator(_full)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


async def embed(session: Session, request: Request) -> Response:
    wanted = await run_in_threadpool(lambda data: Wanted.read(json_body(data)), await read_body(request))
    name, model = await run_in_threadpool(errors.find, session, wanted.model)
    job: Job = await when_idle(session, request, partial(_begin, session, model, wanted))
    await unless_gone(job, request, job.join)
    if job.failure is not None:
        return refused(job.failure, 400 if isinstance(job.failure, NoEmbeddings) else 500)
    vectors, tokens = job.result
    if wanted.dimensions not in (None, vectors.shape[1]):
        return error_reply(f"dimensions can only be {vectors.shape[1]} with {name}; leave it out.", 400)
    return JSONResponse(_reply(name, vectors, tokens, wanted.encoding_format == "base64"))


def _begin(session: Session, model: ModelInfo, wanted: Wanted) -> Job:
    with session.turn(lambda: model.path):
        assistant = session.assistant
        job = Job(lambda: assistant.embed(wanted.input, lambda: job.stopped), assistant.stop, "embedding")
        return session.start(job)


def _reply(name: str, vectors: np.ndarray, tokens: int, encoded: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": at, "embedding": _encoded(vector) if encoded else vector.tolist()}
            for at, vector in enumerate(vectors)
        ],
        "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _encoded(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
