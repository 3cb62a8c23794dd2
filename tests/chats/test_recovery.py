"""Damaged conversations: what can be read is told and comes back, the damaged file stays, and the API goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.chats import ChatStore
from omnidraft.chats.recovery import readable, recover
from omnidraft.errors import StorageError
from omnidraft.storage.paths import find_data_home


def filled(path: Path) -> list[str]:
    """Twelve conversations of long messages; their texts."""
    texts = []
    with ChatStore(path) as store:
        for number in range(12):
            chat, above = store.create(f"talk {number}").id, None
            for turn in range(6):
                texts.append(f"words {number}.{turn} " + "and more of them " * 200)
                above = store.append(chat, ("user", "assistant")[turn % 2], texts[-1], parent=above).id
    return texts


def test_garbage_is_set_aside_and_nothing_is_lost_of_it(tmp_path: Path):
    path = tmp_path / "chats.sqlite"
    path.write_bytes(b"garbage" * 999)
    assert readable(path).words() == "0 conversations with 0 messages"
    assert "chats.sqlite.damaged-1" in recover(path)
    assert (tmp_path / "chats.sqlite.damaged-1").read_bytes() == b"garbage" * 999
    with ChatStore(path) as store:
        assert store.conversations() == []
    with pytest.raises(StorageError, match="is not damaged"):
        recover(path)


@pytest.mark.parametrize("page", [20, 40, 60])
def test_what_lies_on_other_pages_comes_back(tmp_path: Path, page: int):
    path = tmp_path / "chats.sqlite"
    texts = filled(path)
    data = bytearray(path.read_bytes())
    data[4096 * page : 4096 * (page + 1)] = b"\xff" * 4096
    path.write_bytes(bytes(data))
    found = readable(path)
    said = [message.content for _, messages in found.conversations for message in messages]
    assert len(texts) > len(said) > len(texts) - 20
    assert set(said) <= set(texts)
    assert found.words() in recover(path)
    assert (tmp_path / "chats.sqlite.damaged-1").read_bytes() == bytes(data)
    with ChatStore(path) as store:
        assert all(store.path(chat.id) for chat, messages in found.conversations if messages)


def test_clients_of_the_api_are_answered_and_pages_say_what_can_be_done(tmp_path: Path, models: Path):
    home = find_data_home(tmp_path / "home")
    path = home.profile("ada").chats
    path.write_bytes(b"garbage" * 999)
    with closing(Session(home, "ada", str(models / "tiny-target-a-f16.gguf"), None)) as session:
        assert "profile recover ada" in session.damaged
        with session.turn():
            assert session.ready
        chat = session.shown.chat(None)
        with pytest.raises(StorageError, match="profile recover ada"):
            conversing.ask(session, chat.id, "hi")
    assert path.read_bytes() == b"garbage" * 999
