"""The settings file: readable, editable by hand, and never lost."""

import time
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import AppSettings, changed, describe
from omnidraft.settings.file import MOST_KEYS, load_settings, reset_settings, save_settings

OTHER = changed(AppSettings(), **{"target": "models/a.gguf", "sampling.top_k": 20, "draft.enabled": False})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.toml"


def test_the_file_is_private_and_explains_every_setting_and_holds_only_what_was_set(path):
    assert load_settings(path) == (AppSettings(), [])
    assert not path.exists()
    save_settings(path, OTHER)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    for setting in describe(AppSettings):
        assert setting.help in text
    groups = {"sampling": {"top_k": 20}, "draft": {"enabled": False}, "cache": {}, "model": {}, "learning": {}}
    assert tomllib.loads(text) == {"target": "models/a.gguf", **groups}, "better defaults can follow"


def test_saving_keeps_comments_and_keys_of_another_version(path):
    path.write_text('future = [1, 2] # not ours\n\n[sampling] # mine\ntemperature = 1 # warm\nnew = "x"\n')
    loaded, warnings = load_settings(path)
    assert loaded.sampling.temperature == 1.0
    assert len(warnings) == 2
    save_settings(path, changed(loaded, **{"sampling.temperature": 0.5, "model.n_ctx": 0}))
    text = path.read_text()
    assert "# mine" in text
    assert "# warm" in text
    assert tomllib.loads(text)["future"] == [1, 2]
    assert tomllib.loads(text)["sampling"]["new"] == "x"
    assert load_settings(path)[0] == changed(loaded, **{"sampling.temperature": 0.5, "model.n_ctx": 0})


def test_a_file_of_an_earlier_version_loads_with_warnings(path):
    path.write_text(
        "[sampling]\nrepeat_last_n = 32\ntop_k = 7\n[draft]\nmode = 'gamma'\ngamma = 0.2\nverification = 'paper'\n"
        "[model]\nn_batch = 64\n[learning]\nloss = 'dm_nll'\nreplay_mb = 64\nkeep_minutes = 1\n"
        "minutes_per_hour = 5\nscope = 'shared'\n"
    )
    loaded, warnings = load_settings(path)
    assert loaded == changed(AppSettings(), **{"sampling.top_k": 7})
    assert len(warnings) == 10
    save_settings(path, changed(loaded, **{"draft.length": 2}))
    assert load_settings(path)[0] == changed(loaded, **{"draft.length": 2})


@pytest.mark.parametrize(
    "layout",
    [
        "sampling.top_k = 3\ndraft.length = 2\n",
        "sampling = { top_k = 3 }\n",
        "[sampling]\ntop_k = 3\n[draft]\nlength = 2\n[sampling.extra]\nx = 1\n",
        "\ufeff[sampling]\r\ntop_k = 3\r\n",
        '"theme" = "dark"\n[ "sampling" ]\n"top_k" = 0x3\n',
    ],
)
def test_any_layout_of_valid_toml_survives_a_save(path, layout):
    path.write_text(layout, encoding="utf-8", newline="")
    loaded, _ = load_settings(path)
    wanted = changed(loaded, **{"sampling.top_k": 9, "learning.interval": 8, "target": 'a "b"\n.gguf'})
    save_settings(path, wanted)
    assert load_settings(path)[0] == wanted


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    target=st.none() | TEXT,
    stop=st.lists(TEXT, max_size=16),
    temperature=st.floats(0, 10),
    seed=st.none() | st.integers(0, 2**63 - 1),
    second=TEXT,
)
def test_any_accepted_settings_survive_the_file(tmp_path_factory, target, stop, temperature, seed, second):
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    first = changed(
        AppSettings(),
        **{"target": target, "sampling.stop": stop, "sampling.temperature": temperature, "sampling.seed": seed},
    )
    save_settings(path, first)
    assert load_settings(path) == (first, [])
    save_settings(path, changed(first, drafter=second))
    assert load_settings(path) == (changed(first, drafter=second), [])


DAMAGED = [
    b"[sampling\n",
    b"\xff\xfe\x00",
    b"a = " + b"[" * 100_000,
    b"top_k = " + b"9" * 10_000,
    b"a = 1\na = 2\n",
    b"\0" * 64,
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_reported_and_left_alone(path, content):
    path.write_bytes(content)
    for action in (lambda: load_settings(path), lambda: save_settings(path, OTHER)):
        with pytest.raises(StorageError, match="damaged") as error:
            action()
        assert str(path) in str(error.value)
    assert path.read_bytes() == content


def test_a_refused_value_names_file_and_setting_and_is_left_alone(path):
    path.write_text("[sampling]\ntemperature = -3\n")
    for action in (lambda: load_settings(path), lambda: save_settings(path, OTHER)):
        with pytest.raises(SettingsError, match=r"sampling\.temperature is -3.*from 0 to 10") as error:
            action()
        assert str(path) in str(error.value)
    assert path.read_text() == "[sampling]\ntemperature = -3\n"


def test_reset_moves_the_damaged_file_aside_each_time_under_a_new_name(path):
    for number in (1, 2, 3):
        path.write_bytes(b"damage %d [" % number)
        aside = reset_settings(path)
        assert aside == path.with_name(f"settings.toml.damaged-{number}")
        assert aside.read_bytes() == b"damage %d [" % number
        assert load_settings(path) == (AppSettings(), [])


def test_a_linked_settings_file_stays_a_link(path, tmp_path):
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    path.symlink_to(real)
    save_settings(path, OTHER)
    assert path.is_symlink()
    assert load_settings(real)[0] == OTHER


@pytest.mark.parametrize("text", [
    "a." * 200_000 + "a = 1", "\n".join(f"k{n}." + "a." * 3000 + "a = 1" for n in range(20)), "a . " * 20_000 + "a = 1",
    '"a".' * 15_000 + "a = 1", "[" + "a." * 20_000 + "a]", "\n".join(f"k{n} = 1" for n in range(5000)),
    "'" * 60_000, '"' * 60_000, "a" * 60_000, "a-" * 30_000, "# " + "x" * 70_000,
])  # fmt: skip
def test_no_settings_take_long_to_refuse(tmp_path, text):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(StorageError, match="is damaged"):
        load_settings(path)
    assert time.process_time() - began < 0.5


def test_the_most_that_is_read_is_saved_within_seconds(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("".join(f"k{n}.b.c.d.e.f.g = 1\n" for n in range(MOST_KEYS - 10)) + "# 1.2.3.4 says nothing\n")
    began = time.process_time()
    save_settings(path, changed(AppSettings(), theme="dark"))
    assert time.process_time() - began < 5
    assert load_settings(path)[0].theme == "dark"
