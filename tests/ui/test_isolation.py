"""With accounts, every event and route of the pages works on the signed-in profile alone.

Requests are made by hand, as somebody would who wants what is not theirs: every event a page has, every answer read.
"""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from omnidraft.chats import ChatStore
from omnidraft.lab.schedule import BUNDLED
from omnidraft.lab.store import Options, Point, RunStore, runs_folder
from omnidraft.profiles.accounts import add_account
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from tests.ui.conftest import SETTINGS, Server, write_settings

SECRET = "Brunhilde"
PASSWORD = "correct horse"
PAGES = ("learning", "drift-lab", "models")
KEPT = "<b>1</b><small>answers kept to learn from"


@dataclass(frozen=True, slots=True)
class Belongings:
    """What ada has: a conversation, a drift run, a prompt file, a model, and an answer kept to learn from."""

    chat: str
    run: str
    prompts: Path
    model: Path

    @property
    def marks(self) -> tuple[str, ...]:
        """Words that no answer to anybody else may hold."""
        return (SECRET, self.chat, self.run, "profiles/ada")


@dataclass
class Person:
    """Somebody who signed in, or nobody, with one page of theirs open."""

    server: Server
    cookie: str = ""
    stream: str = field(default_factory=lambda: secrets.token_hex(6))

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        """Status and text of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=240)
        sent = {"Cookie": self.cookie, **({"Content-Type": "application/json"} if body is not None else {}), **headers}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        connection.close()
        return response.status, text

    def event(self, number: int, data: list, happening: dict | None = None, stream: str | None = None) -> str:
        """Everything the server says about one event of a page, until it is done."""
        stream = stream or self.stream
        body = {"data": data, "fn_index": number, "session_hash": stream, "event_data": happening}
        status, text = self.ask("POST", "/gradio_api/queue/join", body)
        assert status == 200, text
        status, text = self.ask("GET", f"/gradio_api/queue/data?session_hash={stream}")
        assert status == 200, text
        assert '"process_completed"' in text
        return text


def sign_in(server: Server, name: str) -> Person:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", f"name={name}&password={quote(PASSWORD)}", form)
    cookie = connection.getresponse().getheader("set-cookie").partition(";")[0]
    connection.close()
    return Person(server, cookie)


def furnish(home: Path) -> Belongings:
    """Give ada what nobody else may see, before the app starts."""
    profile = find_data_home(home).profile("ada")
    chats = ChatStore(profile.chats)
    chat = chats.create(title=f"{SECRET} asks").id
    chats.append(chat, "user", f"What does {SECRET} eat?")
    chats.close()
    lab = RunStore(runs_folder(profile))
    model = BUNDLED_MODELS / "tiny-target-a-f16.gguf"
    run = lab.create(BUNDLED["step"].changed(count=2), {"tiny-target-a": model}, model, Options())
    run.points.append(Point(0, 0, SECRET, "math", SECRET, 9, 5, 5 / 9, 20, 9, 2.2, 400.0, None, None, 9, 1, False,
                            False, None, 0.1))  # fmt: skip
    run.status = "stopped"
    lab.save(run)
    prompts = lab.folder / "prompts" / f"{SECRET}.txt"
    prompts.parent.mkdir()
    prompts.write_text(f"Who is {SECRET}?\n")
    trained = profile.root / "exported" / f"{SECRET}.gguf"
    trained.parent.mkdir()
    shutil.copy(model, trained)
    return Belongings(chat, run.id, prompts, trained)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> tuple[Server, Belongings]:
    root = tmp_path_factory.mktemp("isolation")
    for name in ("ada", "grace"):
        add_account(root / "accounts", name, PASSWORD)
    made = Server(root / "app", ["--auth-file", str(root / "accounts"), "--api-key", "unused"])
    for name in ("ada", "grace"):
        write_settings(made, SETTINGS, name)
    hers = furnish(made.data / "home")
    made.start()
    yield made, hers
    made.kill()


@pytest.fixture(scope="module")
def server(guarded) -> Server:
    return guarded[0]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a page: its number, what it is called, and the names of the components it reads."""

    page: str
    number: int
    name: str
    inputs: tuple[str, ...]
    targets: tuple[tuple[str, str], ...]

    def of(self, component: str) -> bool:
        return any(name == component for name, _ in self.targets)


def events_of(person: Person, pages: tuple[str, ...] = PAGES) -> list[Event]:
    """Every event of some pages, as the server itself lists them."""
    config = json.loads(person.ask("GET", "/config")[1])
    named = {part["id"]: part["props"].get("elem_id") or part["type"] for part in config["components"]}
    known = {one["id"]: one for one in config["dependencies"]}
    found = []
    for page in pages:
        for number in config["page"][page]["dependencies"]:
            one = known[number]
            targets = tuple((named.get(component, page), kind) for component, kind in one["targets"])
            found.append(Event(page, number, one["api_name"], tuple(named[i] for i in one["inputs"]), targets))
    return found


