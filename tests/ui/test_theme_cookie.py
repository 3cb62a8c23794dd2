"""The stored theme wins over a browser's cookie, whichever page it arrives at."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from omnidraft.settings.config import AppSettings
from ui.common.frame import Frame


def told(stored: str, path: str, cookie: str | None) -> str | None:
    """The theme that comes with a page of a profile; None where nothing is said."""
    session = SimpleNamespace(settings=AppSettings(theme=stored))
    app = Frame(PlainTextResponse("page"), sessions=SimpleNamespace(get=lambda profile=None: session))
    client = TestClient(app, cookies={} if cookie is None else {"omnidraft_theme": cookie})
    response = client.get(path)
    assert response.text == "page"
    said = response.headers.get("set-cookie", "")
    return said.partition(";")[0].partition("=")[2] or None


@pytest.mark.parametrize("path", ["/", "/models", "/models/", "/settings"])
@pytest.mark.parametrize(
    ("stored", "cookie", "expected"),
    [
        ("dark", None, "dark"),
        ("dark", "light", "dark"),
        ("light", "nonsense", "light"),
        ("system", "dark", "system"),
        ("dark", "dark", None),
        ("system", None, None),
    ],
)
def test_a_page_comes_with_the_stored_theme_where_the_browser_has_another(path, stored, cookie, expected):
    assert told(stored, path, cookie) == expected


def test_nothing_but_pages_does():
    for path in ("/theme.css", "/gradio_api/info", "/v1/models"):
        assert told("dark", path, None) is None
