"""An adapter found damaged, cut off or of the wrong shape: set aside, said so, and the last good one drafts."""

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, META, WEIGHTS, Meta
from tests.learning.living import ONE, ask
from tests.learning.making import made, misshapen


def started(home, models) -> tuple[Assistant, list[str]]:
    """The app's own way: an assistant that learns, and the sentences loading has to say."""
    assistant = Assistant(home, learn=True)
    return assistant, assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)


@pytest.fixture
def store(home, models, drafter):
    """The bundled pair's own store, with a good version in it."""
    assistant, _ = started(home, models)
    store = assistant.loaded.choice.store
    assistant.close()
    made(store, drafter, 0.01)
    return store


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


DAMAGE = {
    "adapter cut off": lambda v: cut(v.adapter),
    "adapter damaged": lambda v: flip(v.adapter),
    "adapter missing": lambda v: v.adapter.unlink(),
    "weights cut off": lambda v: cut(v.path / WEIGHTS),
    "weights damaged": lambda v: flip(v.path / WEIGHTS),
    "description damaged": lambda v: (v.path / META).write_bytes(b"{"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_whatever_is_damaged_the_version_before_is_served(tmp_path, kind):
    store = AdapterStore(tmp_path / "d" / "v")
    for parent in (None, "v000001"):
        last = store.publish({ADAPTER: b"adapter", WEIGHTS: b"weights"}, Meta("d", "v", parent=parent))
    assert store.set_damaged_aside() == ()
    DAMAGE[kind](last)
    assert AdapterStore(store.folder).set_damaged_aside() == ("v000002",)
    assert AdapterStore(store.folder).current().name == "v000001"
    assert not last.path.exists()
    assert store.publish({ADAPTER: b"a", WEIGHTS: b"w"}, Meta("d", "v")).name == "v000003"  # a number is used once


@pytest.mark.parametrize("kind", ["adapter cut off", "wrong shape"])
def test_a_bad_version_is_set_aside_and_the_last_good_one_drafts(home, models, drafter, store, kind):
    if kind == "wrong shape":
        bad = misshapen(store, drafter, "v000001")
    else:
        bad = made(store, drafter, 0.02, parent="v000001")
        DAMAGE[kind](bad)
    assistant, said = started(home, models)
    status = assistant.learner.status()
    assert (status.served, status.origin) == ("v000001", "own")
    assert assistant.loaded.choice.adapter == store.folder / "v000001" / ADAPTER
    (sentence,) = [words for words in said if "set aside" in words]
    assert sentence == ("What the drafter learned as v000002 cannot be used and was set aside; version v000001 drafts.")
    assert ask(assistant, range(1))[0].statistics.proposed
    assistant.close()
    assert not bad.path.exists()
    assert (store.folder / ".damaged-v000002").is_dir()
    again, said = started(home, models)
    assert not [words for words in said if "set aside" in words]  # once is enough
    assert again.learner.status().served == "v000001"
    again.close()


def test_with_no_good_version_left_the_drafter_drafts_as_it_came(home, models, store):
    cut(store.folder / "v000001" / ADAPTER)
    assistant, said = started(home, models)
    assert (assistant.learner.status().served, assistant.loaded.choice.file.name) == (None, "tiny-drafter-f16.gguf")
    assert "the drafter drafts as it came" in " ".join(said)
    assert ask(assistant, range(1))[0].statistics.proposed
    assistant.close()


def test_what_was_set_aside_is_forgotten_too_and_does_not_pile_up(tmp_path):
    store = AdapterStore(tmp_path / "adapters" / "d" / "v")
    store.publish({ADAPTER: b"adapter", WEIGHTS: b"weights"}, Meta("d", "v"))
    for number in range(2, 6):
        chats = ("secret",) if number == 5 else ()
        cut(store.publish({ADAPTER: b"adapter", WEIGHTS: b"weights"}, Meta("d", "v", chats=chats)).adapter)
        assert store.set_damaged_aside() == (f"v00000{number}",)
    store.prune()
    assert sorted(p.name for p in store.folder.glob(".*")) == [".damaged-v000004", ".damaged-v000005"]
    store.forget("secret")
    assert [p.name for p in store.folder.glob(".*")] == [".damaged-v000004"]
    assert [v.name for v in store.versions()] == ["v000001"]
