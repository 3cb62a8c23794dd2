"""A stub Hub for what searches and downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

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
