"""PDF, Word and Excel files as text; files that are broken, locked, endless or bombs cost one sentence."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress

import docx
import openpyxl
import psutil
import pypdf
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from openpyxl.chart import BarChart
from openpyxl.comments import Comment
from PIL import Image
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

from omnidraft.app.documents import MAX_TEXT, Unreadable, read_document
from omnidraft.backends.pictures import read_picture
from tests.until import until


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


def read(tmp_path, name: str, data: bytes, **limits) -> tuple[str, str]:
    """(text, what is missing)."""
    file = tmp_path / "upload"
    file.write_bytes(data)
    found = read_document(file, name, **limits)
    return found.text, found.missing


def reading(tmp_path, name: str, data: bytes, **limits) -> str:
    return read(tmp_path, name, data, **limits)[0]


def test_each_kind_is_read_as_text(tmp_path):
    assert reading(tmp_path, "a.PDF", pdf_of("Quarterly figures", 2)).count("Quarterly figures") == 2
    assert reading(tmp_path, "b.docx", docx_of("Dear Ann,", "naïve 日本")) == "Dear Ann,\nnaïve 日本\nleft\tright"
    text = reading(tmp_path, "c.xlsx", xlsx_of([["item", "price", None], [None], ["milk", 1.5]]))
    assert text == "Sheet Costs:\nitem\tprice\nmilk\t1.5"


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
BOX = """<w:r {W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
 xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml">
<mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent>{said}</w:txbxContent></wps:txbx>
</w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent>{said}</w:txbxContent></v:textbox></w:pict>
</mc:Fallback></mc:AlternateContent></w:r>""".replace("\n", "")
NOTES = f"""<w:footnotes {W}><w:footnote w:type="separator" w:id="-1"><w:p/></w:footnote>
<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>Payable in March.</w:t></w:r></w:p></w:footnote>
</w:footnotes>"""


def offer() -> bytes:
    """A Word file with everything in which text may stand, as Word writes it."""
    made, out = docx.Document(), io.BytesIO()
    price = made.add_paragraph("The price is ")
    price._p.append(parse_xml(f'<w:ins {W} w:id="1" w:author="a"><w:r><w:t>4,200</w:t></w:r></w:ins>'))
    price._p.append(parse_xml(f'<w:del {W} w:id="2" w:author="a"><w:r><w:delText>3,900</w:delText></w:r></w:del>'))
    price.add_run(" euros")
    field = "<w:sdt {W}><w:sdtPr/><w:sdtContent>{inside}</w:sdtContent></w:sdt>"
    price._p.append(parse_xml(field.format(W=W, inside="<w:r><w:t> for Ms. Lee</w:t></w:r>")))
    said = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>".format
    made.element.body.insert(1, parse_xml(field.format(W=W, inside=said("A block"))))
    made.add_paragraph("A box:")._p.append(parse_xml(BOX.format(W=W, said=said("Urgent"))))
    noted = made.add_paragraph("See")
    noted._p.append(parse_xml(f'<w:r {W}><w:footnoteReference w:id="2"/></w:r>'))
    beside = made.part.package
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    notes = Part(PackURI("/word/footnotes.xml"), kind, NOTES.encode(), beside)
    made.part.relate_to(notes, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes")
    made.sections[0].header.paragraphs[0].text = "ACME"
    made.add_comment(noted.runs, text="Is that so?", author="b")
    dot = io.BytesIO()
    Image.new("RGB", (2, 2)).save(dot, "png")
    made.add_picture(dot)
    made.save(out)
    return out.getvalue()


def test_nothing_of_a_word_file_is_lost_without_a_word(tmp_path):
    text, missing = read(tmp_path, "offer.docx", offer())
    assert text.split("\n") == [
        "ACME", "The price is 4,200 euros for Ms. Lee", "A block", "A box:", "Urgent", "See[footnote 2][comment 0]", "",
        "[footnote 2] Payable in March.", "[comment 0] Is that so?",
    ]  # fmt: skip
    assert missing == "1 picture is not read"


def test_a_formula_that_no_program_has_computed_is_read_as_it_was_written(tmp_path):
    rows = [["item", "price"], ["milk", 1.5], [None, "=SUM(B2:B2)"], ["note"]]
    made = openpyxl.load_workbook(io.BytesIO(xlsx_of(rows)))
    made.active["A1"].comment = Comment("in euros", "b")
    made.active.add_chart(BarChart(), "D1")
    made.save(out := io.BytesIO())
    text, missing = read(tmp_path, "sums.xlsx", out.getvalue())
    assert text == "Sheet Costs:\nitem\tprice\nmilk\t1.5\n\t=SUM(B2:B2)\nnote\n[comment A1] in euros"
    assert missing == "1 chart is not read"


def scanned(text: str, *pictures: int) -> bytes:
    """A PDF of six pages, of which those numbered are pictures, one is empty and the others say `text`."""
    writer, picture = pypdf.PdfWriter(), io.BytesIO()
    Image.new("RGB", (20, 30), "white").save(picture, "pdf")
    for number in range(1, 6):
        data = picture.getvalue() if number in pictures else pdf_of(text)
        writer.append(io.BytesIO(data))
    writer.add_blank_page(100, 100)
    writer.write(out := io.BytesIO())
    return out.getvalue()


def test_pages_that_are_pictures_are_named_where_they_are_missing(tmp_path):
    text, missing = read(tmp_path, "scan.pdf", scanned("Figures", 2, 3, 4))
    assert missing == "pages 2 to 4 are pictures"
    assert text.split("\n\n") == ["Figures", *(f"[page {n} is a picture]" for n in (2, 3, 4)), "Figures", "\n"]
    assert read(tmp_path, "b.pdf", scanned("Figures", 5))[1] == "page 5 is a picture"
    with pytest.raises(Unreadable, match="only pictures"):
        read(tmp_path, "c.pdf", scanned("", 1, 2, 3, 4, 5))


def test_such_pages_come_as_pictures_where_a_model_sees_them(tmp_path):
    file = tmp_path / "upload"
    file.write_bytes(scanned("", 1, 2, 3, 4, 5))
    found = read_document(file, "scan.pdf", 3)
    assert list(found.pictures) == [1, 2, 3]
    assert found.missing == "pages 4, 5 are pictures"
    assert {read_picture(data).width for data in found.pictures.values()} == {20}


def test_the_fields_of_a_form_are_read(tmp_path):
    writer = pypdf.PdfWriter(io.BytesIO(pdf_of("Name:")))
    field = DictionaryObject({
        NameObject("/T"): TextStringObject("name"), NameObject("/FT"): NameObject("/Tx"),
        NameObject("/V"): TextStringObject("Ms. Lee"), NameObject("/Subtype"): NameObject("/Widget"),
    })  # fmt: skip
    form = DictionaryObject({NameObject("/Fields"): ArrayObject([writer._add_object(field)])})
    writer.root_object[NameObject("/AcroForm")] = form
    writer.write(out := io.BytesIO())
    assert "name: Ms. Lee" in reading(tmp_path, "form.pdf", out.getvalue())


def locked() -> bytes:
    out, writer = io.BytesIO(), pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "lol">{ENTITIES}]>'
NOTES_PART, SHARED = "word/footnotes.xml", "xl/sharedStrings.xml"


def with_part(data: bytes, name: str, part: bytes) -> bytes:
    """An Office file with another part in the place of one it has."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in source.infolist():
            made.writestr(entry, part if entry.filename == name else source.read(entry))
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


@pytest.mark.parametrize(("name", "made"), [
    ("a.docx", lambda: with_part(offer(), NOTES_PART, f"{LAUGHS}<w:footnotes {W}>&a9;</w:footnotes>".encode())),
    ("a.docx", lambda: with_part(offer(), "word/document.xml", f"{LAUGHS}<w:document {W}>&a9;</w:document>".encode())),
    ("a.xlsx", lambda: with_part(xlsx_of([["x"]]), SHARED, f"{LAUGHS}<sst><si><t>&a9;</t></si></sst>".encode())),
    ("a.docx", lambda: with_part(offer(), NOTES_PART, f"<w:footnotes {W}>{'<w:p>' * 5000}".encode())),
    ("a.docx", lambda: bomb(200)),
    ("a.xlsx", lambda: with_part(xlsx_of([["x"]]), SHARED, bytes(300 << 20))),
])  # fmt: skip
def test_files_made_to_fill_the_memory_fill_nobody_elses(tmp_path, name, made):
    """Each is refused, or read without what would not end, inside its limits."""
    data = made()  # seconds of work that no collection shall wait for
    begun = time.monotonic()
    with suppress(Unreadable):
        assert len(reading(tmp_path, name, data)) < 1000
    assert time.monotonic() - begun < 60
    assert psutil.Process().memory_info().rss < 2 << 30


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
documents.read_document(Path(sys.argv[1]), "hang.pdf")
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
    until(app.children)
    (child,) = app.children()
    until(lambda: "tests.crashing" in child.cmdline(), "another command line than the app's")
    assert child.is_running(), "it hangs"
    assert not any("hang" in word or "Brunhilde" in word for word in child.cmdline())
    app.send_signal(signal.SIGKILL)
    app.wait()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
