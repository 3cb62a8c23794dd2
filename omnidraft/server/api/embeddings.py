"""`/v1/embeddings`: what a request holds, checked, and the vectors in OpenAI's format."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from omnidraft.app.embedding import EmbeddingJob, NoEmbeddings
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.server.api import errors
from omnidraft.server.api.answers import GONE, ends, when_idle
from omnidraft.server.api.errors import BadRequest, error_reply, field, json_body, read_body, refused, texts, whole
from omnidraft.server.api.request import refuse_unknown

MAX_INPUTS = 2048


_KNOWN = frozenset(("model", "input", "encoding_format", "dimensions"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """dimensions: how long the vectors are expected to be; None: as they are."""

    model: str
    texts: list[str | list[int]]
    encoded: bool
    dimensions: int | None

    @classmethod
    def of(cls, data: bytes) -> Wanted:
        body = json_body(data)
        refuse_unknown(body, _KNOWN)
        form = field(body, "encoding_format", str) or "float"
        if form not in ("float", "base64"):
            raise BadRequest("encoding_format must be float or base64.")
        dimensions = whole(body, "dimensions", 1, 1_000_000)
        given = texts(body, "input", MAX_INPUTS)
        if not all(given):
            raise BadRequest("input must not be empty.")
        return cls(field(body, "model", str) or "", given, form == "base64", dimensions)


async def embed(session: Session, request: Request) -> Response:
    wanted = await run_in_threadpool(Wanted.of, await read_body(request))
    name, model = await run_in_threadpool(errors.find, session, wanted.model)
    job: EmbeddingJob = await when_idle(session, request, partial(_begin, session, model, wanted))
    if not await ends(job, request):
        return error_reply(GONE, 499)
    if job.failure is not None:
        return refused(job.failure, 400 if isinstance(job.failure, NoEmbeddings) else 500)
    assert job.vectors is not None
    if wanted.dimensions not in (None, job.vectors.shape[1]):
        return error_reply(f"dimensions can only be {job.vectors.shape[1]} with {name}; leave it out.", 400)
    return JSONResponse(_reply(name, job.vectors, job.tokens, wanted.encoded))


def _begin(session: Session, model: ModelInfo, wanted: Wanted) -> EmbeddingJob:
    with session.turn(lambda: model.path):
        return session.start(EmbeddingJob(session.assistant, wanted.texts))


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
