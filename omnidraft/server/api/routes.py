"""The OpenAI-compatible API over the same engine: models, chat completions, responses, completions, embeddings.

Nothing said through it is stored. It waits while another answer is being written, and stops writing when the client
goes away. A model it loads stays until the profile's own is asked something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from omnidraft.app import models_list
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.errors import OmniDraftError
from omnidraft.server.api import answers, errors, infill, responses
from omnidraft.server.api.embeddings import embed
from omnidraft.server.api.errors import error_reply, refused
from omnidraft.server.api.request import Chat, Text

_ALL = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
Handler = Callable[[Session, Request], Awaitable[Response]]


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    async def handled(request: Request, handler: Handler) -> Response:
        try:
            return await handler(session_of_request(sessions, request), request)
        except OmniDraftError as error:
            return refused(error)

    for method, handlers in {"GET": _READ, "POST": _WRITTEN}.items():
        for path, handler in handlers.items():
            app.add_route(path, partial(handled, handler=handler), [method])
    known = {route.path: route.methods for route in app.routes if isinstance(route, Route)}

    async def unknown(request: Request) -> Response:
        path = request.url.path
        return _unknown(request.method, path, known.get(path))

    for path in ("/infill", "/v1/{rest:path}"):
        app.add_route(path, unknown, _ALL)


async def _models(session: Session, _: Request) -> Response:
    known = models_list.identifiers(await run_in_threadpool(models_list.targets, session.assistant))
    return JSONResponse({"object": "list", "data": [errors.described(*one) for one in known.items()]})


async def _model(session: Session, request: Request) -> Response:
    return JSONResponse(errors.described(*await run_in_threadpool(errors.find, session, request.path_params["name"])))


_READ: dict[str, Handler] = {"/v1/models": _models, "/v1/models/{name:path}": _model}
_WRITTEN: dict[str, Handler] = {
    "/v1/chat/completions": partial(answers.complete, Chat),
    "/v1/completions": partial(answers.complete, Text),
    "/infill": partial(answers.complete, infill.Infill, form=infill),
    "/v1/responses": partial(answers.complete, responses.Responses, form=responses),
    "/v1/embeddings": embed,
}


def _unknown(method: str, path: str, methods: set[str] | None) -> Response:
    if methods is None:
        return error_reply(f"There is no {path[:80]} here.", 404, "unknown_url")
    taken = " and ".join(sorted(methods))
    asked = method == "OPTIONS"
    reply = Response(status_code=204) if asked else error_reply(f"{path} takes {taken}, not {method}.", 405)
    reply.headers["Allow"] = ", ".join(sorted(methods))
    return reply
