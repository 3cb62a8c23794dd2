"""`profile`: profiles are listed, carried and renamed, and what is forgotten is in no file any more."""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.chats import ChatStore
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning.adapters.store import AdapterStore, Candidate, keep_candidate
from omnidraft.learning.adapters.versions import Meta
from omnidraft.learning.material.record import encode
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.forget import forget_chat
from omnidraft.settings.config import AppSettings, DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.settings.file import save_settings
from omnidraft.storage.paths import ProfilePaths, find_data_home
from omnidraft.vocab.ngram_store import NgramStore
from tests.adapters import arrays, lora
from tests.learning.learning_helpers import random_record

SECRET = "Write a Python function that counts the walruses in Quxington harbour 77310."
OTHER = "Hello, I would like to book a table for two."
GREEDY = SamplingSettings(temperature=0.0, max_tokens=32)
FIXED = DraftSettings(mode="fixed", length=4)


@pytest.fixture
def profile(cli):
    """`profile ...`."""
    return partial(cli, "profile")


CANDIDATE = b"what a candidate weighs."  # as float32


class Lived:
    """A profile in which two conversations were had with a bundled model, and an adapter was written in between."""

    def __init__(self, home, models: Path) -> None:
        self.paths: ProfilePaths = home.profile("Ada")
        save_settings(self.paths.settings, changed(AppSettings(), theme="dark"))
        self.old_adapter = self._adapter("0001", [])
        assistant = Assistant(home, "Ada")
        assistant.load(
            models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ModelSettings(threads=1, n_ctx=256)
        )
        with ChatStore(self.paths.chats) as store:
            self.other, _ = self._converse(store, assistant, OTHER)
            self.chat, self.answer = self._converse(store, assistant, SECRET)
        assistant.close()
        self.new_adapter = self._adapter("0002", [self.chat])
        weights = {"matrix": np.frombuffer(CANDIDATE, np.float32)}
        keep_candidate(self.new_adapter.parent, Candidate(weights, "base", 1, 2, (self.other, self.chat)))
        with ReplayStore(self.paths.replay) as replay:
            kept = [
                random_record(np.random.default_rng(seed), 60, k=1, chat=chat, target="tiny-target-a")
                for seed, chat in enumerate((self.other, self.chat))
            ]
            self.blobs = [encode(one) for one in kept]
            for one in kept:
                replay.add(one)

    def _converse(self, store: ChatStore, assistant: Assistant, text: str) -> tuple[str, str]:
        chat = store.create().id
        store.append(chat, "user", text)
        events = list(
            assistant.answer(
                AnswerRequest(
                    [{"role": "user", "content": text}], GREEDY, FIXED, source=chat, capture=assistant.capture
                )
            )
        )
        said = "".join(e.text for e in events if isinstance(e, (Token, Finished)))
        ids = [e.id for e in events if isinstance(e, Token)]
        store.append(chat, "assistant", said, meta={"token_ids": ids, "target": "tiny-target-a"})
        return chat, said

    def _adapter(self, name: str, chats: list[str]) -> Path:
        """A version trained on these conversations."""
        files = {"adapter.gguf": lora(f"weights of {name}"), "weights.npz": arrays(matrix=np.arange(8.0))}
        meta = Meta(drafter="d", vocabulary="v", chats=tuple(chats))
        return AdapterStore(self.paths.adapters / "tiny-drafter" / "0123abcd").publish(files, meta).path

    def table(self) -> str:
        """The n-gram cache's table of the pair that was used."""
        with closing(sqlite3.connect(self.paths.ngrams)) as connection:
            (name,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
        return name

    def ngrams(self) -> set[int]:
        """Target ids of every stored n-gram."""
        if not self.paths.ngrams.exists():
            return set()
        with closing(sqlite3.connect(self.paths.ngrams)) as connection:
            found = connection.execute(f'SELECT key FROM "{self.table()}"').fetchall()
        return {int(key) for (key,) in found if key != "meta"}

    def noted_by(self, chat: str) -> set[int]:
        """Target ids of the stored n-grams that conversation `chat` is noted to have taught."""
        store = NgramStore(self.paths.ngrams, self.table())
        store.close()
        return {token for token, row in store.rows if chat in row[4]}

    def write(self, sources: dict[int, list[str]]) -> None:
        """Store an n-gram for each target id, as the conversations given taught it."""
        store = NgramStore(self.paths.ngrams, self.table())
        rows = [(token, [1, 1, 1, [300, 301], named]) for token, named in sources.items()]
        store.write(rows, [], store.meta)
        store.close()


@pytest.fixture(scope="module")
def lived_once(models, tmp_path_factory):
    return Lived(find_data_home(tmp_path_factory.mktemp("lived")), models)


@pytest.fixture
def lived(home, lived_once):
    """A copy for the test alone."""
    own = copy.copy(lived_once)
    own.paths = home.profile("Ada")
    shutil.copytree(lived_once.paths.root, own.paths.root, dirs_exist_ok=True)
    for name in ("old_adapter", "new_adapter"):
        setattr(own, name, own.paths.root / getattr(own, name).relative_to(lived_once.paths.root))
    return own


def holding(home, *needles: str | bytes) -> set[str]:
    """Files anywhere in the data home that hold one of the needles."""
    wanted = [needle.encode() if isinstance(needle, str) else needle for needle in needles]
    assert all(wanted)
    return {
        path.name
        for path in home.root.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in wanted)
    }


