"""Prompts to learn from and prompts to ask are kept apart, and an order drawn once stays."""

from __future__ import annotations

import json

import pytest

from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import ALL, EDIT, TASKS, choose


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def asked(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize("task", [*TASKS, EDIT, ALL])
def test_no_training_prompt_is_a_test_prompt_and_none_is_asked_twice(task):
    chosen = choose(task, 1, 8, 8)
    learned, test = ({prompt.text for prompt in part} for part in (chosen.train, chosen.test))
    assert len(learned) == len(test) == 8
    assert not learned & test


def test_where_a_task_has_too_few_lessons_are_added_and_a_prompt_comes_again_only_after_all_others():
    assert len({prompt.text for prompt in choose("math", 1, 60, 1).train}) == 60
    train = [prompt.text for prompt in choose("math", 0, 400, 1).train]
    count = len(set(train))
    assert 200 < count < 400
    assert len(set(train[:count])) == count
    assert train[:count] != train[count : 2 * count]


def test_seeds_draw_another_order_and_the_same_seed_the_same():
    assert choose("qa", 1, 20, 5).digest == choose("qa", 1, 20, 5).digest != choose("qa", 2, 20, 5).digest


def test_a_file_without_splits_gives_every_fifth_prompt_to_the_test(tmp_path):
    own = lines(tmp_path / "own.jsonl", *[asked(f"Question {i}?") for i in range(10)])
    chosen = choose(own, 0, 8, 9)
    assert chosen.task == "own"
    assert {p.text for p in chosen.test} == {"Question 4?", "Question 9?"}
    assert {p.text for p in chosen.train}.isdisjoint({"Question 4?", "Question 9?"})


def test_a_test_prompt_in_other_letters_is_not_trained_on(tmp_path):
    both = [asked("What is tea?", split="train"), asked("what is  MILK?", split="test")]
    chosen = choose(lines(tmp_path / "own.jsonl", *both, asked("What is milk?", split="train")), 0, 2, 2)
    assert {p.text for p in chosen.train} == {"What is tea?"}
    with pytest.raises(SettingsError, match="no prompts to test on"):
        choose(lines(tmp_path / "one.jsonl", both[0]), 0, 2, 2)
    with pytest.raises(SettingsError, match="no prompts to learn from"):
        choose(lines(tmp_path / "other.jsonl", both[1]), 0, 2, 2)
