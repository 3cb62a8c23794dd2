"""What can be made anew may be wrong in any way: answers are written all the same, and the log says so in a line."""

from __future__ import annotations

import json
import logging
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.app.speeds import SPEED_FILE
from omnidraft.decoding.events import Finished, Notice
from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning.material.history import History
from omnidraft.learning.material.replay import ExpansionTable, table_file
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.fuzz.cases import as_json, odd, several

CASES = int(os.environ.get("OMNIDRAFT_CASES", "4"))
ONE = ModelSettings(threads=1, n_ctx=512)
SHORT = SamplingSettings(temperature=0.0, max_tokens=8)
ASKED = [{"role": "user", "content": "What is 2 + 3?"}]


@pytest.fixture
def assistant(tmp_path: Path) -> Iterator[Assistant]:
    made = Assistant(find_data_home(tmp_path / "home"), learn=True)
    yield made
    made.close()


def answered(assistant: Assistant, models: Path) -> tuple[str, list[str]]:
    """The text of an answer of models loaded anew, and what was said about them."""
    told = assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
    request = AnswerRequest(ASKED, SHORT, assistant.settings.draft, source="talk", capture=assistant.capture)
    events = list(assistant.answer(request))
    assert isinstance(events[-1] if not isinstance(events[-1], Notice) else events[-2], Finished)
    text = "".join(getattr(event, "text", "") for event in events if not isinstance(event, Notice))
    assistant.engine.memory.pace.keep()  # though others may have the processors
    assistant.unload()
    return text, told


def test_any_numbers_in_files_of_the_right_form(assistant: Assistant, models: Path):
    text, _ = answered(assistant, models)
    speeds, trials = assistant.home.cache / SPEED_FILE, assistant.home.cache / "trials.json"
    known, by = json.loads(speeds.read_text()), random.Random(7)
    for number in range(CASES):
        entries = several(known, by) if number % 3 else odd(by)
        speeds.write_bytes(as_json(entries))
        trials.write_bytes(as_json(odd(by)))
        assert answered(assistant, models)[0] == text, entries


def test_a_table_of_another_content_is_written_anew(assistant: Assistant, models: Path, tmp_path: Path):
    assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
    pair = assistant.loaded.pair
    path = table_file(tmp_path, pair)
    whole = path.read_bytes()
    for wrong in (b"", whole[:-10], b"x" * 100):
        path.write_bytes(wrong)
        assert table_file(tmp_path, pair) == path
        assert np.array_equal(ExpansionTable.load(path).flat, ExpansionTable.from_pair(pair).flat)


@pytest.mark.parametrize(("name", "content"), [
    ("ngrams", b"garbage" * 1000), ("ngrams", "cut"), ("metrics", b"SQLite format 3\0" + b"\xff" * 5000),
    ("metrics", "foreign"),
])  # fmt: skip
def test_a_database_that_can_be_made_anew_is_set_aside(assistant: Assistant, models: Path, name: str, content, caplog):
    text, _ = answered(assistant, models)
    assistant.close()
    path = getattr(assistant.profile, name)
    if content == "cut":
        content = path.read_bytes()[:3000] + b"\0" * 2000
    if content == "foreign":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE things (value BLOB)")
            other.execute("INSERT INTO things VALUES (x'80049500')")
        other.close()
        content = path.read_bytes()
    path.write_bytes(content)
    caplog.set_level(logging.WARNING)
    again = Assistant(assistant.home, learn=True)
    try:
        said, told = answered(again, models)
        assert said == text
        assert answered(again, models) == (text, [])
    finally:
        again.close()
    assert path.with_name(f"{path.name}.damaged-1").read_bytes() == content
    sentence = f"{path.name} could not be read, so it is begun anew; the old one is kept as {path.name}.damaged-1."
    assert told == ([sentence] if name == "ngrams" else [])
    assert sum(sentence in record.message for record in caplog.records) == 1


def test_any_facts_of_updates_are_passed_over(assistant: Assistant, models: Path):
    text, _ = answered(assistant, models)
    assistant.close()
    by, known = random.Random(2), {"number": 1, "started": 1.0, "drafter": "d", "target": "t", "vocabulary": "v"}
    with sqlite3.connect(assistant.profile.metrics) as metrics:
        for number in range(1, 40):
            facts = several({**known, "number": number, "ended": 5.0, "cpu_seconds": 1.0, "losses": [1.0]}, by)
            values = (number, "s", "v1", by.choice([as_json(facts).decode(), "{", "[]"]))
            metrics.execute("INSERT INTO updates VALUES (?, ?, ?, ?)", values)
            row = [by.choice([1, 1.5, "x", b"x"]) for _ in range(9)]
            metrics.execute(f"INSERT INTO served VALUES (NULL, 's', {', '.join('?' * 9)})", row)
    metrics.close()
    again = Assistant(assistant.home, learn=True)
    try:
        assert answered(again, models)[0] == text
        kept = again.learner.status().kept
        assert all(isinstance(took, (int, float)) for _, took in kept.costs)
        assert kept.spent(1e12) > 0
        with closing(History(again.profile.metrics)) as history:
            for update in history.updates():
                assert update.doing()
            history.served()
            history.live("s")
    finally:
        again.close()