def test_a_forgotten_conversation_is_in_no_file_of_the_data_home(profile, home, lived):
    written = set(_token_ids(lived, lived.chat))
    mine = written & lived.ngrams() - lived.noted_by(lived.other)
    assert mine
    assert "chats.sqlite" in holding(home, SECRET) & holding(home, lived.answer) & holding(home, lived.chat)
    assert "replay.sqlite" in holding(home, lived.blobs[1])
    assert holding(home, "weights of 0002")
    assert holding(home, CANDIDATE)
    code, out, _ = profile("forget", "Ada", "--chat", lived.chat, "--yes", "--json")
    assert code == 0
    gone = json.loads(out)
    assert (gone["conversations"], gone["answers"], gone["adapters"]) == (1, 1, 1)
    assert gone["ngrams"] > 0
    words = SECRET.removesuffix(".").split()[-2:]
    needles = (SECRET, lived.answer, lived.chat, *words, lived.blobs[1], "weights of 0002", CANDIDATE)
    assert holding(home, *needles) == set()
    assert not mine & lived.ngrams()


def test_the_other_conversations_stay(profile, home, lived):
    with ChatStore(lived.paths.chats) as store:
        before = store.snapshot(lived.other)
    assert profile("forget", "Ada", "--chat", lived.chat[:8], "--yes")[0] == 0
    with ChatStore(lived.paths.chats) as store:
        assert [chat.id for chat in store.conversations()] == [lived.other]
        assert store.snapshot(lived.other) == before
    with ReplayStore(lived.paths.replay) as replay:
        assert [answer.chat for answer in replay.answers.values()] == [lived.other]
    assert lived.old_adapter.is_dir()
    assert not lived.new_adapter.exists()
    assert lived.paths.settings.read_text().find("dark") > 0


def test_an_n_gram_goes_only_if_no_other_conversation_taught_it(home, lived):
    shared, unnoted = list(dict.fromkeys(_token_ids(lived, lived.chat)))[:2]
    mine = max(*lived.ngrams(), *_token_ids(lived, lived.chat)) + 1
    lived.write({mine: [lived.chat], shared: [lived.chat, lived.other], unnoted: [""]})
    assert {mine, shared, unnoted} <= lived.ngrams()
    forget_chat(home, "Ada", lived.chat)
    assert {mine, shared, unnoted} & lived.ngrams() == {shared}
    assert holding(home, lived.chat) == set()


def test_answers_that_do_not_say_their_tokens_take_every_n_gram_of_unknown_origin(home, lived):
    with ChatStore(lived.paths.chats) as store:
        answer = store.path(lived.chat)[-1]
        store.save_partial(answer.id, answer.content, {"target": "tiny-target-a"}, final=True)
    theirs = lived.noted_by(lived.other)  # whatever the bundled model happened to say there
    unwritten = max(lived.ngrams() | set(_token_ids(lived, lived.other))) + 1
    lived.write({unwritten: [""], unwritten + 1: [], unwritten + 2: [lived.other]})
    assert lived.noted_by(lived.chat) - theirs
    assert forget_chat(home, "Ada", lived.chat).ngrams > 2
    assert lived.ngrams() == theirs | {unwritten + 2}


