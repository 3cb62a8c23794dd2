"""Answers as models of published templates write them, also where the template says in words how, or not at all."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.prompting.every_template import NAMES, form
from tests.prompting.reading import read

TEXT = {"type": "string"}
TOOLS = {
    name: {"type": "object", "properties": dict(properties)}
    for name, properties in {
        "search_web": {"query": TEXT, "limit": {"type": "integer"}, "exact": {"type": "boolean"},
                       "note": {"type": ["string", "null"]}, "ids": {"type": "array"}, "filter": {"type": "object"}},
        "get-weather.v2": {"city": TEXT}, "now": {}, "run_code": {"code": TEXT, "language": TEXT},
        "python": {"code": TEXT}, "brave_search": {"query": TEXT},
    }.items()
}  # fmt: skip
OSLO, ROME, NOW = ("search_web", {"query": "Oslo"}), ("get-weather.v2", {"city": "Rome"}), ("now", {})
PLAIN = '{"name": "search_web", "arguments": {"query": "Oslo"}}'
PARAMETERS = '{"name": "search_web", "parameters": {"query": "Oslo"}}'
Case = tuple[str, str, str, str, list[Any]]  # text, how the prompt ended, thoughts, content, calls


def case(text: str, *calls: Any, said: str = "", thought: str = "", begun: str = "") -> Case:
    return text, begun, thought, said, list(calls)


def in_tags() -> Iterator[Case]:
    """`<tool_call>` around JSON."""
    call = f"<tool_call>\n{PLAIN}\n</tool_call>"
    yield case(call, OSLO)
    yield case(f"{call}\n{call}", OSLO, OSLO)
    yield case(f"Hi.\n{call}", OSLO, said="Hi.\n")
    yield case(f"<tool_call>{PLAIN}", OSLO)
    yield case(f"<tool_call>\n[{PLAIN}, {PLAIN}]\n</tool_call>", OSLO, OSLO)
    yield case(f"<tool_call>\n{PLAIN}\n{PLAIN}\n</tool_call>", OSLO, OSLO)
    yield case(f"<think>\nhm\n</think>\n\n{call}", OSLO, thought="hm")
    yield case(f"<think>hm</think>Hi\n{call}", OSLO, thought="hm", said="Hi\n")
    yield case("<think>hm, hm", thought="hm, hm")
    yield case("<think>\nI call <tool_call> now?\n</think>\nNo.", thought="I call <tool_call> now?", said="No.")
    yield case(f"```json\n{PLAIN}\n```", OSLO)
    doubled = PLAIN.replace("{", "{{").replace("}", "}}")
    for written in (f"{{{PLAIN}}}", doubled, f"{{{PLAIN} }}", f"{{ {PLAIN[1:-1]} }}"):
        yield case(f"<tool_call>\n{written}\n</tool_call>", OSLO)
        yield case(f"<tool_call>{written}</tool_call>\n<tool_call>{PLAIN}</tool_call>", OSLO, OSLO)
    yield case(f"<tool_call>\n{PARAMETERS}\n</tool_call>", OSLO)
    yield case('<tool_call>\n{"name": "now"}\n</tool_call>', NOW)
    yield case('<tool_call>\n{"name": "now", "arguments": null}\n</tool_call>', NOW)
    yield case('<tool_call>{"arguments": {"query": "Oslo"}, "name": "search_web"}</tool_call>', OSLO)
    tagged = "<function=search_web>\n<parameter=query>\nOslo\n</parameter>\n</function>"
    yield case(f"<tool_call>\n{tagged}\n</tool_call>", OSLO)


def bare_json() -> Iterator[Case]:
    """A JSON object and nothing else, tools of the model's own behind `<|python_tag|>`."""
    yield case(PARAMETERS, OSLO)
    yield case(f"<|python_tag|>{PARAMETERS}", OSLO)
    yield case(f"{PARAMETERS}; {PARAMETERS}", OSLO, OSLO)
    yield case(f"[{PARAMETERS}, {PARAMETERS}]", OSLO, OSLO)
    yield case('{"type": "function", "name": "search_web", "parameters": {"query": "Oslo"}}', OSLO)
    yield case('{"type": "function", "function": {"name": "search_web", "parameters": {"query": "Oslo"}}}', OSLO)
    yield case('<|python_tag|>brave_search.call(query="Oslo")', ("brave_search", {"query": "Oslo"}))
    yield case('<|python_tag|>print("a")\nx = 1', ("python", {"code": 'print("a")\nx = 1'}))
    yield case('<function=search_web>{"query": "Oslo"}</function>', OSLO)
    yield case('[search_web(query="Oslo"), now()]', OSLO, NOW)
    for text in ('{"name": "other", "parameters": {}}', 'search_web(query="Oslo")', f"Sure: {PARAMETERS}"):
        yield case(text, said=text)


