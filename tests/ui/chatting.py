"""What the browser tests do on the chat page and, in several of them, on others, in words."""

from __future__ import annotations

from pathlib import Path

from omnidraft.chats import ChatStore, export_json


def wait_idle(page) -> None:
    """Until no answer is being written."""
    page.wait_for_selector("#od-send", state="visible")


def answered(page) -> None:
    """Until the last answer is written, also where the page has not begun to wait for it."""
    again = "#od-chat .message-row:last-of-type .od-turn button[title='Answer again']"
    page.wait_for_selector(again, state="attached")
    wait_idle(page)


def arrived(page) -> None:
    """Until the server has filled the page, and it stands in the place of its frame."""
    page.wait_for_selector("#od-marks", state="attached")
    page.wait_for_selector("#od-frame", state="detached")


def new_chat(page) -> None:
    arrived(page)
    page.click("#od-new")
    page.wait_for_selector("#od-rows .od-item[aria-current] >> text=New chat")
    page.wait_for_selector(".od-empty")


def write(page, selector: str, text: str) -> None:
    """Type over what stands in a field, key by key as a person does, again if the page was still being drawn.

    A page that is drawn late puts back its own value a moment after the keys, so the text has to stay.
    """
    for _ in range(8):
        page.click(selector)
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(text)
        if all(_stays(page, selector, text) for _ in range(3)):
            return
    raise AssertionError(f"{selector} shows {page.input_value(selector)!r} instead of {text!r}")


def _stays(page, selector: str, text: str) -> bool:
    page.wait_for_timeout(100)
    return page.input_value(selector) == text


def said(page, text: str, timeout: float = 60_000) -> None:
    """Until the page's message line says `text`; what it says instead is in the failure."""
    from playwright.sync_api import TimeoutError

    has = "text => (document.querySelector('#od-said')?.innerText || '').includes(text)"
    try:
        page.wait_for_function(has, arg=text, timeout=timeout)
    except TimeoutError:
        raise AssertionError(f"the page says {page.inner_text('#od-said')!r} instead of {text!r}") from None


def ask(page, text: str, *, wait: bool = True) -> None:
    """Send a message; with `wait` until its answer is there."""
    before = page.locator("#od-chat .message-row").count()
    page.fill("#od-box textarea", text)
    page.press("#od-box textarea", "Enter")
    page.wait_for_function("n => document.querySelectorAll('#od-chat .message-row').length >= n", arg=before + 2)
    if wait:
        answered(page)


def answers(page) -> list[str]:
    return [row.inner_text().strip() for row in page.query_selector_all("#od-chat .bot-row .message")]


def questions(page) -> list[str]:
    return [row.inner_text().strip() for row in page.query_selector_all("#od-chat .user-row .message")]


def titles(page) -> list[str]:
    return [item.inner_text().strip() for item in page.query_selector_all("#od-rows .od-row span")]


def choose(page, selector: str, text: str) -> None:
    """Pick an entry of a dropdown by a part of its label."""
    page.click(f"{selector} input")
    page.click(f"[role=option]:has-text('{text}')")


def tab(page, name: str) -> None:
    page.click(f"#od-tabs button[role=tab]:has-text('{name}')")


def unfold(page) -> None:
    """Show the settings of experts too. The page is drawn once more before its frame goes."""
    page.wait_for_selector("#od-frame", state="detached")
    page.wait_for_selector(".od-unfold >> visible=true")
    folded = page.locator(".od-unfold[aria-expanded=false] >> visible=true")
    while folded.count():
        folded.first.click()


def field(name: str) -> str:
    """Where a setting's field is."""
    return f"#od-set-{name.replace('.', '-')}"


def settle(page, name: str, text: str) -> None:
    """Give a setting another value."""
    write(page, f"{field(name)} input", text)
    page.keyboard.press("Enter")


def import_talk(page, tmp_path: Path, *messages: tuple[str, str]) -> None:
    """Import a conversation of these messages: (role, text)."""
    with ChatStore(tmp_path / "talk.sqlite") as store:
        chat = store.create("Imported").id
        for role, said in messages:
            store.append(chat, role, said)
        (tmp_path / "talk.json").write_text(export_json(store, [chat]))
    (tmp_path / "talk.sqlite").unlink()
    page.set_input_files("#od-transfer input[type=file]", str(tmp_path / "talk.json"))


def exported(page, server) -> dict:
    """The conversation shown, as it is stored."""
    link = page.get_attribute("#od-links >> text=JSON", "href")
    return page.request.get(server.origin + link).json()["conversations"][0]


def race_and_run(page) -> None:
    """On the Drift lab: a race of one prompt, and a short drift run."""
    page.wait_for_selector("#od-drift-progress p")
    choose(page, "#od-race-topic", "my own prompts")
    write(page, "#od-race-own textarea", "Hello")
    page.click("#od-race-go")
    page.wait_for_selector(".od-race[data-phase=raced]", timeout=120_000)
    write(page, "#od-count input", "2")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=90_000)