def the(events: list[Event], component: str) -> int:
    """The number of a component's event."""
    return next(event.number for event in events if event.of(component))


def arriving(events: list[Event]) -> int:
    """The number of the event that fills a page."""
    return next(event.number for event in events if "load" in dict(event.targets).values())


@pytest.fixture(scope="module")
def hers(guarded) -> Belongings:
    """ada's things, one answer more of which is kept to learn from."""
    server, belongings = guarded
    ada = sign_in(server, "ada")
    ada.event(arriving(events_of(ada, ("",))), ["/"])
    ada.event(the(events_of(ada, ("",)), "od-send"), [f"Tell {SECRET} a story.", None, None, None, "refuse", None])
    until = time.monotonic() + 120
    while KEPT not in ada.event(arriving(events_of(ada, ("learning",))), []):
        assert time.monotonic() < until, "the answer was not kept to learn from"
        time.sleep(0.5)
    return belongings


def attempts(event: Event, hers: Belongings) -> list[tuple[list, dict | None]]:
    """What somebody may send with an event to get at ada's things: (data, event data) of every try."""
    own = f"tiny-target-a, {{}}, 1\ntiny-target-a, {hers.prompts}, 1"
    known = {
        "state": [hers.run, hers.run], "od-forget-chat": hers.chat, "od-forget-typed": "nothing at all",
        "od-said": "", "od-schedule": "my own", "od-count": "1", "od-drift-cache": "off", "od-drift-length": "4",
        "od-drift-learning": False, "od-plain": False, "od-own-model": hers.run, "od-own-number": "1",
        "od-own-source": hers.prompts.name, "od-set-learning-enabled": True, "od-set-learning-cpu_percent": "50",
        "od-set-learning-interval": "8", "od-set-model-n_ctx": "4096",
        "od-set-model-threads": "1",
        "od-set-model-n_gpu_layers": "0", "od-set-model-kv_type": "f16", "od-programs": [],
        "od-race-model": str(hers.model), "od-race-topic": "code", "od-race-own": "",
        "od-race-copies": False, "od-race-kept": False, "od-race-float": True, "od-by-path": str(hers.model),
        "od-worker-address": "127.0.0.1:1",
        "od-repo": "", "od-hub-words": "", "od-hub-found": None, "od-files": None, "od-folders": str(hers.model.parent),
        "od-own-upload": {"path": str(hers.prompts), "meta": {"_type": "gradio.FileData"}},
    }  # fmt: skip
    lists = [own.format(source) for source in (hers.prompts, hers.prompts.name, f"../../ada/drift/{hers.run}")]
    lists += [f"{hers.model}, math, 1", f"{hers.model.parents[3] / 'nothing.gguf'}, math, 1"]
    rows = [[text if name == "od-own" else known[name] for name in event.inputs] for text in lists]
    if {"od-folders", "od-by-path"} & set(event.inputs):
        root = hers.model.parents[3]
        rows = [
            [str(folder), None] for folder in (hers.model.parent, hers.model, root, root / "profiles", root / "nothing")
        ]
    elif "od-own" not in event.inputs:
        rows = rows[:1]
    if event.of("od-models"):
        return [(rows[0], {"kind": kind, "file": str(hers.model)}) for kind in ("use", "draft", "coverage")]
    if not event.of("od-drift-runs") and not event.of("od-learning-versions"):
        return [(row, None) for row in rows]
    kinds = ("show", "compare", "delete", "use")
    names = (hers.run, f"../../ada/drift/{hers.run}", str(hers.prompts.parent.parent / hers.run))
    return [(rows[0], {"kind": kind, "run": name, "which": name}) for kind in kinds for name in names]


def test_no_event_of_these_pages_shows_or_changes_what_another_has(server, hers):
    ada, grace = sign_in(server, "ada"), sign_in(server, "grace")
    events = events_of(grace)
    assert {event.page for event in events} == set(PAGES)
    for event in events:
        for data, happening in attempts(event, hers):
            said = grace.event(event.number, data, happening)
            # What she sent may come back to her in a sentence; what it leads to may not.
            assert not [mark for mark in hers.marks if mark in said and mark not in json.dumps([data, happening])], said
            assert "Who is" not in said
    seen = ada.event(arriving(events_of(ada, ("learning",))), [])
    assert KEPT in seen
    assert f"{SECRET} asks" in seen
    assert "profiles/ada" in seen
    seen = ada.event(arriving(events_of(ada, ("models",))), [])
    assert "exported" not in seen
    drift = [event for event in events_of(ada, ("drift-lab",)) if "load" in dict(event.targets).values()]
    seen = "".join(ada.event(event.number, []) for event in drift if not event.inputs)
    assert hers.run in seen
    assert SECRET in seen
    assert hers.prompts.exists()


