"""`chat --image`: a model with a projector beside it answers about pictures, every other says that it cannot see."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from tests.backends.seeing import needs_eyes, vision_model


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)).save(path)
    return path


@needs_eyes
def test_a_picture_is_part_of_the_prompt(chat, tmp_path, picture):
    model, projector = vision_model(tmp_path / "models", "qwen2vl")
    asked = ["--target", model, "--max-tokens", 8, "--prompt", "what", "--json"]
    prompts = [json.loads(chat(*asked, *more)[1])["prompt_tokens"] for more in ([], ["--image", picture])]
    assert prompts[1] > prompts[0] + 12
    drafted = json.loads(chat(*asked, "--image", picture, "--draft-length", 3)[1])
    plain = json.loads(chat(*asked, "--image", picture, "--no-draft")[1])
    assert drafted["text"] == plain["text"]
    assert drafted["drafted"] > 0
    moved = projector.rename(tmp_path / "eyes.gguf")
    code, _, err = chat(*asked, "--image", picture)
    assert code == 2
    assert "cannot see pictures" in err
    again = json.loads(chat(*asked, "--image", picture, "--mmproj", moved)[1])
    assert again["text"] == plain["text"]


@needs_eyes
def test_a_conversation_takes_pictures_by_a_command(chat, tmp_path, picture):
    model, _ = vision_model(tmp_path / "models", "llava")
    typed = f"/image {picture}\nwhat\n/image {picture}x\nagain\n"
    code, _, err = chat("--target", model, "--max-tokens", 8, "--no-draft", typed=typed)
    assert code == 0
    assert "about this picture" in err
    assert "cannot be read" in err


def test_what_cannot_be_seen_is_refused_in_a_sentence(chat, tmp_path, picture):
    asked = ["--prompt", "what"]
    drawing = tmp_path / "drawing.svg"
    drawing.write_text("<svg/>")
    cases = {picture: "cannot see pictures", drawing: "save it as PNG", tmp_path / "none.png": "cannot be read"}
    for path, sentence in cases.items():
        code, out, err = chat(*asked, "--image", path)
        assert (code, out) == (2, "")
        assert sentence in err.splitlines()[-1]
