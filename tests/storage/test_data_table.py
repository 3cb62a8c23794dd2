"""The table of what is stored where (docs/data.md) names every file there is, and is right about which hold text."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.chats import TextFile
from omnidraft.storage.paths import LOG_SUFFIXES, find_data_home

TABLE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
PHRASE = "a marmalade zeppelin over Ulaanbaatar"


def rows() -> dict[str, str]:
    """What tells what was said, by the place in the data home."""
    found = {}
    for line in [line for line in TABLE.splitlines() if line.startswith("| `")]:
        places, *_, tells = [cell.strip() for cell in line.strip("|").split("|")]
        for place in re.findall(r"`([^`]+)`", places):
            found[place.replace("NAME", "default")] = tells
    return found


def row_of(path: Path, root: Path) -> str | None:
    name = path.relative_to(root).as_posix()
    for suffix in LOG_SUFFIXES:
        name = name.removesuffix(suffix)
    known = (place for place in rows() if name == place or (place.endswith("/") and name.startswith(place)))
    return max(known, key=len, default=None)


@pytest.fixture
def home(tmp_path, models):
    """A data home in which something was said."""
    made = find_data_home(tmp_path / "home")
    with closing(Session(made, "default", str(models / "tiny-target-a-f16.gguf"), None)) as session:
        chat = session.shown.chat().id
        session.store.update(chat, system=f"Speak of {PHRASE}.")
        session.apply(**{"sampling.max_tokens": 12, "model.threads": 1})
        conversing.ask(session, chat, PHRASE, [TextFile("a.txt", PHRASE)]).join(60)
        assert session.job.error is None
        yield made.root


def test_every_file_has_a_row_and_text_lies_only_where_it_says_so(home):
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"chats.sqlite", "settings.toml", "ngrams.sqlite"}
    assert [path for path in files if row_of(path, home) is None] == []
    telling = [path for path in files if PHRASE.encode() in path.read_bytes()]
    assert telling, "the search can find it"
    assert all(rows()[row_of(path, home)].startswith("yes") for path in telling)


def test_every_part_of_a_profile_and_of_the_home_has_a_row(tmp_path):
    made = find_data_home(tmp_path)
    paths = made.profile("default")
    parts = [getattr(paths, name) for name in paths.__slots__ if name != "root"]
    named = {place.rstrip("/") for place in rows()}
    for part in [*parts, made.uploads, made.cache, made.models]:
        assert part.relative_to(made.root).as_posix() in named