def pythonic() -> Iterator[Case]:
    begin, end = "<|tool_call_start|>", "<|tool_call_end|>"
    yield case(f'{begin}[search_web(query="Oslo")]{end}', OSLO)
    yield case(f"{begin}[search_web(query='Oslo'), now()]{end}Checking.", OSLO, NOW, said="Checking.")
    yield case(f"{begin}[{PLAIN}]{end}", OSLO)
    yield case(f"<think>hm</think>\n{begin}[now()]{end}", NOW, thought="hm")
    code = {"code": "a = 'x'\nb = 2", "language": "py"}
    yield case(f'{begin}[run_code(code="a = \'x\'\\nb = 2", language="py")]{end}', ("run_code", code))
    values = {"limit": 3, "exact": True, "note": None, "ids": [1, 2], "filter": {"site": "x", "tags": ["p"]}}
    written = 'limit=3, exact=True, note=None, ids=[1, 2], filter={"site": "x", "tags": ["p"]}'
    yield case(f"{begin}[search_web({written})]{end}", ("search_web", values))
    unescaped = {"code": 'print("a" + b)', "language": "py"}
    yield case(f'{begin}[run_code(code="print("a" + b)", language="py")]{end}', ("run_code", unescaped))


def deepseek() -> Iterator[Case]:
    one = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>search_web\n```json\n{"query": "Oslo"}\n```<｜tool▁call▁end｜>'
    begin, end = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    yield case(f"hm</think>\n\n{begin}{one}{end}", OSLO, thought="hm", begun="<think>\n")
    yield case(f"<think>hm</think>{begin}{one}{end}", OSLO, thought="hm", begun="<think>\n")
    yield case(f"<think>hm</think>{begin}{one}\n{one}{end}", OSLO, OSLO, thought="hm")
    yield case(f"hm</think>Hi\n{begin}{one}", OSLO, thought="hm", said="Hi\n", begun="<think>\n")


def markers() -> Iterator[Case]:
    """Mistral's."""
    yield case('[TOOL_CALLS][{"name": "search_web", "arguments": {"query": "Oslo"}, "id": "123456789"}]', OSLO)
    yield case('[TOOL_CALLS]search_web[ARGS]{"query": "Oslo"}', OSLO)
    called = '[TOOL_CALLS]search_web[CALL_ID]abcdefghi[ARGS]{"query": "Oslo"}[TOOL_CALLS]now[ARGS]{}'
    yield case(called, OSLO, NOW)
    yield case('Hi[TOOL_CALLS] [{"name": "search_web", "arguments": {"query": "Oslo"}}]', OSLO, said="Hi")
    yield case('[TOOL_CALLS]search_web{"query": "Oslo"}', OSLO)


def channels() -> Iterator[Case]:
    """What is said in front of a call, on a channel of its own or without any."""
    call = '<|channel|>commentary to=functions.search_web <|constrain|>json<|message|>{"query": "Oslo"}<|call|>'
    again, thought = f"<|start|>assistant{call}", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
    yield case(f"{thought}<|channel|>commentary<|message|>I look.<|end|>{again}", OSLO, thought="hm", said="I look.")
    yield case(f"<|channel|>final<|message|>I look.<|end|>{again}{again}", OSLO, OSLO, said="I look.")
    for said in ("I look.", "to and fro", "assistants do", "a b"):
        yield case(f"{said}<|end|>{again}", OSLO, said=said)
        yield case(f"{said}{again}", OSLO, said=said)
        yield case(f"{said}{call}", OSLO, said=said)
        yield case(said, said=said)
    yield case("<|channel|>final\nHi there", said="Hi there")
    unknown = '{"query": "Oslo"}'
    yield case(f"<|channel|>commentary to=functions.other<|message|>{unknown}<|call|>", said=unknown)


def without_a_word_of_calls() -> Iterator[Case]:
    for text in (PLAIN, f"<|tool_call|>[{PLAIN}]<|/tool_call|>", f"functools[{PLAIN}]", '[search_web(query="Oslo")]'):
        yield case(text, OSLO)
    yield case('{"a": 1}', said='{"a": 1}')


_MANY = ["NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "Qwen-Qwen3-0.6B", "MiMo-VL", "ibm-granite-granite-4.1",
         "HuggingFaceTB-SmolLM3-3B", "Bielik-11B-v3.0-Instruct", "Reka-Edge"]  # fmt: skip
WRITTEN = {
    **dict.fromkeys(_MANY, in_tags), "meta-llama-Llama-3.3-70B-Instruct": bare_json,
    "LFM2.5-8B-A1B": pythonic, "LFM2.5-Instruct": pythonic,
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": deepseek, "llama-cpp-deepseek-r1": deepseek,
    "mistralai-Mistral-Nemo-Instruct-2407": markers, "unsloth-mistral-Devstral-Small-2507": markers,
    "Mistral-Small-3.2-24B-Instruct-2506": markers,
    "openai-gpt-oss-120b": channels,
    "microsoft-Phi-3.5-mini-instruct": without_a_word_of_calls,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_model_writes_is_read(name: str):
    if name not in NAMES:
        pytest.skip("needs the templates of published models beside the checkout")
    for text, begun, thought, said, calls in WRITTEN[name]():
        for size in (0, 1):
            got = read(form(name), text, TOOLS, begun, size=size)
            called = [(call.name, json.loads(call.arguments)) for call in got.calls]
            assert (got.reasoning, got.content, called) == (thought, said, calls), (begun, text)
