"""Which profile a request belongs to. The only place that reads it, so one rule decides for all pages and the API.

With accounts it is the name that signed in. Without, it is the profile this browser picked, if there is such a one.
"""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import Request

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import SettingsError

COOKIE = "omnidraft_profile"


def session_of_request(sessions: Sessions, request: Request) -> Session:
    """The session of the profile that a request belongs to."""
    if sessions.accounts is not None:
        # The gate let nobody through without a name; anything else is a defect and must not fall back to a profile.
        return sessions.get(request.scope["omnidraft_user"])
    picked = unquote(request.cookies.get(COOKIE, ""))
    return sessions.get(picked if picked and _exists(sessions, picked) else None)


def _exists(sessions: Sessions, name: str) -> bool:
    try:
        return sessions.home.profile(name, create=False).root.is_dir()
    except SettingsError:
        return False
