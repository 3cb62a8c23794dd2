"""A week of much use: 300 conversations, 5,000 messages, 40 MB of text; what a page asks for is there at once."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from statistics import median

import pytest

from omnidraft.chats import ChatStore, Conversation, Message
from ui.chat.turns import turns

CHATS, MESSAGES, BYTES = 300, 5_000, 40_000_000
LIMIT = 0.2  # seconds
WORDS = 30_000


def vocabulary(draw: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgk"
    return ["".join(draw.choice(letters) for _ in range(draw.randint(2, 11))) for _ in range(WORDS)]


def week(draw: random.Random) -> list[tuple[Conversation, list[Message]]]:
    """Words as often as in a language: some stand in every message, most in few."""
    words = vocabulary(draw)
    weights = [1 / (rank + 2) for rank in range(WORDS)]
    stream = draw.choices(words, weights, k=BYTES // 7)
    each, now, made, at = len(stream) // MESSAGES, time.time() - 7 * 86400, [], 0
    for number in range(CHATS):
        chat = Conversation(uuid.uuid4().hex, f"Talk {number}", now, now + number, tags=(f"t{number % 7}",))
        said: list[Message] = []
        for turn in range(MESSAGES // CHATS + (number < MESSAGES % CHATS)):
            text = " ".join(stream[at : at + each]) + (f" rareword{number}" if not turn else "")
            text = text.replace("a", "ä", 40) if turn % 3 else text  # one such character makes folding dearer
            role, parent = ("assistant", said[-1].id) if turn % 2 else ("user", said[-1].id if said else None)
            meta = {"statistics": {"tokens": each}, "token_ids": list(range(each))} if turn % 2 else {}
            said.append(Message(uuid.uuid4().hex, chat.id, parent, role, text, now + number, True, meta))
            at += each
        made.append((chat, said))
    return made


def seconds(act: Callable[[], object]) -> tuple[float, float]:
    """(on the clock, of the processor) in the middle of five tries. The machine may be busy with something else."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter(), time.process_time()
        act()
        taken.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    return median(wall for wall, _ in taken), median(used for _, used in taken)


def shown(store: ChatStore, chat: str) -> object:
    """What the chat page makes of a conversation."""
    return turns(store.path(chat), store.versions(chat)).marks_html(chat)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("full_text", [True, False], ids=["FTS5", "without"])
def test_list_search_and_open_stay_immediate(tmp_path, full_text, capsys):
    made = week(random.Random(7))
    with ChatStore(tmp_path / "chats.sqlite", full_text=full_text) as store:
        store.insert(made)
        common, middle = made[0][1][0].content.split()[0], made[0][1][0].content.split()[7]
        longest = max(made, key=lambda one: len(one[1]))[0].id
        queries = {"rare": "rareword77", "common": common, "two": f"{common} {middle}", "part": common[:2],
                   "a letter": "e", "nowhere": "zzzqqqxxx", "inside": "areword77", "punctuation": "!?", "CJK": "日本",
                   }  # fmt: skip
        begun = time.process_time()
        store.search("zzzqqqxxx")
        first = time.process_time() - begun
        figures = {"list": seconds(lambda: store.conversations(300)), "open": seconds(lambda: shown(store, longest))}
        figures |= {f"search {name}": seconds(lambda text=text: store.search(text)) for name, text in queries.items()}
        found = store.search("rareword77")
    with capsys.disabled():
        for name, (wall, used) in figures.items():
            print(f"\n  {name}: {wall * 1000:.0f} ms, {used * 1000:.0f} ms of the processor", end="")
        # Once, from the opening of the file on, all text is made ready for searches that no index helps.
        print(f"\n  search nowhere, the first time: {first * 1000:.0f} ms of the processor", end="")
    assert [hit.conversation.title for hit in found] == ["Talk 77"]
    assert first <= LIMIT
    assert not {name: used for name, (_, used) in figures.items() if used > LIMIT}
