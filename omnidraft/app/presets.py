"""A conversation's options as a preset of one's own, and back: what a preset holds, which model it means here."""

from __future__ import annotations

from pathlib import Path

from omnidraft.app import models_list
from omnidraft.app.conversing import answering, sampling_of
from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Preset


def preset_of(session: Session, chat: str, name: str) -> Preset:
    """System prompt, sampling and model of a conversation as they are in force now."""
    settings = session.store.get(chat)
    return Preset(name, settings.system, sampling_of(session, settings), settings.target or _model_name(session, chat))


def apply_preset(session: Session, chat: str, preset: Preset) -> Conversation:
    """Set the conversation to the preset, but for its model, which has to be loaded first."""
    sampling = preset.sampling or sampling_of(session, session.store.get(chat))
    own = None if sampling == session.settings.sampling else sampling
    return session.store.update(chat, system=preset.system, sampling=own)


def other_model(session: Session, chat: str, preset: Preset) -> tuple[Path | None, str]:
    """(the model to change to, if any; a sentence if the preset's model is not here)."""
    if preset.target is None:
        return None, ""
    found = models_list.find(models_list.targets(session.assistant), preset.target)
    if found is None:
        return None, f"Its model {preset.target} is not on this machine, so the model stays."
    now = answering(session, chat)
    return (None if now is not None and now.resolve() == found[1].path.resolve() else found[1].path), ""


def _model_name(session: Session, chat: str) -> str | None:
    file = answering(session, chat)
    return models_list.name_of(models_list.targets(session.assistant), file) if file else None
