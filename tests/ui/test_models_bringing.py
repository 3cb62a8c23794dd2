"""Model files dropped on the Models page, or chosen there, in a real browser."""

from __future__ import annotations

import base64
import shutil

import pytest

from omnidraft.profiles.accounts import add_account
from tests.backends.seeing import needs_eyes, vision_model
from tests.serving import SETTINGS
from tests.ui.chatting import said, write

DROP = """(files) => {
  const dataTransfer = new DataTransfer();
  for (const [name, data] of files)
    dataTransfer.items.add(new File([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], name));
  const at = document.querySelector('#od-page h1');
  for (const kind of ['dragover', 'drop'])
    at.dispatchEvent(new DragEvent(kind, {dataTransfer, bubbles: true, cancelable: true}));
}"""


def drop(page, **files: bytes) -> None:
    page.evaluate(DROP, [[name.replace("__", "."), base64.b64encode(data).decode()] for name, data in files.items()])


@needs_eyes
def test_a_model_dropped_with_its_projector_is_listed_as_one_that_sees(server, pages, tmp_path):
    model, projector = vision_model(tmp_path / "elsewhere", "llava")
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    drop(page, eyes__gguf=projector.read_bytes(), looking__gguf=model.read_bytes())
    said(page, "looking.gguf is among the models now. mmproj-looking.gguf is among the models now.")
    row = page.locator(".od-models li", has=page.locator("details[data-file$='/looking.gguf']"))
    assert "sees pictures" in row.inner_text()
    assert (server.data / "home/models/looking.gguf").read_bytes() == model.read_bytes()
    row.locator("[data-kind=use]").click()
    said(page, "looking answers from here on.")


@needs_eyes
def test_what_a_model_sees_through_is_chosen_in_its_row(make_server, pages):
    server = make_server()
    model, _ = vision_model(server.data / "home/models", "llava")
    page = pages.open(server, "/models")
    row = f".od-models li:has(details[data-file='{model}'])"
    page.wait_for_selector(f"{row} >> text=sees pictures")
    page.click(f"{row} summary")
    chooser = f"{row} select"
    assert "automatic: mmproj-tiny-llava-f32.gguf" in page.inner_text(chooser)
    page.select_option(chooser, "none")
    said(page, "Kept")
    page.wait_for_selector(f"{row} >> text=text only")
    page.click(f"{row} [data-kind=use]")
    said(page, "answers from here on")
    page.reload()
    page.wait_for_selector(f"{row} >> text=text only")
    page.click(f"{row} summary")
    assert "tiny-target-a2" not in page.inner_text(chooser)  # that one is made for wider models
    page.select_option(chooser, "")
    said(page, "load the model again")
    page.wait_for_selector(f"{row} >> text=sees pictures")


def test_a_file_is_listed_by_its_path_and_stays_where_it_is(make_server, pages, models, tmp_path):
    file = tmp_path / "elsewhere" / "mine.gguf"
    file.parent.mkdir()
    shutil.copy(models / "tiny-target-b-f16.gguf", file)
    page = pages.open(make_server(), "/models")
    page.wait_for_selector(".od-models li")
    write(page, "#od-by-path input, #od-by-path textarea", str(file.with_name("no.gguf")))
    page.click("#od-by-path-add")
    said(page, f"There is no folder or file {file.with_name('no.gguf')}")
    write(page, "#od-by-path input, #od-by-path textarea", str(file))
    page.keyboard.press("Enter")
    said(page, "mine.gguf is listed, and read where it lies")
    page.reload()
    page.click(".od-models li:has(h3:text-is('mine')) [data-kind=use]")
    said(page, "mine answers from here on")


def test_a_file_that_is_chosen_is_taken_and_what_is_no_model_is_refused(make_server, pages, models):
    server = make_server()
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    drop(page, letter__gguf=b"Dear all,")
    said(page, "letter.gguf is no GGUF file")
    drop(page, photo__png=b"\x89PNG")
    said(page, "photo.png is no GGUF file")
    chosen = {"name": "mine.gguf", "mimeType": "", "buffer": (models / "tiny-drafter-f16.gguf").read_bytes()}
    page.set_input_files("#od-bring input", chosen)
    said(page, "mine.gguf is among the models now.")
    page.wait_for_selector(".od-models details[data-file$='/mine.gguf']", state="attached")
    assert sorted(path.name for path in (server.data / "home/models").iterdir()) == ["mine.gguf"]


@pytest.mark.parametrize("method", ["get", "post"])
def test_with_accounts_nobody_brings_a_file_without_signing_in(make_server, tmp_path, method):
    import httpx

    add_account(tmp_path / "accounts", "ada", "correct horse")
    server = make_server("--auth-file", str(tmp_path / "accounts"), settings=SETTINGS)
    asked = {"params": {"name": "mine.gguf", "size": 4}, "follow_redirects": False}
    answer = httpx.request(
        method, f"{server.origin}/model-files", **asked, **({"content": b"GGUF"} if method == "post" else {})
    )
    assert answer.status_code in (303, 401)
    assert not (server.data / "home/models/mine.gguf").exists()
