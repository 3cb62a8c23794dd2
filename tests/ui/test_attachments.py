"""What may be attached to a message and what is refused, each with its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.app.attached import Sizes
from omnidraft.app.documents import Unreadable
from omnidraft.chats import TextFile
from tests.app.test_documents import docx_of
from ui.chat.attachments import MAX_BYTES, MAX_FILES, chips, read, take


def made(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [
    "Grüße,\r\nAna\r".encode(), "Grüße,\nAna\n".encode("utf-8-sig"), "Grüße,\nAna\n".encode("utf-16"),
])  # fmt: skip
def test_text_is_read_with_plain_line_ends(tmp_path, data):
    assert read(made(tmp_path, "a.txt", data)) == TextFile("a.txt", "Grüße,\nAna\n")


@pytest.mark.parametrize(("data", "sentence"), [
    (b"\x89PNG\r\n\x1a\n\0\0", "not text in UTF-8"),
    (b"PK\x03\x04\0\0ab", "a binary file"),
    ("Grüße".encode("latin-1"), "not text in UTF-8"),
    (b"", "is empty"),
    (b" \n ", "is empty"),
    (b"a" * (MAX_BYTES + 1), "a text file of up to 512 kB can be attached"),
])  # fmt: skip
def test_anything_else_is_refused_in_a_sentence(tmp_path, data, sentence):
    with pytest.raises(Unreadable, match=sentence) as refused:
        read(made(tmp_path, "it.dat", data))
    assert str(refused.value).startswith("it.dat ")


def test_an_upload_keeps_what_is_good_and_leaves_no_copy_behind(tmp_path):
    good, bad = made(tmp_path, "a.txt", b"a"), made(tmp_path, "b.bin", b"\0\0")
    files, refused = take([good, bad, tmp_path / "gone.txt"], [TextFile("z", "z")])
    assert files == [TextFile("z", "z"), TextFile("a.txt", "a")]
    assert len(refused) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_message_takes_so_many_files_and_no_more(tmp_path):
    paths = [made(tmp_path, f"{i}.txt", b"a") for i in range(MAX_FILES + 1)]
    files, refused = take(paths, [])
    assert len(files) == MAX_FILES
    assert refused == [f"{MAX_FILES}.txt was left out: a message takes at most {MAX_FILES} files."]


def test_documents_are_read_as_what_their_names_say(tmp_path):
    files, refused = take([made(tmp_path, "a.docx", docx_of("Dear Ann,")), made(tmp_path, "b.pdf", b"%PDF-1.4")], [])
    assert [(file.name, file.text[:9]) for file in files] == [("a.docx", "Dear Ann,")]
    assert refused == ["b.pdf cannot be read as a PDF file; it may be damaged or need too much memory."]
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_told_in_tokens():
    files = [TextFile("a", "x" * 2048), TextFile("b", "y")]
    assert "2.0 kB · about 512 tokens" in chips(files, Sizes([512, 1], False, None))
    assert "1,513 tokens together; 900 fit" in (shown := chips(files, Sizes([1512, 1], True, 900)))
    assert "od-bad" in shown
    assert "od-bad" not in chips(files, Sizes([512, 1], True, 900))


def test_names_are_shown_as_text(tmp_path):
    file = read(made(tmp_path, "<b>\u202e x\n.txt", b"a"))
    assert file.name == "<b> x .txt"
    shown = chips([file], Sizes([1], True, None))
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert len(read(made(tmp_path, "n" * 200 + ".txt", b"a")).name) <= 80
