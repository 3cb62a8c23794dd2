"""A stub Hub for what searches and downloads, and loads that take long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from omnidraft.app import loaded_pair
from omnidraft.processes.progress import tell
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., StubHub]]:
    """Makes stub hubs of some files; the last one made is the one asked."""
    from huggingface_hub import constants

    made: list[StubHub] = []

    def make(files: dict[str, bytes], repo: str = REPO) -> StubHub:
        hub = StubHub(files, repo)
        made.append(hub)
        address = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", hub.endpoint)
        return hub

    yield make
    for hub in made:
        hub.close()


@pytest.fixture
def slow_load(monkeypatch) -> Callable[[str], threading.Event]:
    """Makes what opens models in `loaded_pair` by this name take a minute, which tells how far it is; the event is set
    when it begins."""

    def slowed(name: str) -> threading.Event:
        begun = threading.Event()

        def slow(*given: object) -> None:
            begun.set()
            for share in range(600):
                tell("reading the weights", share / 600)
                time.sleep(0.1)

        monkeypatch.setattr(loaded_pair, name, slow)
        return begun

    return slowed
