"""Every page, event and route works on the profile that the browser picked, and on no other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from starlette.testclient import TestClient

from omnidraft.app.sessions import Sessions
from omnidraft.chats import ChatStore
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.folders import create_profile
from omnidraft.storage.paths import ProfilePaths, find_data_home
from tests.learning.learning_helpers import random_record
from ui.server import make_app

SECRET = "Brunhilde"
MARKS = {"": f"{SECRET} asks", "learning": "profiles/ada", "profiles": "profiles/ada"}


class Person:
    """A browser that picked a profile, with one page open."""

    def __init__(self, client: TestClient, profile: str) -> None:
        self._client, self._profile = client, profile
        config = self.get("/config").json()
        named = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
        self._events = {one["id"]: one for one in config["dependencies"]}
        self._pages = {page: of["dependencies"] for page, of in config["page"].items()}
        self._of = {named.get(part): number for number, one in self._events.items() for part, _ in one["targets"]}

    def get(self, path: str):
        return self._client.get(path, headers={"Cookie": f"omnidraft_profile={self._profile}"})

    def event(self, number: int, data: list) -> str:
        """Everything the server says about one event, until it is done."""
        body = {"data": data, "fn_index": number, "session_hash": self._profile}
        cookie = {"Cookie": f"omnidraft_profile={self._profile}"}
        assert self._client.post("/gradio_api/queue/join", json=body, headers=cookie).status_code == 200
        said = self.get(f"/gradio_api/queue/data?session_hash={self._profile}").text
        assert '"process_completed"' in said
        return said

    def click(self, component: str, data: list) -> str:
        return self.event(self._of[component], data)

    def arrive(self, page: str) -> str:
        """All that fills a page."""
        loads = [n for n in self._pages[page] if "load" in [kind for _, kind in self._events[n]["targets"]]]
        return "".join(self.event(n, ["/"] if page == "" else []) for n in loads if len(self._events[n]["inputs"]) < 2)


@pytest.fixture(scope="module")
def hers(tmp_path_factory) -> ProfilePaths:
    return create_profile(find_data_home(tmp_path_factory.mktemp("isolation")), "ada")


@pytest.fixture(scope="module")
def people(hers) -> Iterator[tuple[Person, Person, str]]:
    """ada, who has a conversation and an answer kept to learn from; grace; and the conversation's id."""
    home = find_data_home(hers.root.parents[1])
    create_profile(home, "grace")
    with ChatStore(hers.chats) as chats:
        chat = chats.create(title=f"{SECRET} asks").id
        chats.append(chat, "user", f"What does {SECRET} eat?")
    with ReplayStore(hers.replay) as replay:
        replay.add(random_record(np.random.default_rng(1), 30))
    with TestClient(make_app(Sessions(home, "default")), base_url="http://127.0.0.1:7860") as client:
        yield Person(client, "ada"), Person(client, "grace"), chat


@pytest.mark.parametrize("page", MARKS)
def test_a_page_shows_its_own_profile(people, page):
    ada, grace, _ = people
    assert MARKS[page] in ada.arrive(page)
    seen = grace.arrive(page)
    assert [one for one in (SECRET, "profiles/ada") if one in seen] == []


def test_what_one_does_on_the_learning_page_stays_there(people, hers):
    ada, grace, _ = people
    assert 'data-state=\\"paused' in grace.click("od-learning-pause", [])
    assert "Nothing was forgotten" in grace.click("od-forget-all", ["forget"])
    assert "Removed" in grace.click("od-forget-all", ["forget everything"])
    seen = ada.arrive("learning")
    assert 'data-state=\\"paused' not in seen
    assert "profiles/ada" in seen
    with ReplayStore(hers.replay) as replay:
        assert len(replay.answers) == 1


def test_a_conversation_leaves_as_a_file_from_its_own_profile(people):
    ada, grace, chat = people
    for path in (f"/export/{chat}.md", f"/export/{chat}.json"):
        assert SECRET in ada.get(path).text
        assert grace.get(path).status_code == 404
