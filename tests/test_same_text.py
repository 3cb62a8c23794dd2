"""On the bundled models: the same text with and without drafter, at T = 0 and, with the same seed, at T = 1.

A difference is allowed only where the plain answer has a near-tie: its runner-up so close that the rounding of passes
of different width decides. Such differences are counted and printed.
"""

from __future__ import annotations

import pytest

from omnidraft.bench.columns import DEFAULT, sampling_of
from omnidraft.lab.prompts import TASKS, load_prompts
from omnidraft.settings.config import DraftSettings
from tests.answering import PLAIN, answered, loaded

TARGETS = ("tiny-target-a", "tiny-target-b", "tiny-target-a2")


@pytest.fixture(params=TARGETS)
def assistant(request, models, tmp_path):
    with loaded(tmp_path, models / f"{request.param}-f16.gguf", models / "tiny-drafter-f16.gguf") as made:
        made.measure_near_ties()
        yield made


def prompts(per_task: int):
    return [p for task in TASKS for p in load_prompts(task, limit=per_task)]


def compare(assistant, per_task, temperature, variants):
    """Every variant's text against plain; returns (answers, near-tie differences, accepted proposals)."""
    near = accepted = answers = 0
    for number, prompt in enumerate(prompts(per_task)):
        sampling = sampling_of(temperature, seed=number, max_tokens=64)
        plain, end = answered(assistant, prompt.messages, sampling, PLAIN)
        for variant in variants:
            drafted, drafted_end = answered(assistant, prompt.messages, sampling, variant)
            answers += 1
            accepted += drafted_end.statistics.accepted
            if drafted != plain:
                first = next((i for i, (a, b) in enumerate(zip(plain, drafted, strict=False)) if a != b), None)
                assert first is not None, f"{prompt.id}: one text is a mere beginning of the other"
                close = {*end.statistics.near_tie_positions, *drafted_end.statistics.near_tie_positions}
                assert first in close, f"{prompt.id} differs at token {first}, which is no near-tie"
                near += 1
    print(f"{assistant.target.name} T={temperature}: {answers} answers, {near} differ, all at near-ties")
    return answers, near, accepted


FIXED = DraftSettings(mode="fixed", length=4)


@pytest.mark.parametrize("temperature", [0.0, 1.0, DEFAULT])
def test_a_few_prompts_of_every_task(assistant, temperature):
    answers, near, accepted = compare(assistant, 3, temperature, [FIXED])
    assert accepted > 0, "nothing was drafted and accepted, so nothing was tested"
    assert near <= answers // 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("temperature", [0.0, 1.0, DEFAULT])
def test_a_hundred_prompts_whatever_the_draft_length(assistant, temperature):
    variants = [FIXED, DraftSettings(mode="fixed", length=1), DraftSettings(mode="fixed", length=9)]
    answers, near, accepted = compare(assistant, 25, temperature, variants)
    assert answers == 300
    assert accepted > 0
    assert near <= answers // 20
