"""The bundled prompts are enough, distinct and our own; a user's file is read or refused in one clear sentence."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from omnidraft.errors import StorageError
from omnidraft.lab.prompts import TASKS, lesson_prompts, load_prompts, topic_prompts


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
