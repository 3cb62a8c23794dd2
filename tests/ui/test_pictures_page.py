"""Pictures on the chat page: pasted, dropped and chosen, asked about, kept through another model and a reload."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.backends.seeing import needs_eyes, vision_model
from tests.ui.chatting import arrived, ask, choose, exported, wait_idle
from tests.ui.conftest import SETTINGS

pytestmark = needs_eyes
GIVE = """([how, name, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], name, {type: 'image/png'}));
  const about = {bubbles: true, cancelable: true};
  if (how === 'paste') {
    const field = document.querySelector('#od-box textarea');
    field.dispatchEvent(new ClipboardEvent('paste', {clipboardData: files, ...about}));
  } else {
    const talk = document.querySelector('#od-main #od-chat');
    for (const kind of ['dragover', 'drop']) {
      const event = new DragEvent(kind, {dataTransfer: files, ...about});
      if (talk.dispatchEvent(event)) throw new Error('the browser would open the file itself');
    }
  }
}"""


def drawn(seed: int) -> bytes:
    made = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (60, 100, 3), np.uint8)).save(made, "PNG")
    return made.getvalue()


def give(page, how: str, name: str, seed: int) -> None:
    """By paste or drop, or chosen in a dialog."""
    if how == "choose":
        file = {"name": name, "mimeType": "image/png", "buffer": drawn(seed)}
        page.set_input_files("#od-composer input[type=file]", file)
    else:
        page.evaluate(GIVE, [how, name, base64.b64encode(drawn(seed)).decode()])
    page.wait_for_selector(f"#od-attached li:has-text('{name}') img")


def shown(page, number: int) -> None:
    """Until so many pictures stand in the conversation, each of them drawn."""
    drawn = "n => { const all = [...document.querySelectorAll('#od-chat .od-pictures img')];" \
        " return all.length === n && all.every((one) => one.naturalWidth === 100); }"  # fmt: skip
    page.wait_for_function(drawn, arg=number)


@pytest.mark.browser_slow
def test_a_pasted_picture_is_asked_about_and_stays_with_its_conversation(make_server, pages):
    server = make_server(settings=SETTINGS.replace("max_tokens = 48", "max_tokens = 5"))
    vision_model(server.data / "home/models", "llava")
    page = pages.open(server)
    arrived(page)
    page.wait_for_selector(".od-empty")

    # A model that cannot see says so, and takes neither the picture nor the words.
    choose(page, "#od-target", "tiny-target-a")
    page.wait_for_selector("#od-notice >> text=answers from here on", timeout=20_000)
    give(page, "paste", "first.png", 1)
    page.fill("#od-box textarea", "What is this?")
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-notice >> text=cannot see pictures", timeout=20_000)
    page.wait_for_function("document.querySelector('#od-box textarea').value === 'What is this?'")
    page.wait_for_selector("#od-attached li:has-text('first.png')")

    choose(page, "#od-target", "tiny-llava")
    page.wait_for_selector("#od-notice >> text=answers from here on", timeout=20_000)
    give(page, "choose", "second.png", 2)
    give(page, "drop", "third.png", 3)
    page.click("#od-attached li:has-text('second.png') button")
    page.wait_for_selector("#od-attached li:has-text('second.png')", state="detached")
    ask(page, "What is this?")
    shown(page, 2)
    ask(page, "And now?")
    (one, *_, two, _) = exported(page, server)["messages"]
    assert [picture["name"] for picture in one["meta"]["pictures"]] == ["first.png", "third.png"]
    assert two["meta"].get("pictures") is None
    page.click("button[title='Answer again']")
    page.wait_for_selector("text=2 / 2")
    wait_idle(page)

    # Another model goes on without them; nothing of the conversation is lost.
    choose(page, "#od-target", "tiny-target-a")
    page.wait_for_selector("#od-notice >> text=cannot see pictures", timeout=20_000)
    ask(page, "Still there?")
    page.wait_for_selector("#od-notice >> text=left out", timeout=20_000)
    page.reload()
    arrived(page)
    shown(page, 2)
