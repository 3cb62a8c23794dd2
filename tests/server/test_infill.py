"""Editors fill gaps with a real code model: completions with a suffix, and /infill; the same text undrafted."""

from __future__ import annotations

import httpx
import openai
import pytest

from tests.real import QWEN, real_model
from tests.server.test_api import MODEL, client
from tests.serving import SETTINGS, serving

BEFORE, BEHIND = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"


@pytest.fixture(scope="module")
def coder(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("coder"), "--target", str(real_model(QWEN)), settings=SETTINGS) as running:
        yield running


def test_a_completion_with_a_suffix_fills_the_gap(coder):
    texts = [
        client(coder).completions.create(
            model="", prompt=BEFORE, suffix=BEHIND, max_tokens=16, temperature=0, extra_body={"speculation": drafted}
        ).choices[0].text
        for drafted in (True, False)
    ]  # fmt: skip
    assert texts[0].strip().startswith("a + b")
    assert texts[0] == texts[1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_plugin_gets_the_middle_in_llama_cpps_form(coder, stream):
    body = {"input_prefix": BEFORE, "input_suffix": BEHIND, "n_predict": 16, "temperature": 0, "stream": stream}
    answer = httpx.post(f"{coder.origin}/infill", json=body, timeout=60)
    assert answer.status_code == 200
    if not stream:
        assert answer.json()["content"].strip().startswith("a + b")
        assert answer.json()["timings"]["predicted_n"] == answer.json()["tokens_predicted"] > 0
        return
    parts = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert '"stop": true' in parts[-1]


def test_a_model_without_such_tokens_says_so(server):
    with pytest.raises(openai.BadRequestError, match="does not fill gaps"):
        client(server).completions.create(model=MODEL, prompt=BEFORE, suffix=BEHIND)
    assert httpx.post(f"{server.origin}/infill", json={}).status_code == 400
