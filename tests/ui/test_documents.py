"""Documents in a prompt, in a real browser: sizes in tokens, what becomes of those too long, no copy left behind."""

from __future__ import annotations

import json

import pytest

from tests.app.test_documents import docx_of, pdf_of
from tests.serving import served
from tests.ui.chatting import new_chat, wait_idle
from tests.ui.conftest import SETTINGS

# Its models read no more than 512 tokens.
small = served(settings=SETTINGS.replace("threads = 1", "threads = 1\nn_ctx = 512").replace("48", "6"))


@pytest.mark.browser_slow
def test_a_document_too_long_is_cut_where_one_chose(small, pages):
    page = pages.open(small)
    new_chat(page)
    upload = [
        {"name": "letter.docx", "mimeType": "application/zip", "buffer": docx_of("Dear Ann,")},
        {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": pdf_of("x")[:90]},
        {"name": "long.txt", "mimeType": "text/plain", "buffer": b"all of it matters\n" * 900 + b"the very end"},
    ]
    page.set_input_files("#od-composer input[type=file]", upload)
    page.wait_for_selector("#od-notice >> text=broken.pdf")
    page.wait_for_selector("#od-attached li:has-text('letter.docx') >> text=tokens")
    uploads = (small.data / "home/uploads").rglob("*")  # each is wiped when it was read, before any is shown
    assert not [path for path in uploads if path.is_file() and path.stat().st_size]
    page.fill("#od-box textarea", "What is it about?")
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-notice >> text=choose which part to keep")
    assert page.input_value("#od-box textarea") == "What is it about?"
    page.click("#od-too-long label:has-text('Keep the end')")
    page.wait_for_selector("#od-attached .od-bad >> text=tokens together")
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-chat .bot-row")
    wait_idle(page)
    page.wait_for_selector("#od-too-long", state="detached")
    assert "long.txt (end)" in page.inner_text("#od-chat .user-row .od-turn-files")
    link = page.get_attribute("#od-links >> text=JSON", "href")
    message = json.loads(page.request.get(small.origin + link).text())["conversations"][0]["messages"][0]
    letter, long = message["meta"]["files"]
    assert letter["text"].startswith("Dear Ann,")
    assert long["text"].endswith("the very end")
