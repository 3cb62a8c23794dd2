"""Real models answer with the same text with and without drafter, whatever drafts, at every temperature: to the token.

The table, printed (100 prompts, up to 256 tokens, each with its own temperature, draft and number of threads):
`OMNIDRAFT_MODELS=DIR python -m pytest -s -m slow tests/test_same_text.py`
"""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from omnidraft.app import conversing
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.race_view import RacePlan
from omnidraft.app.session import Session
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.lab.prompts import TASKS, Prompt, load_prompts
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.answering import PLAIN, answered, loaded
from tests.forms import requantized
from tests.real import GEMMA, LARGE, QWEN, SMOL, real_model
from tests.server.test_api import client
from tests.serving import SETTINGS, serving

LANGUAGES = (
    "Write a short poem about autumn leaves.", "Was ist der Unterschied zwischen Wetter und Klima?",
    "Explique en tres frases qué es la fotosíntesis.", "请用三句话介绍一下长城。", "Расскажи, как заварить чай.",
    "اشرح لي ما هي الجاذبية.", "Donne-moi une recette de crêpes.", "日本の首都はどこですか。そこで何が見られますか。",
)  # fmt: skip
SAMPLINGS = (
    SamplingSettings(temperature=0.0), SamplingSettings(temperature=0.8), SamplingSettings.unfiltered(temperature=1.5),
)  # fmt: skip
DRAFTS = (DraftSettings(), *(DraftSettings(mode="fixed", length=length) for length in range(1, 9)))


@dataclass(frozen=True)
class Case:
    """One question, and how it is answered with the drafter."""

    asked: str
    sampling: SamplingSettings
    draft: DraftSettings
    threads: int
    smol: bool  # whether SmolLM2 drafts, not the bundled drafter


