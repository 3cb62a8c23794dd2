"""`bench speed`: what is counted without the target is what happens with it, and ratios add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.bench import speed
from omnidraft.bench.cells import Costs, make_cell, summary
from omnidraft.bench.counted import count_fixed
from omnidraft.bench.recorded import RecordedTarget
from omnidraft.bench.speed import Plan, draft_settings, run, typical
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import load_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome


@pytest.fixture(scope="module")
def assistant(tmp_path_factory):
    loaded = Assistant(DataHome(tmp_path_factory.mktemp("home")), ephemeral=True)
    models = BUNDLED_MODELS
    loaded.load(
        models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ModelSettings(threads=1), CacheSettings()
    )
    yield loaded
    loaded.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_counted_rounds_are_those_of_a_real_run(assistant, temperature):
    engine = assistant.engine
    answers = []
    for number, prompt in enumerate(load_prompts("dialogue", split="test", limit=2)):
        sampling = SamplingSettings(temperature=temperature, seed=number, max_tokens=48)
        engine.forget()
        plain = record(assistant.answer(AnswerRequest(prompt.messages, sampling, DraftSettings(enabled=False))))
        answers.append((prompt.messages, sampling, plain.ids))
    seats = (engine.drafter, engine.translator)
    counted = count_fixed(assistant, *seats, answers, [1, 3])
    for length, traces in counted.items():
        for (messages, sampling, ids), trace in zip(answers, traces, strict=True):
            engine.forget()
            real = record(
                assistant.answer(AnswerRequest(messages, sampling, DraftSettings(mode="fixed", length=length)))
            )
            assert trace.ids == real.ids == ids
            assert [_counts(r) for r in trace.rounds] == [_counts(r) for r in real.rounds]
    assert sum(t.accepted for t in counted[3]) > 0


def _counts(done: Round) -> tuple[int, ...]:
    return done.drafted, done.proposed, done.tested, done.accepted, done.emitted


def test_a_recorded_target_refuses_to_leave_its_text(assistant):
    vocabulary = assistant.engine.target.model.vocabulary
    target = RecordedTarget(vocabulary, "recorded", 64)
    target.text = [10, 11, 12, 13]
    assert target.extend([10, 99], 2).argmax(axis=1)[0] == 11
    target.rewind(1)
    with pytest.raises(ModelError):
        target.extend([99, 12], 1)


def _trace(rounds: int, proposed: int, emitted: int, verify: float, reading: float = 0.0) -> Trace:
    """reading: seconds by which the first draft takes longer than the others."""
    done = Round(
        drafted=proposed, proposed=proposed, tested=proposed, accepted=emitted - 1, emitted=emitted,
        draft=0.001 * proposed, translate=0.0, verify=verify, other=0.001,
    )  # fmt: skip
    return Trace(ids=[], rounds=[replace(done, draft=done.draft + reading), *[done] * (rounds - 1)], prefill=0.0)


def test_a_cell_adds_up_and_names_the_best_fixed_length():
    plain = [_trace(rounds=20, proposed=0, emitted=1, verify=0.009)] * 2
    drafted = [_trace(rounds=10, proposed=2, emitted=2, verify=0.012)] * 2
    costs = Costs.of([*plain, *drafted], CostModel({1: 0.009, 2: 0.010, 3: 0.012}, step=0.001))
    fixed = {
        1: [_trace(rounds=16, proposed=1, emitted=1, verify=0.0)],
        2: [_trace(rounds=10, proposed=2, emitted=2, verify=0.0)],
    }
    cell = make_cell(("t", "bundled", "given", "qa", 0.0, "adaptive"), plain, drafted, costs, fixed)
    assert cell.speedup == pytest.approx(0.010 / (0.015 / 2))
    assert cell.modelled_speedup == pytest.approx(cell.speedup)
    assert cell.ideal_speedup == pytest.approx(2 * 0.009 / (0.012 + 2 * 0.001))
    assert (cell.best_fixed, cell.against_best_fixed) == (2, pytest.approx(1.0))
    assert cell.acceptance_rate == pytest.approx(0.5)
    assert cell.speedup_ci == pytest.approx((cell.speedup, cell.speedup))
    assert "1 cells, geometric mean x1.333" in summary([cell])[0]


def test_what_the_drafter_reads_before_an_answer_is_modelled_once_an_answer():
    plain = [_trace(rounds=20, proposed=0, emitted=1, verify=0.009)] * 2
    drafted = [_trace(rounds=10, proposed=2, emitted=2, verify=0.012, reading=0.040)] * 2
    costs = Costs.of([*plain, *drafted], CostModel({1: 0.009, 3: 0.012}, step=0.001))
    cell = make_cell(("t", "bundled", "given", "qa", 0.0, "adaptive"), plain, drafted, costs)
    assert costs.modelled(drafted) == pytest.approx((10 * 0.015 + 0.040) / 20)
    assert costs.modelled(plain) == pytest.approx(0.010)
    assert cell.modelled_speedup == pytest.approx(cell.speedup)


def test_what_a_wide_pass_costs_besides_itself_is_modelled_with_every_wide_pass():
    plain = [_trace(rounds=20, proposed=0, emitted=1, verify=0.009)]
    drafted = [_trace(rounds=10, proposed=2, emitted=2, verify=0.012)]
    costs = Costs.of([*plain, *drafted], CostModel({1: 0.009, 3: 0.012}, step=0.001, fixed=0.003))
    assert costs.modelled(drafted) == pytest.approx((0.015 + 0.003) / 2)
    assert costs.modelled(plain) == pytest.approx(0.010)


def test_a_draft_step_is_what_it_takes_behind_a_round_that_drafted():
    """Behind a plain round the drafter also reads what was said meanwhile, here for 20 ms."""
    behind_plain = [
        *_trace(rounds=1, proposed=0, emitted=1, verify=0.009).rounds,
        *_trace(rounds=2, proposed=2, emitted=2, verify=0.012, reading=0.020).rounds,
    ]
    costs = Costs.of([Trace(rounds=behind_plain * 10)], CostModel({1: 0.009, 3: 0.012}, step=0.005))
    assert costs.step == pytest.approx(0.001)


def test_widths_the_run_hardly_saw_are_taken_from_the_start_at_the_runs_level():
    plain = [_trace(rounds=20, proposed=0, emitted=1, verify=0.018)]
    costs = Costs.of(plain, CostModel({1: 0.009, 5: 0.012}, step=0.001))
    assert costs.pass_seconds(5) == pytest.approx(0.024)


@pytest.mark.parametrize("method", ["fixed", "fixed:x", "fixed:0", "gamma:", "fastest"])
def test_an_unknown_method_is_refused(method):
    with pytest.raises(SettingsError):
        draft_settings(method)


def test_of_repeats_the_one_with_the_median_speedup_counts():
    """Two prompts, three repeats; an interruption hits plain decoding once and the other method once."""
    plain = [
        [_trace(10, 0, 1, verify) for verify in times] for times in ((0.009, 0.009), (0.090, 0.009), (0.009, 0.009))
    ]
    own = [[_trace(10, 0, 1, verify) for verify in times] for times in ((0.004, 0.090), (0.004, 0.004), (0.009, 0.004))]
    first, second = zip(*typical(plain, own), strict=True)
    assert first == (plain[0][0], own[0][0])
    assert second[1].decode == own[1][1].decode


def test_every_repeat_is_run_and_says_the_same(tmp_path, monkeypatch):
    answered = []
    monkeypatch.setattr(speed, "record", lambda events: answered.append(record(events)) or answered[-1])
    one = ModelSettings(threads=1)
    plan = Plan(["dialogue"], ["plain", "fixed:2"], [0.0], ["bundled"], prompts=1, max_tokens=16, model=one, repeats=3)
    models = BUNDLED_MODELS
    list(run(DataHome(tmp_path), plan, [models / "tiny-target-a-f16.gguf"], models / "tiny-drafter-f16.gguf"))
    warm, test = 2, 2  # answers a repeat: plain and fixed
    assert len(answered) == 3 * (warm + test)
    assert len({tuple(trace.ids) for i, trace in enumerate(answered) if i % 4 >= warm}) == 1


def test_no_answer_is_copied_from_the_one_at_another_temperature(tmp_path):
    one = ModelSettings(threads=1)
    plan = Plan(["math"], ["plain", "lookup"], [0.0, 0.001], ["bundled"], prompts=2, max_tokens=32, model=one)
    models = BUNDLED_MODELS
    cells = list(run(DataHome(tmp_path), plan, [models / "tiny-target-a-f16.gguf"], models / "tiny-drafter-f16.gguf"))
    first, second = (c for c in cells if c.method == "lookup")
    assert second.tokens_per_pass == first.tokens_per_pass < 2  # the same answers, all of them there to be copied