def test_with_accounts_nobody_says_where_models_are_looked_for(server, hers):
    grace = sign_in(server, "grace")
    number = the(events_of(grace, ("models",)), "od-folders")
    for folder in (hers.model.parent, hers.model.parents[3], "/no/such/folder"):
        said = grace.event(number, [str(folder), None])
        assert "folders that all share" in said
        assert "no folder" not in said, "it says what is on this machine"
    assert "od-models" in grace.event(number, ["", None]), "one may look again"


def test_what_one_does_on_the_learning_page_stays_with_them(server, hers):
    ada, grace = sign_in(server, "ada"), sign_in(server, "grace")
    events = events_of(grace, ("learning",))
    load = arriving(events)
    grace.event(load, [])
    assert 'data-state=\\"paused' in grace.event(the(events, "od-learning-pause"), [])
    assert "Removed" in grace.event(the(events, "od-forget-all"), ["forget everything"])
    assert "200" not in grace.event(the(events, "od-set-learning-interval"), ["99"])
    seen = ada.event(load, [])
    assert 'data-state=\\"paused' not in seen
    assert KEPT in seen
    assert f"{SECRET} asks" in seen
    assert '"99"' not in seen


@pytest.mark.parametrize("kind", ["csv", "json", "svg"])
def test_a_run_leaves_as_a_file_for_its_owner_only(server, hers, kind):
    ada, grace = sign_in(server, "ada"), sign_in(server, "grace")
    assert ada.ask("GET", f"/drift/{hers.run}.{kind}")[0] == 200
    for name in (hers.run, quote(f"../../ada/drift/{hers.run}", safe=""), quote(f"../ada/{hers.run}", safe="")):
        status, text = grace.ask("GET", f"/drift/{name}.{kind}")
        assert status == 404
        assert SECRET not in text
    grace.cookie += "; omnidraft_profile=ada"
    assert grace.ask("GET", f"/drift/{hers.run}.{kind}")[0] == 404


def test_files_of_a_profile_are_served_to_nobody(server, hers):
    for person in (sign_in(server, "grace"), sign_in(server, "ada")):
        for path in (hers.prompts, hers.prompts.parent.parent / hers.run / "run.json"):
            assert person.ask("GET", f"/gradio_api/file={path}")[0] in (403, 404)


def test_nothing_of_these_pages_is_reached_without_signing_in(server, hers):
    nobody, grace = Person(server), sign_in(server, "grace")
    for path in ("/learning", "/drift-lab", f"/drift/{hers.run}.csv", f"/gradio_api/file={hers.prompts}"):
        assert nobody.ask("GET", path)[0] == 401, path
    for event in events_of(grace):
        body = {"data": [None] * len(event.inputs), "fn_index": event.number, "session_hash": nobody.stream}
        for path in ("/gradio_api/queue/join", f"/gradio_api/run/{event.name}", f"/gradio_api/call/{event.name}"):
            assert nobody.ask("POST", path, body)[0] == 401, (path, event)


def test_a_page_that_another_has_open_takes_no_events_from_anybody_else(server, hers):
    ada, grace = sign_in(server, "ada"), sign_in(server, "grace")
    events = events_of(grace)
    ada.event(arriving(events_of(ada, ("drift-lab",))), [])
    for event in events:
        body = {"data": [None] * len(event.inputs), "fn_index": event.number, "session_hash": ada.stream}
        for path in ("/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/component_server"):
            assert grace.ask("POST", path, body)[0] == 403, (path, event)
    assert grace.ask("GET", f"/gradio_api/queue/data?session_hash={ada.stream}")[0] == 403
    assert grace.ask("GET", f"/gradio_api/heartbeat/{ada.stream}")[0] == 403
    body = {"session_hash": ada.stream, "fn_index": 0, "event_id": "x"}
    assert grace.ask("POST", "/gradio_api/cancel", body)[0] == 403


@pytest.mark.parametrize(("page", "component"), [("", "od-attach"), ("", "od-import"), ("drift-lab", "od-own-upload")])
def test_an_upload_takes_no_file_that_was_not_uploaded(server, hers, page, component):
    grace = sign_in(server, "grace")
    event = next(event for event in events_of(grace, (page,)) if event.of(component))
    file = {"path": str(hers.prompts), "orig_name": "mine.txt", "meta": {"_type": "gradio.FileData"}}
    for value in (file, [file]):
        said = grace.event(event.number, [value if name == component else None for name in event.inputs])
        assert "Who is" not in said
        assert '"success":false' in said
        assert hers.prompts.read_text().startswith("Who is"), "and it is still there"