def cases(count: int, tokens: int) -> list[Case]:
    """Prompts of every task and language in turns; temperatures, drafts, threads and drafters so that all meet."""
    tasks = zip(*(load_prompts(task) for task in TASKS), strict=False)
    prompts = itertools.chain.from_iterable((*(p.text for p in four), LANGUAGES[n % 8]) for n, four in enumerate(tasks))
    return [
        Case(
            asked, replace(SAMPLINGS[n % 3], seed=n, max_tokens=tokens), DRAFTS[n // 3 % len(DRAFTS)], 1 + n // 2 % 2,
            n % 2 == 0,
        )
        for n, asked in enumerate(itertools.islice(prompts, count))
    ]  # fmt: skip


def differing(target: Path, drafters: dict[bool, Path], asked: list[Case], home: Path) -> tuple[list[Case], int, int]:
    """(cases whose texts differ, tokens, accepted proposals): drafted answers against those of a target alone."""
    plain: dict[Case, list[int]] = {}
    for threads in {case.threads for case in asked}:
        with loaded(home, target, None, ModelSettings(n_ctx=2048, threads=threads)) as alone:
            for case in asked:
                if case.threads == threads:
                    plain[case] = answered(alone, case.asked, case.sampling, PLAIN)[0]
    wrong, accepted = [], 0
    for threads, smol in {(case.threads, case.smol) for case in asked}:
        with loaded(home, target, drafters[smol], ModelSettings(n_ctx=2048, threads=threads)) as pair:
            for case in asked:
                if (case.threads, case.smol) == (threads, smol):
                    ids, end = answered(pair, case.asked, case.sampling, case.draft)
                    accepted += end.statistics.accepted
                    if ids != plain[case]:
                        wrong.append(case)
    return wrong, sum(map(len, plain.values())), accepted


CASES = int(os.environ.get("OMNIDRAFT_CASES", "100"))


@pytest.fixture
def drafters(models: Path) -> dict[bool, Path]:
    return {False: models / "smol-drafter-q5_0.gguf", True: real_model(SMOL)}


def test_a_few_answers_of_a_real_model(drafters: dict[bool, Path], tmp_path: Path):
    wrong, tokens, accepted = differing(real_model(SMOL), drafters, cases(22, 32)[1::4], tmp_path)
    assert accepted > 20, "hardly anything was drafted and accepted, so nothing was tested"
    assert tokens > 100
    assert not wrong


@pytest.mark.slow
def test_a_prompt_has_the_same_bits_however_it_was_read():
    """In one go, in pieces, token by token as an answer is written, behind what another conversation left."""
    with LlamaTarget.open(real_model(SMOL), ModelSettings(n_ctx=2048)) as target:
        ids = target.vocabulary.encode(" ".join(p.text for p in load_prompts("math")), at_start=True)[:900]
        read = []
        for steps in ([900], [512, 388], [300, 1, 2, 597], [850, *[1] * 50]):
            target.rewind(0)
            target.extend(ids[::-1][:50], 0)
            target.rewind(0)
            done = 0
            for count in steps:
                rows = target.extend(ids[done : done + count], 1)
                done += count
            read.append(rows[-1].tobytes())
    assert len(ids) == 900
    assert len(set(read)) == 1


FORMS = (
    (SMOL, None), (QWEN, None), (GEMMA, None), (SMOL, "Q8_0"), (SMOL, "Q5_K_M"), (SMOL, "Q6_K"), (SMOL, "Q4_K_M"),
    (SMOL, "Q4_0"), (SMOL, "F16"), (SMOL, "F32"), (QWEN, "Q8_0"), (QWEN, "F16"),
    (LARGE, None), *((LARGE, form) for form in ("Q5_K_M", "Q6_K", "Q3_K_M", "IQ4_XS", "Q4_0", "Q8_0")),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_hundred_answers_of_every_form(drafters, tmp_path, tmp_path_factory, name, form):
    target = real_model(name)
    if form is not None:
        target = requantized(target, form, tmp_path_factory.getbasetemp() / "forms")
    asked = cases(CASES, int(os.environ.get("OMNIDRAFT_TOKENS", "256")))
    wrong, tokens, accepted = differing(target, drafters, asked, tmp_path)
    print(f"| {target.stem} | {len(asked)} answers, {tokens} tokens | {accepted} accepted | {len(wrong)} differ |")
    assert not wrong


def written(session: Session, asked: Case, drafted: bool) -> tuple[list[str], int]:
    """What a conversation says as the pages have it written: an answer, a follow-up that is gone on with where its
    length ended it, an answer to another version of the question, and a second one to that; accepted proposals."""
    chat = session.store.create().id
    session.store.update(chat, speculation=drafted, sampling=asked.sampling)
    found, accepted = [], 0

    def said(job: AnswerJob) -> None:
        nonlocal accepted
        job.join()
        assert not job.error
        accepted += job.live.statistics.accepted
        found.append(session.store.path(chat)[-1].content)

    said(conversing.ask(session, chat, asked.asked))
    said(conversing.ask(session, chat, "Say that in other words."))
    said(conversing.resume(session, chat))
    first = session.store.path(chat)[0]
    said(conversing.edit(session, chat, first.id, f"{first.content} Be brief."))
    if asked.sampling.temperature == 0:  # else it is meant to be another one
        said(conversing.regenerate(session, chat))
    return found, accepted


def told_apart(session: Session, asked: list[Case]) -> tuple[int, int, int]:
    """(answers, accepted proposals, answers whose text is another with the drafter)."""
    answers = accepted = wrong = 0
    for case in asked:
        (plain, none), (drafted, some) = (written(session, case, on) for on in (False, True))
        assert none == 0
        answers, accepted = answers + len(plain), accepted + some
        wrong += sum(a != b for a, b in zip(plain, drafted, strict=True))
    return answers, accepted, wrong


@pytest.fixture
def session(tmp_path: Path, models: Path) -> Iterator[Session]:
    made = Session(
        find_data_home(tmp_path / "home"), "ada", str(real_model(SMOL)), str(models / "smol-drafter-q5_0.gguf")
    )
    made.apply(**{"model.n_ctx": 2048, "model.threads": 1, "draft.mode": "fixed", "draft.length": 6})
    made.prepare()
    yield made
    made.close()


def test_a_conversation_says_the_same_through_edits_and_continuations(session: Session):
    answers, accepted, wrong = told_apart(session, cases(2, 12))
    assert answers > 7
    assert accepted > 5, "hardly anything was drafted and accepted, so nothing was tested"
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_answers_of_conversations(session: Session):
    answers, accepted, wrong = told_apart(session, cases(-(-CASES // 4), 64))
    print(
        f"| pages: asked, continued, edited, regenerated | {answers} answers | {accepted} accepted | {wrong} differ |"
    )
    assert answers >= CASES
    assert accepted > CASES
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_answers_of_a_race(session: Session, models: Path):
    prompts = [
        Prompt(str(n), "own", None, ({"role": "user", "content": case.asked},))
        for n, case in enumerate(cases(CASES, 64))
    ]
    plan = RacePlan(
        real_model(SMOL), models / "smol-drafter-q5_0.gguf", session.settings, prompts, copies=True, most_tokens=64
    )
    session.races.begin(plan)
    session.races.latest.join()
    score = session.races.latest.view.before
    print(f"| race | {score.answers} answers, {score.tokens} tokens | {score.answers - score.same} differ |")
    assert score.tokens_per_pass > 1.2, "hardly anything was drafted and accepted"
    assert score.answers == score.same == CASES


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_answers_of_the_api(tmp_path: Path):
    drafts = '\n[draft]\nmode = "fixed"\nlength = 6\n'
    wrong, tokens, accepted = 0, 0, 0
    with serving(tmp_path, "--target", str(real_model(SMOL)), settings=SETTINGS + drafts) as running:
        for number, case in enumerate(cases(CASES, 64)):
            sampling = {"temperature": case.sampling.temperature, "seed": number, "max_tokens": 64}
            said = []
            for drafted in (True, False):
                done = client(running).chat.completions.create(
                    model="", messages=[{"role": "user", "content": case.asked}], **sampling,
                    extra_body={"speculation": drafted},
                )  # fmt: skip
                said.append(done.choices[0].message.content)
                tokens += done.usage.completion_tokens
                accepted += done.omnidraft["accepted"]
            wrong += said[0] != said[1]
    print(f"| API | {CASES} answers, {tokens // 2} tokens | {accepted} accepted | {wrong} differ |")
    assert accepted > CASES
    assert wrong == 0
