"""Automatic titles: short, on one line, from the first words that say something."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.chats import automatic_title
from omnidraft.chats.titles import MAX_TITLE


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  \n\n  What is\ta   tide?  \nMore.", "What is a tide?"),
        ("# A heading\ntext", "A heading"),
        ("- first point", "first point"),
        ("1. first step", "first step"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("***\n\n---\nwords", "words"),
        ("", "New chat"),
        ("\n \t", "New chat"),
        ("???", "???"),
        ("<|im_end|> is text", "<|im_end|> is text"),
        ("\u202egnirts\u202c", "gnirts"),
        ("👍🏽", "👍🏽"),
    ],
)
def test_the_first_line_with_words_is_the_title(text, title):
    assert automatic_title(text) == title


def test_a_long_line_is_cut_at_a_word():
    title = automatic_title("Please explain to me in some detail how the tides of the North Sea come about, and why.")
    assert title == "Please explain to me in some detail how the tides of the…"


def test_a_line_without_spaces_is_cut_anywhere_but_not_inside_a_character():
    assert automatic_title("天" * 100) == "天" * (MAX_TITLE - 1) + "…"
    family = "👩\u200d👩\u200d👧\u200d👦"
    assert automatic_title("x" * (MAX_TITLE - 4) + family * 9) == "x" * (MAX_TITLE - 4) + "…"
    assert automatic_title("e\u0301" * 60) == "e\u0301" * ((MAX_TITLE - 1) // 2) + "…"


@given(st.text())
def test_any_text_gives_a_short_line_that_can_be_shown(text):
    title = automatic_title(text)
    assert 0 < len(title) <= MAX_TITLE
    assert len(title.splitlines()) == 1
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in title)
