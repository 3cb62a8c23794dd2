"""Presets and prompts: kept under names, renamed, really deleted, carried as a file."""

import json

import pytest

from omnidraft.chats import ChatStore, Fact, Preset, Prompt
from omnidraft.errors import StorageError
from omnidraft.settings.config import SamplingSettings

BRIEF = Preset("Brief", "Answer in one line.", SamplingSettings(temperature=0.2, seed=5), "tiny-target-a-f16")


def test_presets_and_prompts_are_kept_by_name(tmp_path):
    with ChatStore(tmp_path / "c.sqlite") as store:
        assert not store.library.save(BRIEF)
        assert not store.library.save(Prompt("zeta", "Summarise:\n\n"))
        assert not store.library.save(Prompt("Alpha", "Translate:"))
        assert store.library.save(Prompt("ALPHA", "Translate this:"))  # the same name, whatever the case
    with ChatStore(tmp_path / "c.sqlite") as store:
        assert store.library.presets() == [BRIEF]
        assert store.library.prompts() == [Prompt("ALPHA", "Translate this:"), Prompt("zeta", "Summarise:\n\n")]


def test_renaming_takes_no_name_from_another(store):
    store.library.save(Prompt("one", "1"))
    store.library.save(Prompt("two", "2"))
    with pytest.raises(StorageError, match="named two already"):
        store.library.rename("prompt", "one", "two")
    store.library.rename("prompt", "one", "  One\n more ")
    store.library.rename("prompt", "One more", "ONE MORE")
    assert [p.name for p in store.library.prompts()] == ["ONE MORE", "two"]
    with pytest.raises(StorageError, match="no prompt named one"):
        store.library.get("prompt", "one")


@pytest.mark.parametrize("item", [Prompt("", "x"), Prompt("a" * 81, "x"), Prompt("a", " \n"), Preset("\u202e")])
def test_what_has_no_name_or_no_text_is_refused(store, item):
    with pytest.raises(StorageError):
        store.library.save(item)
    assert not store.library.presets() + store.library.prompts()


def test_an_export_comes_back_beside_what_is_there(store, tmp_path):
    store.library.save(BRIEF)
    store.library.save(Prompt("Sum", "Summarise: 日本"))
    store.library.save(Fact("I have two cats."))
    store.library.save(Fact("A fact told first."))
    text = store.library.export()
    assert store.library.import_text(text.encode()) == {"preset": 1, "prompt": 1, "fact": 2}
    assert [p.name for p in store.library.presets()] == ["Brief", "Brief (2)"]
    assert store.library.facts() == ["I have two cats.", "A fact told first."]
    with ChatStore(tmp_path / "other.sqlite") as other:
        assert other.library.import_text(text) == {"preset": 1, "prompt": 1, "fact": 2}
        assert other.library.export() == text


@pytest.mark.parametrize("change", [
    lambda whole: whole.update(format="other"),
    lambda whole: whole["presets"].append({"name": "x", "sampling": {"temperature": "hot"}}),
    lambda whole: whole["presets"].append({"name": "x", "sampling": [1]}),
    lambda whole: whole["presets"].append({"name": 5}),
    lambda whole: whole["prompts"].append({"name": "no text"}),
    lambda whole: whole["prompts"].append("text"),
    lambda whole: whole.update(prompts={"name": "x"}),
    lambda whole: whole.update(prompts=[{"name": f"{n}", "text": "x"} for n in range(501)]),
])  # fmt: skip
def test_a_file_with_something_wrong_adds_nothing(store, change):
    whole = json.loads(store.library.export())
    whole["prompts"].append({"name": "good", "text": "x"})
    change(whole)
    with pytest.raises(StorageError, match="cannot be imported"):
        store.library.import_text(json.dumps(whole))
    with pytest.raises(StorageError, match="not JSON"):
        store.library.import_text(b"\xff\xfe{")
    assert store.library.prompts() == []
