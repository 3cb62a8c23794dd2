"""A store in a temporary folder."""

import pytest

from omnidraft.chats import ChatStore


@pytest.fixture
def store(tmp_path):
    with ChatStore(tmp_path / "chats.sqlite") as opened:
        yield opened
