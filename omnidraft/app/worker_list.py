"""The workers a session has named, as a page shows them: who answers, with what, and which layers lie there."""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.app.session import Session
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.backends.remote.workers import Found, NoWorker, Plan, find
from omnidraft.errors import SettingsError
from omnidraft.settings.fields import Address, parse_address, parse_addresses

_SECONDS = 1.5  # that a page waits for a worker


@dataclass(frozen=True, slots=True)
class Named:
    """A worker. state: "at work", "ready" or the sentence that says why it is neither; layers: where they lie."""

    address: Address
    state: str
    found: Found | None = None
    layers: str = ""


def named(session: Session) -> list[Named]:
    """Every worker of the settings. Those at work for the loaded target are not asked: they serve one program."""
    loaded = plan(session)
    at_work = dict(zip(loaded.workers, loaded.found, strict=True)) if loaded is not None else {}
    addresses = parse_addresses(session.model_settings.workers)
    asked = [address for address in addresses if address not in at_work]
    answers = dict(zip(asked, find(asked, _SECONDS), strict=True))
    listed = []
    for address in addresses:
        if loaded is not None and address in at_work:
            listed.append(Named(address, "at work", at_work[address], _layers(loaded, address)))
        elif isinstance(answer := answers[address], NoWorker):
            listed.append(Named(address, str(answer)))
        else:
            listed.append(Named(address, "ready", answer))
    return listed


def plan(session: Session) -> Plan | None:
    """Where the layers of the loaded target lie; None if they all lie here, or its process is gone."""
    target = session.assistant.target
    return target.plan if isinstance(target, TargetProcess) and target.pid is not None else None


def add(session: Session, text: str) -> str:
    """Name one more worker; returns what to do now. SettingsError for what is no address, or is named already."""
    address = parse_address(text)
    known = parse_addresses(session.model_settings.workers)
    if address in known:
        raise SettingsError(f"The worker {address} is named already.")
    return session.spread(", ".join(map(str, (*known, address))))


def remove(session: Session, text: str) -> str:
    """Name a worker no more; a split, which counted it, goes too."""
    left = [address for address in parse_addresses(session.model_settings.workers) if str(address) != text]
    return session.spread(", ".join(map(str, left)))


def _layers(loaded: Plan, address: Address) -> str:
    held = [part for part in loaded.parts if part.layers and part.name.split(" ")[0] == str(address)]
    return ", ".join(f"{part.first + 1} to {part.last}" for part in held) or "none"
