"""Only whole characters are shown, and never a stop string nor what may become one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from omnidraft.decoding.request import TextStream


@given(st.text(), st.lists(st.integers(0, 40)))
def test_any_cutting_of_the_bytes_gives_the_text(text, cuts):
    data = text.encode()
    edges = sorted({min(c, len(data)) for c in cuts} | {0, len(data)})
    stream = TextStream()
    shown = "".join(stream.feed(data[a:b]) for a, b in pairwise(edges))
    assert shown + stream.finish() == text


def test_incomplete_characters_wait():
    stream = TextStream()
    flame = "🔥".encode()
    assert stream.feed(b"a" + flame[:2]) == "a"
    assert stream.feed(flame[2:]) == "🔥"


def test_a_false_alarm_is_shown_after_all():
    stream = TextStream(["stop!"])
    assert stream.feed(b"please sto") == "please "
    assert stream.feed(b"op") == "stoop"
    assert stream.feed(b" s") == " "
    assert stream.finish() == "s"


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_shown_text_is_the_text_before_the_first_stop_string(text, stops):
    stream = TextStream(stops)
    shown = "".join(stream.feed(c.encode()) for c in text) + stream.finish()
    # fed byte by byte, the stop string that completes first cuts
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    first = min((end for end, _ in ends), default=None)
    expected = text if first is None else text[: min(start for end, start in ends if end == first)]
    assert shown == expected


@given(
    st.text("ab", max_size=20), st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)
)
def test_a_stop_string_may_begin_in_what_was_there(before, text, stops):
    """A text that is gone on with stops where it would have stopped in one go."""
    stops = [s for s in stops if s not in before]
    whole = TextStream(stops)
    expected = "".join(whole.feed(c.encode()) for c in before + text) + whole.finish()
    stream = TextStream(stops, behind=before)
    shown = "".join(stream.feed(c.encode()) for c in text) + stream.finish()
    assert stream.stopped == whole.stopped
    assert shown == expected[len(before) :]


def test_what_would_begin_a_stop_string_is_known():
    stream = TextStream(["\nUser:"], behind="Paris.\n")
    assert all(map(stream.would_begin, ("User", "Us", "User: x", "\n", "x\n", "x\nUser:")))
    assert not any(map(stream.would_begin, ("x", "user", " User", "A\nB")))
