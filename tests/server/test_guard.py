"""What the server refuses to do for other pages, other and other hosts, asked of the application itself."""

from __future__ import annotations

import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from omnidraft.app.sessions import Sessions
from omnidraft.chats import export_json
from omnidraft.errors import SettingsError
from omnidraft.server.guard.security import HEADERS, Guard
from omnidraft.settings.config import AppSettings
from omnidraft.storage.paths import find_data_home
from tests.exports import elsewhere
from ui.server import make_app

HERE = "http://127.0.0.1:7860"
READING = "od-reading"  # where files that were attached are read


@pytest.fixture
def guarded() -> Iterator[TestClient]:
    """An application behind the guard that lets every origin read, as Gradio does with those of this machine."""

    async def page(request):
        return PlainTextResponse("secret", headers={"access-control-allow-origin": "*"})

    app = Starlette(routes=[Route("/page", page, methods=["GET", "POST", "OPTIONS"])])
    with TestClient(Guard(app), base_url=HERE) as client:
        yield client


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("origin", ["http://127.0.0.1:3000", "http://localhost:7860", "http://evil.example", "null"])
def test_no_other_origin_reads_anything(guarded, method, origin):
    answer = guarded.request(method, "/page", headers={"Origin": origin, "Access-Control-Request-Method": "GET"})
    assert answer.status_code == 403
    assert "secret" not in answer.text
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["http://[bad", "http://[::1", "[", "http://]:1", "//[", "http://[v1.x]/", "\xff"])
def test_what_is_no_origin_is_another(guarded, origin):
    assert guarded.get("/page", headers={"Origin": origin.encode("latin-1")}).status_code == 403


@pytest.mark.parametrize("host", ["[::1", "[::1]evil", "[::1]evil:7860", "localhost:7860:1", "[localhost", "::1", "[",
                                  "]", "[]", "[::1]]", "127.0.0.1:x", "evil@localhost"])  # fmt: skip
def test_what_is_no_host_is_not_served(guarded, host):
    assert guarded.get("/page", headers={"Host": host}).status_code == 400
    for known in ("[::1]", "[::1]:7860", "LOCALHOST", "127.0.0.1:80"):
        assert guarded.get("/page", headers={"Host": known}).status_code == 200


PAGE = "http://localhost:3000"
ASKS = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Sec-Fetch-Site": "cross-site",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}  # fmt: skip


@pytest.fixture
def clients_page(tmp_path) -> Iterator[TestClient]:
    """All pages; those of another address may use the API if the settings say so."""
    home = find_data_home(tmp_path / "home")
    sessions = Sessions(home, "default")
    with TestClient(make_app(sessions), base_url=HERE) as client:
        client.session = sessions.get()
        yield client


def test_a_page_that_the_setting_names_may_use_the_api(clients_page):
    refused = clients_page.options("/v1/chat/completions", headers=ASKS)
    assert (refused.status_code, "allowed_origins" in refused.text) == (403, True)
    clients_page.session.change("allowed_origins", (PAGE,))
    asked = clients_page.options("/v1/chat/completions", headers=ASKS)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "x-stainless-os" in asked.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in asked.headers
    page = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
    listed = clients_page.get("/v1/models", headers=page)
    assert (listed.status_code, listed.headers["access-control-allow-origin"]) == (200, PAGE)
    unknown = clients_page.get("/v1/nothing", headers=page)
    assert (unknown.status_code, unknown.headers["access-control-allow-origin"]) == (404, PAGE), "it can read why"


def test_it_may_use_nothing_else_and_no_other_page_may(clients_page):
    clients_page.session.change("allowed_origins", (PAGE,))
    for path in ("/", "/config", "/gradio_api/info", "/v1"):
        assert clients_page.get(path, headers={"Origin": PAGE}).status_code == 403
    for origin in ("http://localhost:3001", "https://localhost:3000", "null", "http://evil.example"):
        assert clients_page.options("/v1/models", headers={**ASKS, "Origin": origin}).status_code == 403


