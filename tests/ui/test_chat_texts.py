"""Texts on the chat page in a browser: what answers show and may not do, what is copied, typed, edited and kept."""

from __future__ import annotations

import pytest

from tests.ui.chatting import answers, arrived, ask, exported, import_talk, new_chat, questions, tab, unfold
from tests.ui.conftest import kept_page
from tests.ui.payloads import ELSEWHERE, PAYLOADS

CODE = "  if (a < b) {\n    return x<y>;\n  }"
SHOWN = f"""Some *words*, 1 < 2.

- [x] done
- [ ] to do

```cpp
{CODE}
```

So $x^2 < 9$, see [a place]({ELSEWHERE}/page?a=1&b=2).
"""


def imported(page, tmp_path, *messages: tuple[str, str]) -> None:
    """A conversation of these messages, shown."""
    arrived(page)
    before = page.get_attribute("#od-marks", "data-chat")
    import_talk(page, tmp_path, *messages)
    page.wait_for_function("chat => document.querySelector('#od-marks').dataset.chat !== chat", arg=before)
    page.wait_for_function("n => document.querySelectorAll('#od-chat .od-turn').length === n", arg=len(messages))


page = kept_page("server")


def test_answers_are_markdown_and_nothing_else(page, tmp_path):
    turns = [(role, text) for text in PAYLOADS for role in ("user", "assistant")]
    imported(page, tmp_path, *turns)
    drawn = "form, dialog, img, iframe, object, style, script, details, textarea, button:not(.copy_code_button)"
    assert page.locator(f"#od-chat .message :is({drawn})").count() == 0
    assert page.locator("#od-chat .message [id], #od-chat .message [name]").count() == 0
    assert page.evaluate("[...document.querySelectorAll('#od-chat .md [style]')].every(e => e.closest('.katex'))")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#od-marks").count() == 1
    said = page.inner_text("#od-chat")
    for tag in ("<form action=", "<dialog open", '<div id="od-marks"', "<script>", "<!-- hidden -->", "<iframe"):
        assert said.count(tag) >= 2, f"{tag} is shown as it was written"
    assert "\ufdd0" not in page.content().replace("\\ufdd0", "")
    # Even what a formula draws stays inside its answer.
    assert page.evaluate("getComputedStyle(document.querySelector('#od-chat .message')).contain") in (
        "content", "layout paint", "paint layout",
    )  # fmt: skip


def test_an_address_ends_where_a_tag_begins(page, tmp_path):
    text = (
        "<a href=https://a.example/x>https://a.example/x</a> and <b>https://b.example/y?q=1</b>, "
        "[named](https://c.example/a<b) or <https://d.example/z>."
    )
    imported(page, tmp_path, ("user", text), ("assistant", text))
    links = page.evaluate("[...document.querySelectorAll('#od-chat .md a')].map(a => [a.textContent, a.href])")
    assert links
    assert not any("%EF%B7%90" in link or "\ufdd0" in link or "<" in name for name, link in links), links
    assert ["https://b.example/y?q=1", "https://b.example/y?q=1"] in links
    assert "<b>https://b.example/y?q=1</b>" in page.inner_text("#od-chat")


def test_answers_draw_lists_code_and_formulas(page, tmp_path):
    imported(page, tmp_path, ("user", "<b>Show</b> me"), ("assistant", SHOWN))
    page.wait_for_selector("#od-chat .katex")
    assert page.locator("#od-chat li input[type=checkbox]:checked").count() == 1
    assert page.text_content("#od-chat pre code").rstrip("\n") == CODE
    assert "1 < 2" in answers(page)[0]
    assert questions(page) == ["<b>Show</b> me"]
    assert page.get_attribute("#od-chat .bot-row [data-testid=bot]", "aria-label") == "Answer"


def test_answers_and_code_can_be_copied_also_with_the_keyboard(page, tmp_path):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied() -> str:
        return page.evaluate("navigator.clipboard.readText()")

    imported(page, tmp_path, ("user", "Show <b>me</b>"), ("assistant", SHOWN))
    page.click("#od-chat .bot-row .od-turn button[title=Copy]")
    page.wait_for_selector("#od-chat .bot-row .od-turn button[title=Copied]")
    assert copied().strip() == SHOWN.strip()
    page.focus("#od-chat .user-row .od-turn button[title=Copy]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-chat .user-row .od-turn button[title=Copied]")
    assert copied() == "Show <b>me</b>"
    page.focus("#od-chat .copy_code_button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-chat .copy_code_button[title=Copied]")
    assert copied() == CODE


def test_a_link_asks_before_it_leaves(page, tmp_path):
    imported(page, tmp_path, ("user", "Where?"), ("assistant", f"{SHOWN}\n[home](/export/x)"))
    page.click("#od-chat a >> text=a place")
    assert page.inner_text("#od-leave code") == f"{ELSEWHERE}/page?a=1&b=2"
    page.keyboard.press("Escape")
    page.wait_for_selector("#od-leave", state="detached")
    page.click("#od-chat a >> text=home", button="middle")
    page.click("#od-leave [value=stay]")
    page.wait_for_selector("#od-leave", state="detached")
    assert len(page.context.pages) == 1
    page.evaluate("() => { window.open = (...given) => { window.opened = given; }; }")
    page.focus("#od-chat a >> text=a place")
    page.keyboard.press("Enter")
    page.click("#od-leave [value=open]")
    page.wait_for_function("window.opened")
    assert page.evaluate("window.opened") == [f"{ELSEWHERE}/page?a=1&b=2", "_blank", "noopener,noreferrer"]


