"""Texts reach the chatbot without a single `<`, so its parser can make no HTML of them, and lose nothing by it."""

from __future__ import annotations

import time

import pytest

from omnidraft.chats import Message
from tests.ui.payloads import PAYLOADS
from ui.chat.turns import LESS, turns, without_html


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("text", PAYLOADS)
def test_no_text_holds_anything_that_could_become_html(role, text):
    for whole in (text, f"```html\n{text}\n```", f"$$\n```\n$$\n{text}", f"`{text}`", f"<think>{text}</think>{text}"):
        rows = turns([Message("m", "chat", None, role, whole, 0.0)], {}).rows
        assert not any("<" in row["content"]["text"] for row in rows)
        assert not any("```mermaid" in row["content"]["text"] for row in rows)


@pytest.mark.parametrize("text", ["a < b", "```c\n#include <stdio.h>\n```", "`a<b>`", "    <p>", "<b>bold</b> & &amp;"])
def test_nothing_but_the_character_changes(text):
    assert without_html(text).replace(LESS, "<") == text


def test_images_are_text_and_autolinks_are_links():
    assert without_html("![x](http://a/b.png)") == r"!\[x](http://a/b.png)"
    assert without_html("`![x](y)`") == "`![x](y)`"
    assert without_html("see <https://a/b?c=d>.") == "see https://a/b?c=d."


def test_formulas_between_single_dollars_are_formulas_and_prices_are_not():
    assert without_html("so $x^2 < 9$ and $E = mc^2$") == r"so \(x^2 &lt; 9\) and \(E = mc^2\)"
    assert without_html("$n$ or $f(x)$") == r"\(n\) or \(f(x)\)"
    code = ("`$x$` $HOME", "```sh\necho $a^b $c\n```", r"\$x^2\$")
    for prices in ("$5 and $10", "from $5 to 6$ or $7", "US$5, C$6", *code):
        assert without_html(prices) == prices
    assert without_html(r"$$a < b$$ \[c<d\] \(e<f\)") == r"$$a &lt; b$$ \[c&lt;d\] \(e&lt;f\)"


def test_code_in_a_language_that_cannot_be_coloured_is_shown_all_the_same():
    assert without_html("```cpp\nx\n```") == "```c\nx\n```"
    assert without_html("~~~ mermaid\nx\n~~~") == "~~~ text\nx\n~~~"


def test_a_long_text_takes_no_longer_than_its_length_asks():
    repeated = ("`", "$a ", "` `` ", "```\n", "$$", "\\[", "<think>", "\n<think>")
    for text in [part * (40_000 // len(part)) + "x" for part in repeated]:
        begun = time.process_time()
        turns([Message("m", "chat", None, "assistant", text, 0.0)], {})
        assert time.process_time() - begun < 3
