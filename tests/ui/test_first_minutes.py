"""A new user's way through a fresh home: suggested questions, sums, a follow-up, all in view."""

from __future__ import annotations

import re

import pytest

from tests.real import SMOL, real_model
from tests.serving import SETTINGS, served
from tests.ui.accessibility import no_barriers
from tests.ui.chatting import answered, answers, arrived, ask, new_chat, said
from tests.ui.stub_hub import StubHub
from tests.ui.test_every_page import SHIFTS, TOO_WIDE
from ui.chat.parts import TOY_EXAMPLES

SUMS = {"What is 15 - 6?": 9}
SIZES = [(1440, 900), (390, 844)]
ANSWERS = {TOY_EXAMPLES[0]: "The answer is 68.", TOY_EXAMPLES[1]: "return sum(", TOY_EXAMPLES[2]: "OmniDraft is"}


fresh = served(settings="[model]\nthreads = 1\n")  # as it comes, but for one thread: the tests share their machine


def speedups(page) -> list[float]:
    """Those that the panel shows; where there is none it says why, in words."""
    return [float(one) for one in re.findall(r"(\d+\.\d+)×", page.inner_text("#od-live"))]


@pytest.fixture(scope="module")
def page(fresh, kept_pages):
    context = kept_pages.context(fresh)
    context.add_init_script(SHIFTS)
    yield kept_pages.open(fresh, context=context)
    context.close()


def test_the_first_screen_says_what_this_is_and_where_to_go(page):
    arrived(page)
    page.wait_for_selector(".od-empty")
    page.wait_for_timeout(1500)  # what comes late would move the rest
    assert page.evaluate("window.odShift") < 0.05
    said = ("gets faster as you talk to it", "a toy that knows sums", "See it race",
            "talks about anything, with a small", "All models")  # fmt: skip
    for width, height in reversed(SIZES):
        page.set_viewport_size({"width": width, "height": height})
        for text in said:
            assert page.locator(f".od-empty >> text={text}").is_visible(), text
        for example in TOY_EXAMPLES:
            assert page.locator(f"#od-chat .example >> text={example}").is_visible(), example
        page.wait_for_function(f"!{TOO_WIDE}", timeout=5_000)  # what is drawn late may be wider for a moment
    no_barriers(page)


def test_what_is_suggested_and_what_one_tries_next_is_answered_right(page):
    new_chat(page)
    page.click(f"#od-chat .example >> text={TOY_EXAMPLES[0]}")
    page.wait_for_selector("#od-chat .bot-row")
    answered(page)
    assert ANSWERS[TOY_EXAMPLES[0]] in answers(page)[-1]
    shown = speedups(page)
    for question in TOY_EXAMPLES[1:]:
        ask(page, question)
        assert ANSWERS[question] in answers(page)[-1]
        shown += speedups(page)
    for question, result in SUMS.items():
        ask(page, question)
        assert answers(page)[-1].endswith(f"The answer is {result}."), question
        shown += speedups(page)
    ask(page, "Add 5 to that.")
    assert answers(page)[-1].endswith("The answer is 14.")
    assert "tokens/s" in page.inner_text("#od-live")
    assert all(gain >= 0.97 for gain in [*shown, *speedups(page)])
    assert not page.evaluate(TOO_WIDE)


@pytest.mark.browser_slow
def test_the_first_screen_offers_better_models_and_a_button_fetches_one(make_server, pages, models):
    hub = StubHub(
        {"qwen2.5-1.5b-instruct-q4_k_m.gguf": (models / "tiny-target-b-f16.gguf").read_bytes()},
        "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
    )
    smol = real_model(SMOL)
    server = make_server(settings=f'target = "{smol}"\n\n{SETTINGS}', HF_ENDPOINT=hub.endpoint)
    page = pages.open(server, "/models#get=qwen2.5-1.5b")  # a link from elsewhere fetches nothing
    page.wait_for_selector("#od-known li")
    page.goto(server.origin)
    page.wait_for_selector(".od-empty >> text=a very small model")
    rows = page.locator(".od-better li")
    assert 1 <= rows.count() <= 3
    first = rows.first.inner_text()
    for word in ("Qwen2.5 1.5B", "code, mathematics", "1.1 GB"):
        assert word in first
    assert "fits" in first or "too large" in first
    assert hub.headers == []
    rows.first.locator("a").click()
    said(page, "qwen2.5-1.5b is coming")
    page.wait_for_selector("#od-downloads .od-download[data-state=done]")
    hub.close()
