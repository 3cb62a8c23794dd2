"""A used encrypted home: conversations, an update, n-grams; then all its bytes are searched."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.chats import TextFile
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import load_prompts
from omnidraft.learning.adapters.store import Candidate, keep_candidate
from omnidraft.learning.material.record import encode
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training.process import PARTS, TrainingProcess
from omnidraft.learning.update import Job, Update
from omnidraft.processes import system
from omnidraft.profiles.forget import SOURCES, ngram_tables
from omnidraft.settings.config import DraftSettings, SamplingSettings, changed
from omnidraft.storage.encryption import make_plain
from omnidraft.storage.vault import held
from omnidraft.vocab.ngram_store import NgramStore
from tests.learning.living import HASTY
from tests.storage.encryption.homes import MARKS, PASSPHRASE, asked, found, opened

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

QUESTION = "Zanzibarquux has 12 Frobnitzkes and buys 7 more. How many are there?"
TITLE, FILE = "On Wumpelstadt", "geheimnis.txt"
NAMES = [text.encode() for text in (QUESTION[:12], "Frobnitzkes", TITLE, FILE)]
GREEDY = SamplingSettings(temperature=0, max_tokens=32)


def converse(session: Session) -> list[int]:
    """A conversation as the page has one, with a file; the ids of its answer."""
    chat = session.store.create(TITLE)
    job = conversing.ask(session, chat.id, QUESTION, [TextFile(FILE, "Frobnitzkes are counted daily.")])
    job.join(120)
    assert job.over
    answer = session.store.path(chat.id)[-1]
    assert len(answer.token_ids) > 5
    return answer.token_ids


def learn_from(session: Session) -> Job:
    """Ten more answers in the replay, and an update by them that will be published, whatever it is worth."""
    assistant = session.assistant
    for number, prompt in enumerate(load_prompts("math")[:10]):
        for _ in assistant.answer(
            AnswerRequest(
                prompt.messages, GREEDY, DraftSettings(mode="fixed"), source=f"chat-{number}", capture=assistant.capture
            )
        ):
            pass
    job = assistant.learned.begin(assistant.settings.learning)
    return dataclasses.replace(job, gated=False, passes=1, least_steps=2, rehearsal=0.0, cpu_percent=50)


def train(job: Job) -> Update:
    """What comes of it in the training process; nothing of its keys can be seen from outside."""
    process = TrainingProcess()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omnidraft.learning.training.process.MODULE", HASTY)
        told = process.does(job)
        next(told)
    seen = psutil.Process(process.pid)
    visible = " ".join([*seen.cmdline(), *seen.environ().values()])
    vault = held(Path(job.store).parents[4])
    assert not [part for part in (*PARTS, "chats") if vault.key(part).hex() in visible]
    assert PASSPHRASE not in visible
    *_, update = told
    process.kill()
    return update


def fragments(ids: list[int], job: Job) -> list[bytes]:
    """Ids as they are stored: of an answer as JSON, of another as packed in the replay, of an n-gram as in its row."""
    with ReplayStore(Path(job.replay)) as replay:
        record = replay.get(min(replay.answers))
    (table,) = ngram_tables(Path(job.replay).with_name("ngrams.sqlite"))
    ngrams = NgramStore(Path(job.replay).with_name("ngrams.sqlite"), table)
    row = next(row for _, row in ngrams.rows if any("chat-" in source for source in row[SOURCES]))
    ngrams.close()
    row = json.dumps(row, separators=(",", ":")).encode()
    return [json.dumps(ids[:8])[1:-1].encode(), encode(record)[8:40], row]


@pytest.fixture(scope="module")
def used(models, tmp_path_factory):
    """(home, job, token fragments, what its files showed while everything was open)"""
    root = tmp_path_factory.mktemp("used") / "home"
    with opened(root, encrypt=True) as home:
        target, drafter = (str(models / f"tiny-{name}-f16.gguf") for name in ("target-a", "drafter"))
        session = Session(home, "default", target, drafter)
        session.assistant.settings = changed(
            session.assistant.settings, **{"model.threads": 1, "model.n_ctx": 512, "sampling.temperature": 0.0}
        )
        session.prepare()
        session.assistant.learner.hold()
        try:
            ids = converse(session)
            job = learn_from(session)
            update = train(job)
            assert update.outcome == "published", update
            assert session.assistant._serve()
            served = session.assistant.loaded.choice
            assert served.version is not None
            assert served.merged is not None
            answer = converse(session)[: len(ids)]  # with the merged file, through a copy in memory
            keep_candidate(Path(job.store), Candidate({"a.lora_a": np.ones((3, 3), np.float32)}, "", 1, 2, (TITLE,)))
            pieces = fragments(ids, job)
            shown = found(root, [*NAMES, *pieces, *MARKS])
        finally:
            session.close()
            assert answer == ids  # at temperature 0, by whatever it is drafted
        yield home, job, pieces, shown


def test_nothing_readable_is_on_the_disk_while_it_is_used_or_afterwards(used):
    home, _, pieces, shown = used
    assert shown == set()
    assert found(home.root, [*NAMES, *pieces, *MARKS]) == set()
    assert sorted(path.name for path in home.root.iterdir()) == [
        "cache", "encryption.json", "encryption.lock", "models", "profiles",
    ]  # fmt: skip


def test_the_same_bytes_are_found_in_the_same_home_made_plain(used, tmp_path):
    """Else the search would find nothing anywhere."""
    home, _, pieces, _ = used
    root = Path(shutil.copytree(home.root, tmp_path / "home"))
    make_plain(root, asked())
    sought = {*NAMES, *MARKS, *pieces}
    assert found(root, sought) == sought
