"""What the server refuses to do for other pages, other hosts and strangers, asked of the application itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from omnidraft.profiles.accounts import Accounts, add_account
from ui.guard import auth
from ui.guard.security import Guard

HERE = "http://127.0.0.1:7860"


@pytest.fixture
def guarded() -> Iterator[TestClient]:
    """An application behind the guard that lets every origin read, as Gradio does with those of this machine."""

    async def page(request):
        return PlainTextResponse("secret", headers={"access-control-allow-origin": "*"})

    app = Starlette(routes=[Route("/page", page, methods=["GET", "POST", "OPTIONS"])])
    with TestClient(Guard(app, ["127.0.0.1", "localhost"]), base_url=HERE) as client:
        yield client


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("origin", ["http://127.0.0.1:3000", "http://localhost:7860", "http://evil.example", "null"])
def test_no_other_origin_reads_anything(guarded, method, origin):
    answer = guarded.request(method, "/page", headers={"Origin": origin, "Access-Control-Request-Method": "GET"})
    assert answer.status_code == 403
    assert "secret" not in answer.text
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_other_pages_may_lead_here_but_not_fetch(guarded, site):
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert guarded.get("/page", headers=fetched).status_code == 403
    assert guarded.get("/page", headers={**fetched, "Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_the_own_pages_read(guarded):
    for headers in ({}, {"Origin": HERE}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert guarded.get("/page", headers=headers).text == "secret"


@pytest.fixture
def signing_in(tmp_path) -> Iterator[TestClient]:
    add_account(tmp_path / "accounts", "ada", "correct horse")
    accounts = Accounts(tmp_path / "accounts")
    app = FastAPI()
    app.add_middleware(auth.Gate, accounts=accounts)
    auth.add_routes(app, accounts)
    app.get("/v1/models")(lambda: "models")
    with TestClient(app, base_url=HERE, follow_redirects=False) as client:
        yield client


def test_too_many_tries_to_sign_in_are_told_when_to_come_again(signing_in):
    tried = [signing_in.post("/login", data={"name": "ada", "password": "wrong horse"}) for _ in range(6)]
    assert [answer.status_code for answer in tried] == [401] * 5 + [429]
    assert int(tried[-1].headers["retry-after"]) >= 1
    assert "Too many tries to sign in" in tried[-1].text


def test_the_same_for_keys_of_the_api_and_the_right_key_passes(signing_in):
    right, wrong = ({"Authorization": f"Bearer ada:{word} horse"} for word in ("correct", "wrong"))
    assert signing_in.get("/v1/models", headers=right).status_code == 200
    tried = [signing_in.get("/v1/models", headers=wrong) for _ in range(6)]
    assert [answer.status_code for answer in tried] == [401] * 5 + [429]
    assert int(tried[-1].headers["retry-after"]) >= 1
    time.sleep(0.15)
    assert signing_in.get("/v1/models", headers=right).status_code == 200
