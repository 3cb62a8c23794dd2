"""The store of versions: numbers are used once; what was rolled back by an earlier program is served if chosen."""

from dataclasses import replace

import pytest

from omnidraft.errors import StorageError
from omnidraft.learning.adapters import serving
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, Version, write_pointer
from tests.learning.making import made


@pytest.fixture
def store(tmp_path) -> AdapterStore:
    return AdapterStore(tmp_path / "d" / "v")


def published(store: AdapterStore, *chats: str) -> Version:
    current = store.current()
    meta = Meta("d", "v", parent=current.name if current else None, chats=chats)
    return store.publish({ADAPTER: b"adapter", WEIGHTS: b"weights"}, meta)


def test_a_forgotten_versions_number_is_not_used_again(store):
    published(store, "a")
    published(store, "a", "b")
    assert store.forget("a") == ["v000001", "v000002"]
    assert published(store, "c").name == "v000003"
    assert store.forget("b") == []
    assert AdapterStore(store.folder).current().name == "v000003"


@pytest.mark.parametrize("warm", [False, True])
def test_forgetting_a_conversation_leaves_what_the_owner_chose_in_place_of_a_version(store, warm):
    published(store, "a")
    store.choose(None, warm)
    store.forget("a")
    assert (store.current(), AdapterStore(store.folder).starts_warm) == (None, warm)


def test_forgetting_what_an_earlier_program_rolled_back_leaves_the_bare_drafter_drafting(store):
    first = published(store, "a")
    write_pointer(store.folder, replace(store.pointer, version=None, rejected=(first.name,)))
    assert not store.starts_warm
    assert store.forget("a") == [first.name]
    assert not AdapterStore(store.folder).starts_warm


def test_what_an_earlier_program_rolled_back_serves_only_if_it_is_chosen(store):
    first, second = published(store), published(store)
    write_pointer(store.folder, replace(store.pointer, version=first.name, rejected=(second.name,)))
    assert AdapterStore(store.folder).current().name == first.name
    store.choose(second.name)
    assert (store.current().name, store.pointer.rejected) == (second.name, ())


def test_drafter_and_adapter_serve_apart_where_they_cannot_be_written_as_one_file(tmp_path, drafter, monkeypatch):
    def full(*_: object) -> None:
        raise StorageError("there is no room left")

    adapters = Adapters(tmp_path / "adapters", tmp_path / "merged")
    version = made(adapters.choose(drafter, "v").learned_in, drafter, 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(serving, "write_merged", full)
        apart = adapters.choose(drafter, "v")
    assert (apart.version, apart.merged, apart.file) == (version, None, drafter)
    assert adapters.choose(drafter, "v").file.is_relative_to(tmp_path / "merged")
