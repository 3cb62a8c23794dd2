"""A week of much use: 300 conversations, 5,000 messages, 40 MB of text; what a page asks for is there at once."""

from __future__ import annotations

import random
import time
import uuid
from statistics import median

import pytest

from omnidraft.chats import ChatStore, Conversation, Message
from ui.chat.turns import turns

CHATS, MESSAGES, BYTES = 300, 5_000, 40_000_000
LIMIT = 0.2  # seconds of the processor: the machine may be busy with something else
WORDS = 30_000


def week(draw: random.Random) -> list[tuple[Conversation, list[Message]]]:
    """Words as often as in a language: some stand in every message, most in few."""
    words = ["".join(draw.choices("etaoinshrdlucmfwypvbgk", k=draw.randint(2, 11))) for _ in range(WORDS)]
    stream = draw.choices(words, [1 / (rank + 2) for rank in range(WORDS)], k=BYTES // 7)
    each, now, made = len(stream) // MESSAGES, time.time() - 7 * 86400, []
    for number in range(CHATS):
        chat = Conversation(uuid.uuid4().hex, f"Talk {number}", now, now + number)
        said: list[Message] = []
        for turn in range(MESSAGES // CHATS + (number < MESSAGES % CHATS)):
            text = " ".join(stream.pop() for _ in range(each)) + (f" rareword{number}" if not turn else "")
            text = text.replace("a", "ä", 40) if turn % 3 else text  # one such character makes folding dearer
            meta = {"statistics": {"tokens": each}, "token_ids": list(range(each))} if turn % 2 else {}
            role, parent = ("user", "assistant")[turn % 2], said[-1].id if said else None
            said.append(Message(uuid.uuid4().hex, chat.id, parent, role, text, now + number, True, meta))
        made.append((chat, said))
    return made


def seconds(act, tries: int = 5) -> float:
    """Of the processor, in the middle of some tries."""
    taken = []
    for _ in range(tries):
        begun = time.process_time()
        act()
        taken.append(time.process_time() - begun)
    return median(taken)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_list_search_and_open_stay_immediate(tmp_path):
    made = week(random.Random(7))
    common, middle = made[0][1][0].content.split()[:8:7]
    longest = max(made, key=lambda one: len(one[1]))[0].id
    with ChatStore(tmp_path / "chats.sqlite") as store:
        store.insert(made)
        # Once, from the opening of the file on, all text is made ready.
        figures = {"the first time": seconds(lambda: store.search("zzzqqqxxx"), 1)}
        words = "rareword77", common, f"{common} {middle}", common[:2], "e", "zzzqqqxxx", "areword77", "!?", "日本"
        for text in words:
            figures[text] = seconds(lambda text=text: store.search(text))
        figures["list"] = seconds(lambda: store.conversations(300))
        figures["open"] = seconds(lambda: turns(store.path(longest), store.versions(longest)).marks_html(longest))
        assert [hit.conversation.title for hit in store.search("rareword77")] == ["Talk 77"]
    assert not {name: used for name, used in figures.items() if used > LIMIT}
