"""The models page in a real browser: models listed, loaded and unloaded with the keyboard."""

from __future__ import annotations

from tests.ui.chatting import said


def test_models_are_listed_loaded_and_unloaded(server, pages):
    page = pages.open(server, "/models")
    card = ".od-models li:has(h3:text-is('tiny-target-b'))"
    page.wait_for_selector(card)
    assert page.inner_text(f"{card} p >> nth=0").split() == ["14.1", "MB", "fits", "text", "only"]
    left = ".map(e => Math.round(e.getBoundingClientRect().left))"  # with a button or without, in one column
    assert len(set(page.evaluate(f"[...document.querySelectorAll('.od-models > li > p')]{left}"))) == 1
    assert not page.is_visible(f"{card} >> text=architecture")
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{card} >> text=architecture")
    text = page.inner_text(card)
    for word in ("llama", "F16", "qwen2", "1,024", "MB at"):
        assert word in text
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Enter")
    said(page, "tiny-target-b answers")
    page.wait_for_selector(f"{card} .od-tag")
    page.wait_for_selector(f"{card} [data-kind=unload]:focus")
    assert "in memory" in page.inner_text(card)
    page.click(f"{card} [data-kind=unload]")
    said(page, "Unloaded")