def paste(page, selector: str, text: str) -> None:
    """Put a text in a field in one piece, as pasting does: no key is pressed."""
    page.click(selector)
    page.evaluate("text => document.execCommand('insertText', false, text)", text)


def compose(page, selector: str, text: str) -> None:
    """Write a text as an input method does."""
    page.click(selector)
    keyboard = page.context.new_cdp_session(page)
    keyboard.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})
    keyboard.send("Input.insertText", {"text": text})


def empty(page, selector: str) -> None:
    """Select all and delete."""
    page.click(selector)
    page.evaluate("() => { document.execCommand('selectAll'); document.execCommand('delete'); }")


def until(page, what, timeout: float = 20.0) -> None:
    for _ in range(int(timeout * 10)):
        if what():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never came")


@pytest.mark.browser_slow
def test_pasted_deleted_and_composed_texts_count(server, pages):
    page = pages.open(server)
    new_chat(page)
    ask(page, "Lighthouses at night")
    tab(page, "Options")
    unfold(page)
    paste(page, "#od-system textarea", "You are a lighthouse.")
    until(page, lambda: exported(page, server)["system"] == "You are a lighthouse.")
    empty(page, "#od-system textarea")
    until(page, lambda: exported(page, server)["system"] == "")
    compose(page, "#od-system textarea", "灯台")
    until(page, lambda: exported(page, server)["system"] == "灯台")
    paste(page, "#od-seed input", "77")
    until(page, lambda: (exported(page, server)["sampling"] or {}).get("seed") == 77)
    paste(page, "#od-search input", "lighthouses")
    page.wait_for_function("document.querySelectorAll('#od-rows .od-row').length === 1")
    paste(page, "#od-search input", " nowhere")
    page.wait_for_selector("#od-rows >> text=Nothing found")
    empty(page, "#od-search input")
    page.wait_for_selector("#od-rows .od-age")


def box(page) -> str:
    return page.input_value("#od-box textarea")


def edit(page, text: str) -> None:
    page.hover("#od-chat .user-row")
    page.click("#od-chat .user-row button[title=Edit]")
    page.wait_for_selector("#od-cancel", state="visible")
    until(page, lambda: box(page) == text)


@pytest.mark.browser_slow
def test_an_edit_can_be_given_up_and_leaks_nowhere(server, pages):
    page = pages.open(server)
    new_chat(page)
    ask(page, "The first words")
    page.fill("#od-box textarea", "Not sent yet")
    edit(page, "The first words")
    page.click("#od-cancel")
    page.wait_for_selector("#od-cancel", state="hidden")
    until(page, lambda: box(page) == "Not sent yet")
    edit(page, "The first words")
    page.press("#od-box textarea", "Escape")
    page.wait_for_selector("#od-cancel", state="hidden")
    until(page, lambda: box(page) == "Not sent yet")
    page.fill("#od-box textarea", "")
    edit(page, "The first words")
    new_chat(page)
    assert box(page) == ""
    assert page.is_hidden("#od-cancel")
    page.click("#od-rows .od-row >> text=The first words")
    page.wait_for_selector("#od-chat .user-row")
    page.wait_for_timeout(600)
    assert box(page) == ""
    ask(page, "Then more")
    assert questions(page) == ["The first words", "Then more"]


RIGHT = """العربية تُكتب من اليمين إلى اليسار.

- عنصر أول
- English second

> اقتباس قصير

```python
print("مرحبا")
```

And English from the left."""


def test_each_block_runs_as_its_own_text_does_and_code_from_the_left(page, tmp_path):
    imported(page, tmp_path, ("user", "ما هي العربية؟"), ("assistant", RIGHT))
    page.wait_for_selector("#od-chat .bot-row .prose ul[dir=rtl]")

    def ways(selector: str) -> list[str]:
        found = "all => all.map((one) => getComputedStyle(one).direction)"
        return page.eval_on_selector_all(f"#od-chat .bot-row .prose {selector}", found)

    # Paragraphs have no direction of their own: the browser finds each one's. Where the letters begin tells.
    begins = """all => all.map((block) => {
      const text = document.createRange();
      text.selectNodeContents(block);
      return text.getBoundingClientRect().left - block.getBoundingClientRect().left;
    })"""
    arabic, english = page.eval_on_selector_all("#od-chat .bot-row .prose > p", begins)
    assert arabic > 2 > english
    assert (ways("ul"), ways("ul > li"), ways("blockquote"), ways("pre code")) == (
        ["rtl"], ["rtl", "ltr"], ["rtl"], ["ltr"],
    )  # fmt: skip
    page.fill("#od-box textarea", "مرحبا")
    assert page.evaluate("getComputedStyle(document.querySelector('#od-box textarea')).unicodeBidi") == "plaintext"