def test_forgetting_everything_leaves_the_settings_alone(profile, home, lived):
    (lived.paths.root / "chats.sqlite.damaged-1").write_text(SECRET)
    run = lived.paths.root / "drift" / "20260101-000000-abcd"
    run.mkdir(parents=True)
    (run / "run.json").write_text(SECRET)
    code, out, _ = profile("forget", "Ada", "--everything", typed="forget everything\n")
    assert code == 0
    assert "2 conversations" in out
    assert "2 adapter versions" in out
    assert "2 answers" in out
    needles = (SECRET, OTHER, lived.answer, lived.chat, lived.other, *lived.blobs, "weights of")
    assert holding(home, *needles) == set()
    assert [path.name for path in lived.paths.root.iterdir()] == ["settings.toml"]
    assert profile("show", "Ada")[0] == 0


def test_nothing_goes_without_the_typed_word(profile, home, lived):
    for what in (("--everything",), ("--chat", lived.chat)):
        for typed in ("", "yes\n", "Forget\n"):
            code, _, err = profile("forget", "Ada", *what, typed=typed)
            assert code == 2
            assert "Nothing was removed" in err
    assert "chats.sqlite" in holding(home, SECRET)
    assert lived.new_adapter.is_dir()


def test_show_tells_where_each_part_lives_and_which_conversations_there_are(profile, lived):
    parts = [json.loads(line) for line in profile("show", "Ada", "--json")[1].splitlines()]
    assert {part["name"] for part in parts} == {"settings", "chats", "ngrams", "replay", "adapters", "metrics"}
    assert all(Path(part["path"]).exists() == (part["bytes"] > 0) for part in parts)
    chats = [json.loads(line) for line in profile("show", "Ada", "--chats", "--json")[1].splitlines()]
    assert {chat["id"] for chat in chats} == {lived.chat, lived.other}
    assert lived.chat in profile("show", "Ada", "--chats")[1]


def test_a_chat_on_the_terminal_is_listed_and_forgotten_by_its_name(profile, cli, home, lived, models):
    said = "Greetings from the walrus counters of Quxington."
    pair = ("--target", models / "tiny-target-a-f16.gguf", "--drafter", models / "tiny-drafter-f16.gguf")
    options = ("--profile", "Ada", "--threads", 1, "--ctx", 256, "--max-tokens", 24)
    options += ("--draft-length", 4, "--seed", 1)  # drafts, whatever this machine is fast at
    for text in (said, OTHER):
        assert cli("chat", *pair, *options, typed=f"{text}\n")[0] == 0
    assert cli("chat", "--prompt", said, *pair, *options)[0] == 0  # leaves n-grams only
    listed = [json.loads(line) for line in profile("show", "Ada", "--chats", "--json")[1].splitlines()]
    assert [source["kept"] for source in listed] == [True, True, False, False, False]
    other, mine, asked = listed[2:]  # newest first
    assert (asked["answers"], asked["id"].startswith("terminal-")) == (0, True)
    assert asked["ngrams"] > 0
    assert mine["id"].startswith("terminal-")
    assert (mine["answers"], mine["versions"]) == (1, 0)
    assert mine["ngrams"] > 0
    assert f"{mine['id']}  " in profile("show", "Ada", "--chats")[1]
    assert profile("forget", "Ada", "--chat", "terminal-", "--yes")[0] == 2  # which of the two?
    assert "replay.sqlite" in holding(home, mine["id"])
    code, out, _ = profile("forget", "Ada", "--chat", mine["id"][:16], typed="forget\n")
    assert (code, "1 answer from the replay" in out) == (0, True)
    assert holding(home, mine["id"]) == set()
    left = [json.loads(line)["id"] for line in profile("show", "Ada", "--chats", "--json")[1].splitlines()]
    assert set(left) == {lived.chat, lived.other, other["id"], asked["id"]}


def _token_ids(lived: Lived, chat: str) -> list[int]:
    with ChatStore(lived.paths.chats) as store:
        return [token for message in store.snapshot(chat)[1] for token in message.token_ids]