@pytest.mark.parametrize(
    "entry", ["*", "null", "localhost:3000", "http://a/b", "http://a/", "http://u@a", "http://*.a"]
)
def test_what_is_no_address_of_a_page_is_refused_as_a_setting(entry):
    with pytest.raises(SettingsError, match="allowed_origins"):
        AppSettings(allowed_origins=(entry,))


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_other_pages_may_lead_here_but_not_fetch(guarded, site):
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert guarded.get("/page", headers=fetched).status_code == 403
    assert guarded.get("/page", headers={**fetched, "Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_the_own_pages_read(guarded):
    for headers in ({}, {"Origin": HERE}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert guarded.get("/page", headers=headers).text == "secret"


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Iterator[TestClient]:
    """All pages, without a server around them. Its data home held something that a killed app left."""
    home = find_data_home(tmp_path_factory.mktemp("home"))
    left = home.uploads / ("0" * 64) / "left.json"
    left.parent.mkdir(parents=True)
    left.write_text("from before")
    sessions = Sessions(home, "default")
    with TestClient(make_app(sessions), base_url=HERE) as client:
        client.home = home
        client.session = sessions.get()
        yield client


def event(app: TestClient, component: str, value: object) -> str:
    """Everything the server says about the event of an upload button."""
    config = app.get("/config").json()
    named = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
    events = config["dependencies"]
    arriving = next(d for d in events if d["id"] in config["page"][""]["dependencies"] and "load" in str(d["targets"]))
    one = next(d for d in events if any(named.get(target) == component for target, _ in d["targets"]))
    for about in (arriving, one):  # only a page that has arrived shows a conversation
        data = [value if named.get(number) == component else None for number in about["inputs"]]
        body = {"data": data, "fn_index": about["id"], "session_hash": "here"}
        if about is one and component == READING:
            body["event_data"] = {"number": 0, **value}
        assert app.post("/gradio_api/queue/join", json=body).status_code == 200
        said = app.get("/gradio_api/queue/data?session_hash=here").text
    return said


def uploaded(app: TestClient, name: str, data: bytes) -> dict:
    """What a page sends about a file that it uploaded."""
    (path,) = app.post("/gradio_api/upload", files={"files": (name, data)}).json()
    return {"path": path, "orig_name": name, "meta": {"_type": "gradio.FileData"}}


def kept(app: TestClient, mark: bytes) -> list:
    """Files that hold some words, in the system's temporary folder of uploads or in the data home's."""
    places = (app.home.uploads, Path(tempfile.gettempdir()) / "gradio")
    files = [file for place in places for file in place.rglob("*") if file.is_file()]
    return [file for file in files if mark in file.read_bytes()]


def test_uploads_lie_in_the_data_home_and_go_when_they_were_read(app):
    assert kept(app, b"from before") == []
    mark = b"Brunhilde eats acorns"
    store = app.session.store
    store.append(store.create(title="T").id, "user", mark.decode())
    chat = uploaded(app, "chat.json", elsewhere(export_json(store)).encode())
    assert [file.parent.parent for file in kept(app, mark)] == [app.home.uploads]
    assert '"success":true' in event(app, "od-import", chat)
    assert [c.title for c in store.conversations()] == ["T", "T"]
    assert kept(app, mark) == []
    assert '"success":true' in event(app, "od-import", uploaded(app, "bad.json", b"{ " + mark))
    assert kept(app, mark) == []
    assert '"success":true' in event(app, READING, uploaded(app, "text.txt", mark))
    assert kept(app, mark) == []
    assert [folder for folder in app.home.uploads.iterdir() if folder.is_dir()] == []


def test_what_was_uploaded_and_not_read_is_forgotten_with_everything(app):
    uploaded(app, "chat.md", b"Brunhilde sleeps")
    assert len(kept(app, b"Brunhilde sleeps")) == 1
    app.session.assistant.forget_everything(app.session.store)
    assert kept(app, b"Brunhilde sleeps") == []


def test_what_is_forgotten_is_not_brought_back(app):
    deleted = app.session.deleted
    mark = deleted.delete([app.session.store.create().id])
    assert '"success":true' in event(app, "od-forget-typed", "forget everything")
    assert deleted.bring_back(mark) == []


def test_a_folder_that_a_request_names_stays(app):
    kept_one = uploaded(app, "mine.txt", b"somebody else's")
    folder = {"path": str(app.home.uploads), "meta": {"_type": "gradio.FileData"}}
    for component, value in (("od-import", folder), (READING, folder)):
        event(app, component, value)
    assert Path(kept_one["path"]).read_bytes() == b"somebody else's"


def test_a_file_that_was_not_uploaded_is_neither_read_nor_served(app):
    file = app.home.profile("default").root / "mine.txt"
    file.write_text("Who is Brunhilde?")
    assert app.get(f"/gradio_api/file={file}").status_code in (403, 404)
    given = {"path": str(file), "orig_name": "mine.txt", "meta": {"_type": "gradio.FileData"}}
    for component, value in (("od-import", given), (READING, given)):
        said = event(app, component, value)
        assert '"success":false' in said
        assert "Who is" not in said
    assert file.exists()


@pytest.fixture
def lookups(monkeypatch) -> list[str]:
    """The names that were looked up, in whichever way: nothing is sent while this is in force."""
    import httpx

    asked: list[str] = []

    async def handle(self, request):
        asked.append(str(request.url))
        raise httpx.ConnectError("not in tests")

    def resolve(host, *_, **__):
        asked.append(str(host))
        raise socket.gaierror("not in tests")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


ELSEWHERE = "http://collector.example/x.txt"


@pytest.mark.parametrize("component", ["od-import", READING])
@pytest.mark.parametrize("file", [
    {"path": ELSEWHERE}, {"path": "x.txt", "url": ELSEWHERE}, {"path": ELSEWHERE, "url": ELSEWHERE, "is_stream": True},
])  # fmt: skip
def test_a_file_that_is_an_address_is_never_looked_up(app, lookups, component, file):
    given = {**file, "meta": {"_type": "gradio.FileData"}}
    event(app, component, given)
    assert lookups == []


@pytest.mark.parametrize("path", [
    f"/gradio_api/file={ELSEWHERE}", f"/gradio_api/proxy={ELSEWHERE}", "/gradio_api/proxy=https://x.hf.space/file=a",
    f"/file={ELSEWHERE}", "/gradio_api/file=https://collector.example/x",
])  # fmt: skip
def test_no_route_fetches_an_address(app, lookups, path):
    assert app.get(path).status_code >= 400 or "collector" not in app.get(path).text
    assert lookups == []


def test_a_full_disk_is_a_sentence_on_every_route(app, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("omnidraft.storage.database._migrate", full)
    new = {"Cookie": "omnidraft_profile=new"}
    (app.home.profiles / "new").mkdir()
    app.cookies.clear()  # what earlier answers set would stand in place of this one
    listed = app.get("/v1/models", headers=new)
    assert listed.status_code == 503
    assert "cannot be used: database or disk is full." in listed.json()["error"]["message"]
    assert app.get("/export/x.json", headers=new).status_code == 503


def test_a_file_there_is_no_room_for_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # the app sets it; what it is then shall not outlive this test
    home = find_data_home(tmp_path / "home")
    with TestClient(make_app(Sessions(home, "default")), base_url=HERE, raise_server_exceptions=False) as client:
        home.uploads.rmdir()
        home.uploads.write_bytes(b"")  # nothing can be put there
        sent = client.post("/gradio_api/upload", files={"files": ("a.txt", b"text")})
    assert (sent.status_code, sent.text[:24]) == (503, "This could not be kept: ")


# Asked of the real server: host names, and what every response carries.


def request(server, method: str = "GET", path: str = "/", **headers: str) -> tuple[int, dict, bytes]:
    return server.ask(method, path, headers={"Host": f"127.0.0.1:{server.port}", **headers})


def test_other_machines_are_not_served(server):
    sockets = psutil.Process(server.process.pid).net_connections()
    assert [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN] == ["127.0.0.1"]


def test_other_names_are_refused(server):
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.", ""):
        assert request(server, Host=host)[0] == 400


def test_every_response_carries_the_policy(server):
    for path in ("/", "/theme.css", "/gradio_api/info", "/nothing-here"):
        assert HEADERS.items() <= request(server, path=path)[1].items()
    assert "img-src 'self' data: blob:" in HEADERS["content-security-policy"]
    assert "http" not in HEADERS["content-security-policy"]


def test_no_event_is_a_public_endpoint_and_nothing_is_recorded(server):
    body = request(server, path="/gradio_api/info")[2].decode()
    assert '"named_endpoints":{}' in body.replace(" ", "")
    assert '"unnamed_endpoints":{}' in body.replace(" ", "")
    for path in ("/monitoring", "/gradio_api/runs", "/docs", "/openapi.json", "/redoc"):
        assert request(server, path=path)[0] in (403, 404), path
