"""What may be attached to a message and what is refused, each with its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.app.attached import Sizes
from omnidraft.app.documents import Unreadable
from omnidraft.chats import TextFile, files_meta
from omnidraft.chats.pictures import files_of, with_files
from omnidraft.format import size
from tests.app.test_documents import docx_of, scanned
from ui.chat.attachments import MAX_BYTES, MAX_FILES, chips, in_other_encoding, read, take


def made(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [
    "Grüße,\r\nAna\r".encode(), "Grüße,\nAna\n".encode("utf-8-sig"), "Grüße,\nAna\n".encode("utf-16"),
])  # fmt: skip
def test_text_is_read_with_plain_line_ends(tmp_path, data):
    assert read(made(tmp_path, "a.txt", data)) == [TextFile("a.txt", "Grüße,\nAna\n", size=len(data))]


SHEETS = {
    "cp1252": "Name;Stadt;Preis\nMüller;Köln;12,50 €\nJäger;Düsseldorf;8,00 €\n",
    "cp932": "名前,都市,価格\n田中,東京,1200\n鈴木,大阪,800\n",
    "utf_16_le": "a,b\n1,2\n",
    "utf_16_be": "Name;Ort\nJosé;Málaga\n",
    "cp1251": "Имя;Город\nИван;Москва\n",
    "gb18030": "姓名,城市\n王伟,北京\n李娜,上海\n",
    "cp949": "이름,도시\n김철수,서울\n이영희,부산\n",
}


@pytest.mark.parametrize("encoding", SHEETS)
def test_tables_of_spreadsheets_are_read_as_they_are_written(tmp_path, encoding):
    (file,) = read(made(tmp_path, "a.csv", SHEETS[encoding].replace("\n", "\r\n").encode(encoding)))
    assert isinstance(file, TextFile)
    assert file.text == SHEETS[encoding]
    assert file.encoding
    assert f'<option value="{file.encoding}" selected>' in chips([file], Sizes([1], True, None))


def test_a_wrong_guess_can_be_changed_and_no_choice_loses_the_text(tmp_path):
    text = "Jméno;Město\nTomáš;Plzeň"
    (file,) = read(made(tmp_path, "a.csv", text.encode("cp1250")))
    assert file.encoding == "cp1252"  # as likely, by what it holds
    assert "Tomáš;Plzeò" in file.text
    assert in_other_encoding(file, "cp1250").text == text
    with pytest.raises(Unreadable, match=r"a.csv is not written in UTF-16."):
        in_other_encoding(file, "utf_16_le")


def test_what_a_file_holds_beside_its_text_stands_on_its_chip_and_in_the_prompt(tmp_path):
    data = scanned("Figures", 2, 3, 4)
    (file,) = read(made(tmp_path, "scan.pdf", data))
    shown = chips([file], Sizes([40], True, None))
    assert "pages 2 to 4 are pictures" in shown
    assert size(len(data)) in shown, "the file's own size, not its text's"
    kept = files_of(files_meta([file]))
    assert kept == [file]
    assert with_files("Sum up.", kept).startswith("scan.pdf (pages 2 to 4 are pictures):\n```\nFigures")


@pytest.mark.parametrize(("data", "sentence"), [
    (b"\x89PNG\r\n\x1a\n\0\0", "a binary file; pictures, text, PDF, Word and Excel files can be attached"),
    (b"PK\x03\x04\0\0ab", "a binary file"),
    (bytes(range(256)) * 20, "a binary file"),
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
    assert files == [TextFile("z", "z"), TextFile("a.txt", "a", size=1)]
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


def test_pages_that_are_pictures_go_as_pictures_to_a_model_that_sees(tmp_path):
    files, refused = take([made(tmp_path, "scan.pdf", scanned("Figures", 2, 3))], [], pictures=9)
    assert [file.name for file in files] == ["scan.pdf", "scan.pdf, page 2", "scan.pdf, page 3"]
    assert not refused
    assert not files[0].missing


def test_names_are_shown_as_text(tmp_path):
    (file,) = read(made(tmp_path, "<b>\u202e x\n.txt", b"a"))
    assert file.name == "<b> x .txt"
    shown = chips([file], Sizes([1], True, None))
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert len(read(made(tmp_path, "n" * 200 + ".txt", b"a"))[0].name) <= 80
