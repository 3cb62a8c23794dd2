"""A new user's first questions to the model that README's command brings: each answer is on its subject, and ends."""

from __future__ import annotations

import shutil

import pytest

from tests.real import SMOL, real_model
from tests.ui.chatting import answers, arrived, ask, new_chat
from tests.ui.conftest import Server

QUESTIONS = {
    "Write a polite e-mail to my landlord about a broken heater.": "heat",
    "Give me three tips for a good night's sleep.": "sleep",
    "Write a Python function that adds up all numbers in a list.": "def ",
    "What is gravity?": "gravity",
    "What is the capital of France?": "France",
    "Summarise in one sentence: The meeting was moved from Monday to Wednesday.": "Wednesday",
    "What is the difference between a cat and a dog?": "cat",
    "Why is the sky blue?": "light",
    "How do plants make their food?": "photosynthesis",
    "Who wrote Romeo and Juliet?": "Shakespeare",
}


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Server:
    """The app as it starts behind README's command, sampled as it comes."""
    data = tmp_path_factory.mktemp("first") / "app"
    (data / "home" / "models").mkdir(parents=True)
    shutil.copy(real_model(SMOL), data / "home" / "models" / SMOL)
    made = Server(data).start()
    yield made
    made.kill()


@pytest.mark.browser_slow
def test_everyday_questions_are_answered(first, pages):
    page = pages.open(first)
    arrived(page)
    page.wait_for_selector(".od-empty >> text=talks about anything")
    wrong = []
    for question, word in QUESTIONS.items():
        new_chat(page)
        ask(page, question)
        said = answers(page)[-1]
        lines = [line for line in said.splitlines() if line.strip()]
        loops = len(lines) > 6 and len(set(lines)) < len(lines) / 2
        if word.lower() not in said.lower() or loops:
            wrong.append((question, said[:300]))
    assert len(wrong) <= 1, wrong
    block = "[...document.querySelectorAll('#od-chat .bot-row .prose p')].pop()"
    assert page.evaluate(f"getComputedStyle({block}).unicodeBidi") == "plaintext", "Arabic runs from the right"
