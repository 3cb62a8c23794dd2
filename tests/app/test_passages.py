"""Which parts of a long text are chosen for a question."""

from __future__ import annotations

from omnidraft.app.passages import GAP, chosen, passages

FILLING = "Nothing of note was said on that day, and so it went on for weeks.\n" * 7
BOOK = "".join(f"Chapter {n}.\n{FILLING}" + ("The bell was cast in Bremen.\n" if n == 31 else "") for n in range(40))


def test_a_text_is_cut_into_passages_and_nothing_of_it_is_lost():
    for text in (BOOK, "a" * 5000, "", "one line", "日本語" * 900):
        assert "".join(passages(text)) == text
        assert all(len(part) <= 1200 for part in passages(text))


def test_what_answers_a_question_is_among_the_parts_wherever_it_stands():
    parts = chosen(BOOK, "Where was the bell cast?", 2000)
    assert "cast in Bremen" in parts
    assert parts.startswith("Chapter 0."), "what kind of text it is"
    assert GAP in parts
    assert len(parts) < 2500


def test_parts_stand_in_the_order_of_the_text():
    found = chosen(BOOK, "bell chapter 31 chapter 5", 5000)
    numbers = [int(line.split()[1].rstrip(".")) for line in found.splitlines() if line.startswith("Chapter")]
    assert numbers == sorted(numbers)


def test_nothing_is_chosen_by_words_where_no_word_is_shared():
    assert chosen(BOOK, "Zusammenfassung?", 2000) == ""
