"""The bundled prompts are enough, distinct and our own; a user's file is read or refused in one clear sentence."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import ALL, EDIT, TASKS, choose, lesson_prompts, load_prompts, topic_prompts


def normal(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


@pytest.mark.parametrize("task", TASKS)
def test_a_bundled_task_has_enough_prompts_in_both_splits(task):
    prompts = load_prompts(task)
    splits = Counter(prompt.split for prompt in prompts)
    assert len(prompts) >= 44
    assert splits["train"] >= 24
    assert splits["test"] >= 20
    assert all(prompt.task == task and prompt.messages[-1]["role"] == "user" for prompt in prompts)


def test_no_bundled_prompt_and_no_id_occurs_twice():
    prompts = [prompt for task in TASKS for prompt in load_prompts(task)]
    assert len({normal(prompt.text) for prompt in prompts}) == len(prompts)
    assert len({prompt.id for prompt in prompts}) == len(prompts)


def test_no_bundled_prompt_occurs_in_the_training_text(shared):
    files = sorted(path for kind in ("pretrain", "stream") for path in (shared / "data" / kind).glob("*.jsonl"))
    if not files:
        pytest.skip("the training text is not beside this checkout")
    seen = set()
    for path in files:
        for line in path.open(encoding="utf-8"):
            seen |= {normal(m["content"]) for m in json.loads(line)["messages"] if m["role"] == "user"}
    own = {normal(prompt.text) for task in TASKS for prompt in load_prompts(task)}
    assert not own & seen


@pytest.mark.parametrize("topic", TASKS)
def test_lessons_have_many_prompts_and_none_that_are_raced(topic):
    lesson = [prompt.text for prompt in lesson_prompts(topic)]
    assert len(set(lesson)) == len(lesson) == 256
    assert not set(lesson) & {prompt.text for prompt in topic_prompts(topic)}
    assert [prompt.text for prompt in lesson_prompts(topic, 5)] == lesson[:5]


def test_a_users_conversation_is_cut_at_its_first_answer(tmp_path: Path):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Bye"},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"messages": messages}) + "\n\n", encoding="utf-8")
    (prompt,) = load_prompts(path)
    assert list(prompt.messages) == messages[:2]
    assert (prompt.id, prompt.task, prompt.split) == ("mine-1", "mine", None)


def test_a_plain_text_file_is_one_prompt_a_line(tmp_path: Path):
    path = tmp_path / "asks.txt"
    path.write_bytes("\ufeffWhat is tea?\r\n\r\n  Grüße 🙂\u2028x \n".encode())
    assert [(p.id, p.text) for p in load_prompts(path)] == [("asks-1", "What is tea?"), ("asks-3", "Grüße 🙂\u2028x")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{not json", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1, 2]", 'list "messages"'),
        ('{"messages": []}', "must end with a user message"),
        ('{"messages": [{"role": "wizard", "content": "x"}]}', 'needs a "role"'),
        ('{"messages": [{"role": "user", "content": 3}]}', 'needs a "role"'),
        ('{"messages": [{"role": "user", "content": "x"}], "split": "dev"}', '"split" must be'),
    ],
    ids=lambda text: text[:40],
)
def test_a_bad_line_is_named_in_one_sentence(tmp_path: Path, line: str, complaint: str):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "fine"}]}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        load_prompts(path)
    message = str(caught.value)
    assert "bad.jsonl, line 2" in message
    assert complaint in message
    assert "\n" not in message


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(StorageError, match=r"There is no prompt file .*maths.* bundled tasks are math, code"):
        load_prompts(str(tmp_path / "maths"))
    with pytest.raises(StorageError, match="cannot be read"):
        load_prompts(tmp_path)
    (tmp_path / "image.txt").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(StorageError, match="not a UTF-8"):
        load_prompts(tmp_path / "image.txt")
    (tmp_path / "empty.jsonl").write_text("\n\n", encoding="utf-8")
    with pytest.raises(StorageError, match="holds no prompts"):
        load_prompts(tmp_path / "empty.jsonl")


# Prompts to learn from and prompts to ask are kept apart, and an order drawn once stays.


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
