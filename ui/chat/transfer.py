"""Conversations in and out of the app: the routes that exporting and copying ask, and the import of an upload."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.backends.pictures import media_type
from omnidraft.chats import ChatStore, Conversation, export_json, export_markdown, import_json
from omnidraft.chats.foreign.reading import is_zip, read_foreign
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.format import counted
from omnidraft.storage.files import reason


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """What a profile's pages link to: a conversation as `/export/ID.md` and `.json`, several as
    `/export/ID+ID.json`, every one as `/export/all.json`, a picture, a message."""

    @app.get("/export/{name}")
    def export(name: str, request: Request) -> Response:
        session = session_of_request(sessions, request)
        chat, _, kind = name.rpartition(".")
        try:
            chats = [one.id for one in session.store.conversations()] if chat == "all" else chat.split("+")
            title = session.store.get(chat).title if chats == [chat] else "conversations"
            if kind == "md":
                return _file(export_markdown(session.store, chat), "text/markdown", title, ".md")
            if kind == "json":
                return _file(export_json(session.store, chats), "application/json", title, ".json")
        except OmniDraftError as error:
            return Response(str(error), status_code=404, media_type="text/plain")
        return Response("There is no such file.", status_code=404, media_type="text/plain")

    @app.get("/picture/{digest}")
    def picture(digest: str, request: Request) -> Response:
        """Never kept by the browser: what is forgotten here shall be gone, and what is encrypted stays so."""
        if (data := session_of_request(sessions, request).store.pictures.get(digest)) is None:
            return PlainTextResponse("This picture is damaged or missing.", status_code=404)
        return Response(data, media_type=media_type(data), headers={"cache-control": "no-store"})

    @app.get("/message/{name}")
    def message(name: str, request: Request) -> Response:
        try:
            return PlainTextResponse(session_of_request(sessions, request).store.message(name).content)
        except OmniDraftError as error:
            return PlainTextResponse(str(error), status_code=404)


def import_file(store: ChatStore, file: Path) -> tuple[list[Conversation], str]:
    """The conversations of an uploaded file, added to the store, and a sentence about them.

    A file of ours, or an export of ChatGPT, Open WebUI or LM Studio. StorageError says why none could be added.
    """
    data, zipped = _read(file), is_zip(file)
    if zipped or data.lstrip().removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        if (brought := read_foreign(file)) is not None:
            return store.insert(brought.conversations), brought.sentence()
        if zipped:
            raise StorageError("The file cannot be imported: the archive holds no conversations of a known program.")
    added, there = import_json(store, data)
    said = f"{counted(len(added), 'conversation')} {'was' if len(added) == 1 else 'were'} imported"
    return added, f"{said}; {there:,} {'was' if there == 1 else 'were'} here already." if there else f"{said}."


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StorageError(f"{file.name} cannot be read: {reason(error)}.") from error


def _file(text: str, kind: str, title: str, suffix: str) -> Response:
    """Named after the title, without the marks that end one and would stand beside the suffix's."""
    safe = "".join(c if c.isalnum() or c in " ._-" else "_" for c in title).strip(" ._") or "conversation"
    header = f"attachment; filename*=UTF-8''{quote(safe + suffix)}"
    return Response(text, media_type=f"{kind}; charset=utf-8", headers={"content-disposition": header})
