"""An answer that takes its time, while its page shows other conversations and refuses a file: in a real browser."""

from __future__ import annotations

import pytest

from tests.ui.chatting import answers, arrived, ask, new_chat, questions, wait_idle

OTHER = "Something else"
STORY = "What is 23 + 45 + 17?"  # answered step by step
SLOW = """[model]
threads = 1

[sampling]
temperature = 1.0
seed = 4
max_tokens = 900
min_p = 0.02
repeat_penalty = 1.3

[draft]
enabled = false
"""


@pytest.fixture
def slow(make_server):
    """An app that writes two tokens a second, for half a minute."""
    return make_server(settings=SLOW, PAUSE="0.5")


def visit(page, question: str) -> None:
    page.click(f"#od-rows .od-row:has-text('{question}')")
    page.wait_for_selector(f"#od-chat .user-row >> text={question}")


def grows(page) -> None:
    """Until the last answer is longer than it is now; what stands in its place before it begins ends in dots."""
    now = answers(page)[-1]
    script = """n => {
        const text = [...document.querySelectorAll('#od-chat .bot-row .message')].at(-1).innerText.trim();
        return !text.endsWith('…') && text.length > n;
    }"""
    page.wait_for_function(script, arg=0 if now.endswith("…") else len(now))


def stop(page) -> None:
    page.keyboard.press("Escape")
    wait_idle(page)


@pytest.mark.browser_slow
def test_an_answer_is_followed_in_its_own_conversation_and_the_next_question_waits_for_its_turn(slow, pages, tmp_path):
    page = pages.open(slow)
    arrived(page)
    ask(page, STORY, wait=False)
    page.wait_for_selector(f"#od-rows .od-row:has-text('{STORY}')")  # the model is loaded, and the question is kept
    grows(page)
    new_chat(page)
    ask(page, OTHER, wait=False)
    page.wait_for_selector("#od-chat >> text=Waiting for another answer to end")
    page.reload()
    arrived(page)
    page.wait_for_selector("#od-chat >> text=Waiting for another answer to end")
    assert questions(page) == [OTHER]
    assert page.is_visible("#od-stop")
    visit(page, STORY)
    grows(page)
    (tmp_path / "bad.json").write_text("{")
    page.set_input_files("#od-transfer input[type=file]", str(tmp_path / "bad.json"))
    page.wait_for_selector("#od-notice .od-bad")
    assert page.is_visible("#od-stop")
    page.wait_for_timeout(500)
    grows(page)
    stop(page)
    before = answers(page)
    visit(page, OTHER)
    grows(page)
    for question in (STORY, OTHER, STORY):
        visit(page, question)
    page.wait_for_timeout(1500)
    assert questions(page) == [STORY]
    assert answers(page) == before
    visit(page, OTHER)
    grows(page)
    stop(page)
