"""How a conversation becomes rows: folds, versions, marks that fit the rows, and texts without a single `<`, of which
the chatbot's parser can make no HTML."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import gradio as gr
import pytest

from omnidraft.chats import Message
from omnidraft.format import percent, rate, seconds, share, short, size
from tests.ui.payloads import PAYLOADS
from ui.chat.markdown import LESS, as_typed, without_html
from ui.chat.panel import panel
from ui.chat.turns import MOST, turns


def message(name: str, role: str, content: str, **meta) -> Message:
    return Message(name, "chat", None, role, content, 0.0, True, meta)


def test_thoughts_are_folded_and_marks_stay_beside_their_rows():
    path = [
        message("q", "user", "Why?"),
        message("a", "assistant", "<think>Hm.</think>\nBecause.", note="Another one."),
    ]
    shown = turns(path, {"q": (1, 1), "a": (2, 3)})
    assert [row["content"]["text"] for row in shown.rows] == ["Why?", "Another one.", "Hm.", "Because."]
    assert [mark and mark["id"] for mark in shown.marks] == ["q", None, None, "a"]
    assert (shown.marks[3]["place"], shown.marks[3]["count"], shown.marks[3]["last"]) == (2, 3, True)
    data = unescape(shown.marks_html().partition('data-marks="')[2].rpartition('"')[0])
    assert json.loads(data) == shown.marks


@pytest.mark.parametrize("typed", [
    "Use *stars* and _lines_, `ticks` and ~~waves~~.", "# no heading", "- no list\n2. nor this", "> no quote", "a | b",
    "    no code,\n\n\nand three lines", "price: $5 and $6, &amp; [a](b) ![c](d)", "see https://a.b/c_d_e or www.a.b",
    "\\(x\\) <b>bold</b>",
])  # fmt: skip
def test_nothing_a_person_typed_is_taken_for_markdown(typed):
    (row,) = turns([message("q", "user", typed), message("a", "assistant", "Yes.")], {}).rows[:1]
    sent = row["content"]["text"]
    assert unescape(sent.replace(LESS, "<")) == typed
    assert not re.search(r"[*_`~|\[\]$\\\n]|^\s|^[#>-]|://|www\\.", re.sub(r"&#\d+;", "x", sent))


def test_code_that_a_person_fenced_stays_code():
    typed = "Look at *this*:\n```py\na = b * c * d\n```\nand *that*"
    (row,) = turns([message("q", "user", typed), message("a", "assistant", "Yes.")], {}).rows[:1]
    before, code, after = row["content"]["text"].split("\n\n")
    assert code == "```py\na = b * c * d\n```"
    assert (unescape(before), unescape(after)) == ("Look at *this*:", "and *that*")


def texts(answer: str) -> list[str]:
    """The rows of an answer; of folds with their title."""
    rows = turns([message("a", "assistant", answer)], {}).rows
    return [row.get("metadata", {}).get("title", "") + row["content"]["text"] for row in rows]


def test_thoughts_are_found_wherever_a_line_begins_with_them():
    assert texts("<think>so far") == ["Thinkingso far", "*No answer was written.*"]
    assert texts("Sure.\n<think>\nHm.\n</think>\n\nYes.") == ["Sure.", "ThoughtsHm.", "Yes."]
    assert texts("<think>a</think>b\n<thinking>c</thinking>d") == ["Thoughtsa", "b", "Thoughtsc", "d"]
    marks = turns([message("a", "assistant", "Sure.\n<think>Hm.</think>Yes.")], {}).marks
    assert [mark and mark["id"] for mark in marks] == [None, None, "a"]


def test_an_answer_that_begins_inside_its_thoughts_is_folded_from_its_first_word():
    def rows(text: str, writing=None) -> list[str]:
        path = [message("a", "assistant", text, thinks=True)]
        shown = turns(path, {}, ("a", writing) if writing is not None else None).rows
        return [row.get("metadata", {}).get("title", "") + row["content"]["text"] for row in shown]

    assert rows("", "") == ["…"]
    assert rows("", "Let me")[0] == "ThinkingLet me"
    assert rows("", "Let me see.\n</think>\n\nIt is") == ["ThoughtsLet me see.", "It is"]
    assert rows("Let me see.\n</think>\n\nIt is 4.") == ["ThoughtsLet me see.", "It is 4."]
    assert rows("<think>\nBoth.</think>Yes.") == ["ThoughtsBoth.", "Yes."]


def test_a_thought_that_is_spoken_of_is_none():
    assert texts("no <think>tag</think> at the start") == ["no \ufdd0think>tag\ufdd0/think> at the start"]
    assert texts("```\n<think>x</think>\n```") == ["```\n\ufdd0think>x\ufdd0/think>\n```"]


def test_an_answer_in_the_making_shows_its_running_text():
    shown = turns([message("a", "assistant", "old")], {}, ("a", "new"))
    assert shown.rows[0]["content"]["text"] == "new"
    assert shown.marks[0]["busy"]
    assert not shown.marks[0]["last"]


def test_reasons_are_escaped():
    assert "<b>x" not in panel(None, "<b>x")


def test_numbers_read_well():
    assert (short(4_200_000), short(494_000_000), short(7_600_000_000)) == ("4.2M", "494M", "7.6B")
    assert (size(2_448_544), size(512), size(5_000_000_000)) == ("2.4 MB", "512 bytes", "5.0 GB")
    assert (size(999_999), size(999_600_000), short(999_700)) == ("1.0 MB", "1.0 GB", "1.0M")
    assert (rate(None), rate(12.345), rate(1234.5)) == ("–", "12.3", "1,234")
    assert (percent(None), percent(0.416)) == ("–", "42%")
    assert [share(value) for value in (0, 0.0125, 0.025, 0.05, 0.5, 1)] == ["0%", "1.25%", "2.5%", "5%", "50%", "100%"]
    assert (seconds(0.0456), seconds(3.21), seconds(600)) == ("46 ms", "3.2 s", "10 min")


CODE = "    indented\n\n- a\n  - b\n    - c\n\n```make\nall:\n\techo\n```\n"


def test_gradio_shows_the_text_as_it_is():
    path = [message("q", "user", CODE), message("a", "assistant", f"<think>\n{CODE}x</think>{CODE}", note=CODE)]
    for length in range(0, len(CODE), 7):
        rows = turns(path, {}, ("a", CODE[:length])).rows
        said = [row.content[0].text for row in gr.Chatbot().postprocess(rows).root]
        assert said == [as_typed(CODE), CODE, CODE[:length] or "…"]
    folded = gr.Chatbot().postprocess(turns(path, {}).rows).root[2]
    assert "\techo" in folded.content[0].text
    assert folded.metadata["title"] == "Thoughts"


def test_of_a_very_long_conversation_the_end_is_shown():
    """All rows are made anew with every update while an answer is written."""
    path = [message(f"m{n}", ("user", "assistant")[n % 2], f"text {n}") for n in range(40_000)]
    shown = turns(path, {}, ("m39999", "growing"))
    assert len(shown.rows) == len(shown.marks) == MOST + 1
    assert shown.rows[0]["content"]["text"] == "39,500 earlier messages are only in an export."
    assert shown.marks[0] is None
    assert [mark["id"] for mark in shown.marks[1:]] == [m.id for m in path[-MOST:]]
    assert shown.rows[-1]["content"]["text"] == "growing"
    assert len(turns(path[:MOST], {}).rows) == MOST


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
