"""PDF, Word and Excel files as text; files that are broken, locked, endless or bombs cost one sentence."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import zipfile

import docx
import openpyxl
import psutil
import pypdf
import pytest

from omnidraft.app.documents import MAX_TEXT, Unreadable, text_of


def pdf_of(text: str, pages: int = 1) -> bytes:
    """A PDF as small as one can be: a page for each copy of the text, in one of the fonts that every reader has."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(pages))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {pages}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    for n in range(pages):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {5 + 2 * n} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>"
        )
        objects.append(f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def docx_of(*paragraphs: str) -> bytes:
    made, out = docx.Document(), io.BytesIO()
    for text in paragraphs:
        made.add_paragraph(text)
    table = made.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    made.save(out)
    return out.getvalue()


def xlsx_of(rows: list[list]) -> bytes:
    made, out = openpyxl.Workbook(), io.BytesIO()
    made.active.title = "Costs"
    for row in rows:
        made.active.append(row)
    made.save(out)
    return out.getvalue()


def reading(tmp_path, name: str, data: bytes, **limits) -> str:
    file = tmp_path / "upload"
    file.write_bytes(data)
    return text_of(file, name, **limits)


def test_each_kind_is_read_as_text(tmp_path):
    assert reading(tmp_path, "a.PDF", pdf_of("Quarterly figures", 2)).count("Quarterly figures") == 2
    assert reading(tmp_path, "b.docx", docx_of("Dear Ann,", "naïve 日本")) == "Dear Ann,\nnaïve 日本\nleft\tright"
    text = reading(tmp_path, "c.xlsx", xlsx_of([["item", "price", None], [None], ["milk", 1.5]]))
    assert text == "Sheet Costs:\nitem\tprice\nmilk\t1.5"


def locked() -> bytes:
    out, writer = io.BytesIO(), pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def bomb(megabytes: int) -> bytes:
    """A Word file whose text unpacks to that much."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx_of("x"))) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename == "word/document.xml":
                at = data.index(b"</w:p>") + 6
                filling = b"<w:p><w:r><w:t>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</w:t></w:r></w:p>" * (megabytes << 14)
                data = data[:at] + filling + data[at:]
            made.writestr(entry, data)
    return out.getvalue()


def swollen(megabytes: int) -> bytes:
    """A Word file with a part of that many zeros."""
    out = io.BytesIO(docx_of("x"))
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("word/media/image.bin", bytes(megabytes << 20))
    return out.getvalue()


@pytest.mark.parametrize(("name", "data", "why"), [
    ("a.pdf", b"%PDF-1.4 nothing more", "cannot be read as a PDF file"),
    ("a.pdf", pdf_of("figures")[:200], "cannot be read as a PDF file|holds no text"),
    ("a.docx", b"PK\x03\x04 nothing more", "cannot be read as a Word file"),
    ("a.xlsx", docx_of("x"), "cannot be read as an Excel file"),
    ("a.pdf", pdf_of(""), "holds no text"),
    ("a.pdf", locked(), "protected by a password"),
])  # fmt: skip
def test_what_cannot_be_read_costs_one_sentence(tmp_path, name, data, why):
    with pytest.raises(Unreadable, match=why) as caught:
        reading(tmp_path, name, data)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(name)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    begun = time.monotonic()
    with pytest.raises(Unreadable, match="unpacks to far more"):
        reading(tmp_path, "a.docx", swollen(300))
    assert time.monotonic() - begun < 60


def test_memory_time_and_text_are_bounded(tmp_path):
    with pytest.raises(Unreadable, match="too much memory"):
        reading(tmp_path, "a.docx", bomb(40), memory=120 << 20)
    with pytest.raises(Unreadable, match="took too long"):
        reading(tmp_path, "b.pdf", pdf_of("x", 400), seconds=0.05)
    with pytest.raises(Unreadable, match=f"more than {MAX_TEXT:,} characters"):
        reading(tmp_path, "c.xlsx", xlsx_of([["a" * 30_000]] * 70))


def test_a_cell_in_the_last_corner_takes_no_time(tmp_path):
    made, out = openpyxl.Workbook(), io.BytesIO()
    made.active.title = "Costs"
    made.active["A1"], made.active["XFD1048576"] = "first", "last"
    made.save(out)
    began = time.monotonic()
    text = reading(tmp_path, "far.xlsx", out.getvalue())
    assert time.monotonic() - began < 30  # a minute passed before, and then it was refused
    assert text.split() == ["Sheet", "Costs:", "first", "last"]


READS = """
import sys
from pathlib import Path
from omnidraft.app import documents
documents._CHILD = "tests.crashing"
documents.text_of(Path(sys.argv[1]), "hang.pdf")
"""


def test_a_reader_ends_with_the_app_and_names_no_file(tmp_path):
    """The one here hangs; the app is killed."""
    secret = tmp_path / "Brunhilde" / "hang"
    secret.parent.mkdir()
    secret.write_bytes(b"%PDF")
    script = tmp_path / "reads.py"
    script.write_text(READS)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    app = psutil.Popen([sys.executable, str(script), str(secret)], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (children := app.children()) and time.monotonic() < until:
        time.sleep(0.05)
    (child,) = children
    time.sleep(3)  # until it is forked it has the app's own command line
    assert child.is_running(), "it hangs"
    assert not any("hang" in word or "Brunhilde" in word for word in child.cmdline())
    app.send_signal(signal.SIGKILL)
    app.wait()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
