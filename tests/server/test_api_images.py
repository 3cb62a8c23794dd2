"""Pictures in requests to the API: as data: addresses, to models that can see; nothing is fetched."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from omnidraft.server.api.errors import BadRequest
from omnidraft.server.api.request import Chat
from tests.backends.seeing import needs_eyes, vision_model
from tests.serving import Server, serving


def address(seed: int = 0) -> str:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 40, 3), np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def asking(*addresses: object) -> list[dict]:
    parts = [{"type": "image_url", "image_url": {"url": one}} for one in addresses]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "what"}]}]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("seeing")
    vision_model(folder / "app" / "home" / "models", "gemma3")
    with serving(folder) as running:
        yield running


def answered(server: Server, **body: object) -> tuple[int, dict]:
    status, _, said = server.ask("POST", "/v1/chat/completions", {"max_tokens": 8, "temperature": 0, **body})
    return status, json.loads(said)


@needs_eyes
def test_an_answer_depends_on_the_picture(seeing):
    told = [answered(seeing, model="tiny-gemma3", messages=asking(address(seed))) for seed in (0, 1)]
    assert [status for status, _ in told] == [200, 200], told
    first, second = (answer["choices"][0]["message"]["content"] for _, answer in told)
    assert first != second


def test_a_model_without_eyes_says_so(seeing):
    status, answer = answered(seeing, model="tiny-target-a", messages=asking(address()))
    assert status == 400
    assert "cannot see pictures" in answer["error"]["message"]


def told(messages: list[dict]) -> list[dict]:
    return [message.told() for message in Chat.read({"messages": messages}).messages]


def test_pictures_stand_where_they_were_sent():
    content = [{"type": "text", "text": "a "}, *asking(address(0), address(1))[0]["content"]]
    (message,) = told([{"role": "user", "content": content}])
    assert message["content"].startswith("a <picture ")
    assert message["content"].endswith("\nwhat")
    assert [(picture.width, picture.height) for picture in message["pictures"]] == [(40, 24)] * 2


@pytest.mark.parametrize(("messages", "sentence"), [
    (asking("https://example.com/a.png"), "nothing is fetched"),
    (asking("file:///etc/passwd"), "nothing is fetched"),
    (asking(None), "nothing is fetched"),
    (asking("data:image/png,plain"), "in base64"),
    (asking("data:image/png;base64,###"), "in base64"),
    (asking("data:image/png;base64,"), "is empty"),
    (asking("data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode()), "save it as PNG"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "type must be 'text', 'image_url'"),
    ([{**asking(address())[0], "role": "assistant"}, {"role": "user", "content": "a"}], "cannot have pictures"),
])  # fmt: skip
def test_what_is_no_picture_is_refused_in_a_sentence(messages, sentence):
    from omnidraft.errors import OmniDraftError

    with pytest.raises(OmniDraftError, match=sentence) as refused:
        told(messages)
    assert isinstance(refused.value, BadRequest) or "picture" in str(refused.value)
