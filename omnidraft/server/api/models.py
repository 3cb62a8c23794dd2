"""The models that the API lists and takes: those one can talk to."""

from __future__ import annotations

from typing import Any

from omnidraft.app import models_list
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.server.api.errors import BadRequest


def find(session: Session, name: str) -> tuple[str, ModelInfo]:
    """The model of that id, or of that name in the pages; an empty one is the one that is loaded or would be."""
    known = models_list.targets(session.assistant)
    if name:
        match = models_list.find(known, name)
    else:
        path = session.target_path().resolve()
        match = next((one for one in models_list.identifiers(known).items() if one[1].path.resolve() == path), None)
    if match is None:
        raise BadRequest(f"There is no model named {name[:100]}; /v1/models lists them.", 404, "model_not_found")
    return match


def described(name: str, model: ModelInfo) -> dict[str, Any]:
    created = int(model.path.stat().st_mtime) if model.path.exists() else 0
    return {"id": name, "object": "model", "created": created, "owned_by": "local"}
