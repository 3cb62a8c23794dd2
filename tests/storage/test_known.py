"""What was found out once is known behind a restart too, and no file of it stands in the way."""

from __future__ import annotations

import pytest

from omnidraft.storage.known import Known


def number(found: object) -> bool:
    return isinstance(found, int)


@pytest.fixture
def known(tmp_path) -> Known[int]:
    made: Known[int] = Known("known.json", number)
    made.keep_in(tmp_path)
    return made


def test_it_is_kept_for_the_next_start_with_what_was_known_before_there_was_a_folder(tmp_path):
    first: Known[int] = Known("known.json", number)
    first.put("early", 1)
    first.keep_in(tmp_path)
    first.put("late", 0)
    again: Known[int] = Known("known.json", number)
    again.keep_in(tmp_path)
    assert (again.get("early"), again.get("late"), again.get("never")) == (1, 0, None)


def test_what_another_program_found_out_meanwhile_is_kept_and_seen(known, tmp_path):
    other: Known[int] = Known("known.json", number)
    other.keep_in(tmp_path)
    other.put("theirs", 1)
    known.put("mine", 2)
    assert known.all() == {"theirs": 1, "mine": 2}
    assert other.all() == known.all()


@pytest.mark.parametrize("content", [b"", b"[]", b"\x00\xff", b'{"a": "x", "b": 2}'])
def test_of_a_damaged_file_what_is_usable_counts(known, tmp_path, content, caplog):
    (tmp_path / "known.json").write_bytes(content)
    again: Known[int] = Known("known.json", number)
    again.keep_in(tmp_path)
    assert again.get("a") is None
    assert again.get("b") == (2 if b"b" in content else None)
    assert "known.json" in caplog.text


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    known: Known[int] = Known("known.json", number)
    known.keep_in(tmp_path / "file")
    known.put("a", 1)
    assert known.get("a") == 1
