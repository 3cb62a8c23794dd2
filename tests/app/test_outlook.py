"""What the list of models says before one is loaded, and whether it fits; and where nobody chose
a drafter, the one that is expected to be quickest drafts, from a quiet moment on."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import omnidraft.app.sessions
from omnidraft.app import conversing, outlook, room
from omnidraft.app.outlook import Outlook
from omnidraft.app.room import Room
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.app.speeds import SPEED_FILE, SpeedStore, speed_key
from omnidraft.backends.base import Aborted
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.devices import GPU, Device
from omnidraft.decoding.acceptance import Average
from omnidraft.decoding.pace import Pace, Proposer
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import find_data_home
from tests.hollow import SHAPES, write_hollow
from tests.until import until

GB = 1_000_000_000
SETTINGS = ModelSettings(threads=2)


def test_what_is_larger_than_what_is_free_does_not_fit():
    assert Room(8 * GB).fits(7 * GB) == (True, "fits")
    assert Room(8 * GB).fits(9 * GB) == (False, "too large: 8.0 GB are free")
    assert Room(None).fits(9 * GB)[0]


@pytest.mark.parametrize(
    ("needed", "words"),
    [(7, "fits on the card"), (12, "fits, partly on the card"), (30, "too large: 20.1 GB are free")],
)
def test_a_card_holds_a_model_or_a_part_of_it(monkeypatch, needed, words):
    cards = [Device(0, "a", "a card", GPU, 8 * GB, 8 * GB), Device(0, "b", "another", GPU, 4 * GB, 4 * GB)]
    monkeypatch.setattr(room, "local_cards", lambda: cards)
    monkeypatch.setattr(room, "available_bytes", lambda: int(8.7 * GB))
    assert Room.now(SETTINGS).fits(needed * GB)[1] == words
    on_processor = Room.now(ModelSettings(n_gpu_layers=0))
    assert "card" not in on_processor.fits(7 * GB)[1]


FLAT, STEEP = {1: 0.1, 2: 0.102, 9: 0.11}, {1: 0.1, 2: 0.2, 9: 0.9}


def at_hand(tmp_path, cost: dict[int, float] | None, *found):
    target, *others = found
    known = Pace(cost, 0.001) if cost else None
    return outlook.at_hand([target, *others], target, SETTINGS, SpeedStore(tmp_path), known)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    return {name: read_info(write_hollow(folder / f"{name}.gguf", SHAPES[name], "Q8_0")) for name in ("1B", "3B", "8B")}


def test_what_is_not_clearly_smaller_than_the_target_does_not_draft_for_it(tmp_path, shapes, models):
    smol, toy = (read_info(models / name) for name in ("smol-drafter-q5_0.gguf", "tiny-drafter-f16.gguf"))
    folder = replace(shapes["1B"], path=tmp_path)  # one can only be a target
    found = at_hand(tmp_path, FLAT, shapes["3B"], shapes["1B"], shapes["8B"], smol, toy, folder)
    assert sorted(one.model.name for one in found) == [shapes["1B"].name, smol.name]  # neither itself nor a toy
    a = read_info(models / "tiny-target-a-f16.gguf")
    assert [one.model.name for one in at_hand(tmp_path, FLAT, a, toy, smol)] == [toy.name]


def test_drafters_at_hand_are_ranked_by_the_speed_they_are_expected_to_bring(tmp_path, shapes, models):
    smol = read_info(models / "smol-drafter-q5_0.gguf")
    first, second = at_hand(tmp_path, FLAT, shapes["8B"], smol, shapes["1B"])
    assert first.gain > second.gain > 1.4
    assert first.speed == pytest.approx(10 * first.gain)
    assert second.memory > 1 * GB or first.memory > 1 * GB
    assert outlook.best([first, second], second.model.path) is first
    assert outlook.best([first, second], first.model.path) is None
    assert not any(one.pays for one in at_hand(tmp_path, STEEP, shapes["8B"], smol, shapes["1B"]))


def test_what_was_seen_of_a_pair_goes_before_what_is_assumed(tmp_path, shapes):
    target, drafter = shapes["8B"], shapes["1B"]
    known = Pace(FLAT, 0.001)
    known.averages.first = Average(0.9, 40.0)
    known.keep()
    before = at_hand(tmp_path, FLAT, target, drafter)[0]
    store = SpeedStore(tmp_path)
    store.save(speed_key(target.path, drafter.path, SETTINGS, None), known)
    (after,) = outlook.at_hand([target, drafter], target, SETTINGS, store)  # the costs are known from then, too
    assert after.tried
    assert after.gain > 1.5 * before.gain


@pytest.fixture(scope="module")
def session(tmp_path_factory, models):
    made = Session(find_data_home(tmp_path_factory.mktemp("home")), "ada", str(models / "tiny-target-a-f16.gguf"), None)
    made.apply(**{"model.threads": 1})
    yield made
    made.close()


def used(session: Session, drafter: Path) -> None:
    """This one drafts, though nobody chose it, and a question was answered."""
    session.prepare()
    session.pick_drafter(drafter)
    conversing.ask(session, session.store.create().id, "Hello").join(60)


@pytest.mark.parametrize(("stood", "answers", "ended", "said"), [
    (0.9, 1.0, False, ""),
    (0.05, 40.0, False, "answers: 1.0 times the speed without guessing; taught, about 1.3."),
    (0.8, 40.0, False, "answers: 1.6 times the speed without guessing."),
    (0.8, 40.0, True, "answers: 1.0 times the speed without guessing; taught, about 1.6."),
])  # fmt: skip
def test_what_guessing_brings_here_is_promised_once_answers_showed_it(session, models, stood, answers, ended, said):
    target = models / "tiny-target-a-f16.gguf"
    drafter = session.drafter_path(target)
    known = Pace({1: 0.1, 2: 0.105, 4: 0.12, 9: 0.3}, 0.02)
    known.draft = Proposer(left=ended)
    known.averages.first = Average(stood, answers)
    known.keep()
    cache = session.assistant.home.cache
    (cache / SPEED_FILE).unlink(missing_ok=True)  # what this machine took
    SpeedStore(cache).save(speed_key(target, drafter, session.model_settings, None), known)
    assert outlook.promise(session, target).endswith(said)
    assert bool(said) == bool(outlook.promise(session, target))


@pytest.fixture
def other(tmp_path, models, monkeypatch):
    """Another drafter at hand, of which more is expected."""
    path = tmp_path / "other.gguf"
    shutil.copy(models / "tiny-drafter-f16.gguf", path)
    infos = (read_info(path), read_info(models / "tiny-drafter-f16.gguf"))
    ranked = [Outlook(info, gain, None, None, False) for info, gain in zip(infos, (1.8, 1.2), strict=True)]
    monkeypatch.setattr(outlook, "drafters_of", lambda *_: ranked)
    monkeypatch.setattr(outlook, "_sound", lambda _: Pace({1: 0.01}, 0.001))
    monkeypatch.setattr(outlook, "QUIET", 0.0)
    return path


def drafts(session: Session) -> str:
    return session.assistant.loaded.drafter.info.path.name


def test_the_quickest_drafter_is_taken_and_the_next_answer_says_so(session, other, models):
    used(session, models / "tiny-drafter-f16.gguf")
    assert outlook.draft_with_the_quickest(session)
    assert drafts(session) == "other.gguf"
    assert session.settings.drafter is None
    chat = session.shown.chat().id
    conversing.ask(session, chat, "Hello").join(60)
    assert "other drafts from now on: 1.8×" in session.store.path(chat)[-1].meta["note"]
    session.unload()
    session.prepare()
    assert drafts(session) == "other.gguf"


def test_drafters_are_compared_once_behind_each_use(session, other, models):
    used(session, models / "tiny-drafter-f16.gguf")
    assert outlook.draft_with_the_quickest(session)
    session.pick_drafter(models / "tiny-drafter-f16.gguf")
    assert not outlook.draft_with_the_quickest(session)
    used(session, models / "tiny-drafter-f16.gguf")
    assert outlook.draft_with_the_quickest(session)


@pytest.mark.parametrize(("name", "value"), [("QUIET", 60.0), ("_sound", lambda _: None)])
def test_nothing_changes_while_somebody_waits_or_by_passes_that_were_disturbed(
    session, other, models, monkeypatch, name, value
):
    used(session, models / "tiny-drafter-f16.gguf")
    monkeypatch.setattr(outlook, name, value)
    assert not outlook.draft_with_the_quickest(session)


def test_a_drafter_that_is_loaded_for_comparison_gives_way_to_a_question(session, other, models, slow_load):
    used(session, models / "tiny-drafter-f16.gguf")
    loading = slow_load("open_choice")
    told: list[str] = []

    def compare() -> None:
        try:
            outlook.draft_with_the_quickest(session)
        except OmniDraftError as error:
            told.append(str(error))

    comparing = threading.Thread(target=compare)
    comparing.start()
    assert loading.wait(10)
    began = time.monotonic()
    with session.turn():
        assert time.monotonic() - began < 1.0
    comparing.join(10)
    assert ["called off" in words for words in told] == [True]
    assert drafts(session) == "tiny-drafter-f16.gguf"


def test_a_drafter_that_was_chosen_stays(session, other, models):
    """The last one: it stays chosen."""
    used(session, models / "tiny-drafter-f16.gguf")
    session.choose_drafter(models / "tiny-drafter-f16.gguf")
    assert not outlook.draft_with_the_quickest(session)
    assert drafts(session) == "tiny-drafter-f16.gguf"


def test_the_app_looks_for_itself(tmp_path, models, other):
    sessions = Sessions(find_data_home(tmp_path / "more"), "ada", str(models / "tiny-target-a-f16.gguf"))
    try:
        sessions.get().prepare()
        until(lambda: drafts(sessions.get()) == "other.gguf")
    finally:
        sessions.close()


def test_what_stops_a_comparison_does_not_end_the_looking(tmp_path, monkeypatch):
    looked = threading.Event()
    calls = []

    def stopped(session):
        calls.append(session)
        if len(calls) > 1:
            looked.set()
        raise Aborted

    monkeypatch.setattr(omnidraft.app.sessions, "IDLE_CHECK", 0.01)
    monkeypatch.setattr(omnidraft.app.sessions, "draft_with_the_quickest", stopped)
    sessions = Sessions(find_data_home(tmp_path), "ada")
    try:
        sessions.get()
        assert looked.wait(20)
    finally:
        sessions.close()
