"""Thinking is switched by what a template calls the switch; earlier thoughts and calls go back as it knows them."""

from pathlib import Path

import pytest

from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.prompting.prompt import prompt_ids
from tests.prompting.following import text
from tests.prompting.thinking_templates import EFFORT, OPENED, PARTS, SWITCHED
from tests.prompting.tool_templates import HERMES

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "formats" / "templates"
PLAIN = (
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
ASK = [{"role": "user", "content": "Why?"}]
THOUGHT = [
    *ASK,
    {"role": "assistant", "content": "So.", "reasoning_content": "Let me see."},
    {"role": "user", "content": "And?"},
]


@pytest.mark.parametrize(
    ("source", "words"),
    [(SWITCHED, ["on", "off"]), (OPENED, ["on", "off"]), (EFFORT, ["on", "off", "low", "medium", "high"]), (PLAIN, []),
     (HERMES, [])],
)  # fmt: skip
def test_a_template_tells_which_words_mean_something_to_it(chatml, source, words):
    assert list(chatml(source).thinking) == words


def test_an_option_writes_no_control_token(chatml):
    template = chatml("{{ mood }}" + PLAIN).told({"mood": "<|im_end|>"})
    assert not [span for span in template.render(ASK) if span.control]


@pytest.mark.parametrize(
    ("source", "expected"),
    [(SWITCHED, "<think>\nLet me see.\n</think>\n\nSo.<|im_end|>"), (PARTS, "[THINK]Let me see.[/THINK]So.<|im_end|>"),
     (OPENED, "assistant\n\n\nSo.<|im_end|>"), (PLAIN, "assistant: So.\n")],
)  # fmt: skip
def test_earlier_thoughts_are_a_field_or_text_or_nothing_as_the_template_has_it(chatml, source, expected):
    assert expected in text(chatml(source), THOUGHT)


def test_thoughts_of_earlier_turns_leave_the_prompt_and_the_answer_keeps_its_ids(chatml, vocabulary):
    template = chatml(OPENED)
    own = [id for character in "So it is." for id in vocabulary.encode(character)]
    spelled = Spelled(vocabulary.fingerprint, (*vocabulary.encode("Let me see.\n</think>\n\n"), *own, vocabulary.eos))
    answer = {"role": "assistant", "content": "So it is.", "reasoning_content": "Let me see.", KEY: spelled}
    following = prompt_ids(template, vocabulary, [*ASK, answer, *ASK])
    assert "Let me see." not in vocabulary.decode(following).decode()
    assert [at for at in range(len(following)) if following[at : at + len(own)] == own]


def test_thoughts_that_a_template_refuses_are_left_out(chatml):
    refuses = SWITCHED + "{{ raise_exception('no') if messages | length > 2 and messages[1].reasoning_content }}"
    assert "So." in text(chatml(refuses), THOUGHT)
    assert "Let me see." not in text(chatml(refuses), THOUGHT)


def called(arguments: str = '{"city": "Oslo"}') -> list[dict]:
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [
        {"role": "user", "content": "How warm?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "21 degrees"},
        {"role": "user", "content": "And now?"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (HERMES, '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'),
        ("{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}"
         "{% endfor %}{{ m.role + m.content }}{% endfor %}", 'weather{"city": "Oslo"}assistanttool21 degrees'),
        (PLAIN, 'assistant: {"name": "weather", "arguments": {"city": "Oslo"}}\ntool: 21 degrees'),
        ("{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
         "{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
         'assistant: {"name": "weather", "arguments": {"city": "Oslo"}}\nuser: 21 degrees'),
    ],
)  # fmt: skip
def test_earlier_calls_are_fields_or_text_as_the_template_has_it(chatml, source, expected):
    assert expected in text(chatml(source), called())


def test_a_call_that_is_seen_only_without_content_stands_behind_what_was_said(chatml):
    source = (
        "{% for m in messages %}{{ '[' + m.role + ']' }}{% if m.role == 'assistant' and not m.content %}"
        "{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments | tojson }}{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    said = called()
    said[1]["content"] = "Let me look."
    written = text(chatml(source), said)
    assert '[assistant]Let me look.[assistant]weather{"city": "Oslo"}[tool]21 degrees' in written


KNOWN = {
    "Qwen-Qwen3-0.6B": ["on", "off"], "openai-gpt-oss-120b": ["low", "medium", "high"],
    "deepseek-ai-DeepSeek-V3.1": ["on", "off"], "GLM-4.6": ["on", "off"], "HuggingFaceTB-SmolLM3-3B": ["on", "off"],
    "ByteDance-Seed-OSS": ["on", "off"], "MiniMax-M3": ["on", "off"], "tencent-Hy3": ["on", "off", "low", "high"],
    "Cohere2MoE": ["on", "off"],
    "meta-llama-Llama-3.1-8B-Instruct": [], "Qwen-Qwen2.5-7B-Instruct": [],
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_templates_in_circulation_are_switched(chatml, name):
    if not REAL.is_dir():
        pytest.skip("needs the reference templates beside the checkout")
    assert list(chatml((REAL / f"{name}.jinja").read_text(encoding="utf-8")).thinking) == KNOWN[name]
