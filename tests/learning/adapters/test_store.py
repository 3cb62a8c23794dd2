"""The store of versions: numbers are used once; going back leaves what was built on the version left behind, too."""

import pytest

from omnidraft.errors import StorageError
from omnidraft.learning.adapters import serving
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, Version
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


def test_going_back_from_the_served_version_rejects_one_published_since(store):
    published(store)
    served = published(store)
    pending = published(store)  # not served yet: its merged file is still being written
    assert store.rollback(served).name == "v000001"
    assert set(store.pointer.rejected) == {served.name, pending.name}
    assert store.current().name == "v000001"
    assert store.rollback() is None
    assert store.rollback() is None
    assert store.current() is None
    assert published(store).name == "v000004"


def test_any_version_can_be_chosen_forward_too(store):
    first, second, third = (published(store).name for _ in range(3))
    assert store.rollback().name == second
    assert store.choose(first).name == first
    assert store.current().name == first
    assert store.choose(third).name == third, "though it was left before"
    assert store.pointer.rejected == ()
    assert AdapterStore(store.folder).current().name == third
    with pytest.raises(StorageError, match="not there any more"):
        store.choose("v000099")
    assert published(store).meta.parent == third


def test_the_start_can_be_chosen_and_stays_until_something_is_published(store):
    published(store)
    for warm in (True, False):
        assert store.choose(None, warm) is None
        assert (store.current(), store.starts_warm) == (None, warm)
        assert AdapterStore(store.folder).starts_warm is warm
    store.choose("v000001")
    store.choose(None, True)
    store.choose("v000001")
    assert store.rollback() is None
    assert not store.starts_warm, "what was rejected was perhaps made from it"
    assert store.current() is None


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
