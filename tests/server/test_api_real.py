"""Gaps filled for editors by a real model that has tokens for them, the same drafted; refused by one that has none."""

from __future__ import annotations

import httpx
import openai
import pytest

from tests.real import QWEN, real_model
from tests.server.test_api import MODEL, client
from tests.serving import SETTINGS, serving


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("qwen"), "--target", str(real_model(QWEN)), settings=SETTINGS) as running:
        yield running


BEFORE, BEHIND = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"


def test_a_completion_with_a_suffix_fills_the_gap(qwen):
    texts = [
        client(qwen).completions.create(
            model="", prompt=BEFORE, suffix=BEHIND, max_tokens=16, temperature=0, extra_body={"speculation": drafted}
        ).choices[0].text
        for drafted in (True, False)
    ]  # fmt: skip
    assert texts[0].strip().startswith("a + b")
    assert texts[0] == texts[1]
    echoed = client(qwen).completions.create(
        model="", prompt=BEFORE, suffix=BEHIND, max_tokens=8, temperature=0, echo=True
    )
    assert echoed.choices[0].text.startswith(BEFORE)


@pytest.mark.parametrize("stream", [False, True])
def test_a_plugin_gets_the_middle_in_llama_cpps_form(qwen, stream):
    body = {"input_prefix": BEFORE, "input_suffix": BEHIND, "n_predict": 16, "temperature": 0, "stream": stream}
    answer = httpx.post(f"{qwen.origin}/infill", json=body, timeout=60)
    assert answer.status_code == 200
    if not stream:
        assert answer.json()["content"].strip().startswith("a + b")
        assert answer.json()["timings"]["predicted_n"] == answer.json()["tokens_predicted"] > 0
        return
    parts = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert '"stop": true' in parts[-1]


@pytest.mark.parametrize("extra", [100_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_what_editors_send_along_is_taken_and_trimmed(qwen, extra):
    """Files that fill the context several times over: what stands at the gap is read."""
    files = [{"filename": f"{n}.py", "text": f"def f{n}():\n    return {n}\n" * (extra // 250)} for n in range(10)]
    body = {"input_prefix": BEFORE, "input_suffix": BEHIND, "input_extra": files, "n_predict": 4, "temperature": 0,
            "samplers": ["top_k", "infill"], "t_max_predict_ms": 500}  # fmt: skip
    answer = httpx.post(f"{qwen.origin}/infill", json=body, timeout=300)
    assert (answer.status_code, answer.json()["truncated"]) == (200, True)
    assert answer.json()["tokens_evaluated"] > 500


def test_what_is_too_large_is_told_in_the_form_of_the_api(server):
    for path in ("/infill", "/v1/chat/completions"):
        reply = httpx.post(f"{server.origin}{path}", content=b"x" * (9 << 20), timeout=60)
        assert (reply.status_code, reply.json()["error"]["message"]) == (413, "The request is too large."), path
    small = {"input_prefix": "x" * 100_000, "input_suffix": "y"}
    assert "does not fill gaps" in httpx.post(f"{server.origin}/infill", json=small).json()["error"]["message"]


def test_a_model_without_such_tokens_says_so(server):
    with pytest.raises(openai.BadRequestError, match="does not fill gaps"):
        client(server).completions.create(model=MODEL, prompt=BEFORE, suffix=BEHIND)
    assert httpx.post(f"{server.origin}/infill", json={}).status_code == 400
