"""The recipe of sight: llama.cpp computes what torch trained, and the bundled model sees drawings it never had."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.recipe.data import encode_documents, read_records
from models.recipe.sight import check
from models.recipe.sight.drawings import LABELS, SIDE, draw
from models.recipe.sight.tower import Tower, TowerSpec, export_projector
from models.recipe.sight.train import HERE, Pictures, Seeing, train
from models.recipe.specs import TARGET_A2
from models.recipe.tokenizers import train_tokenizer
from models.recipe.train import TrainSettings, new_model
from omnidraft.app.default_models import choose_target
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.pictures import Picture
from omnidraft.bench.pairs import Pair
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from tests.backends.seeing import needs_eyes, vision_model
from tests.backends.tiny_models import WIDTH
from tests.models.test_recipe import write_conversations

TOY = replace(TARGET_A2, vocabulary_size=420, layers=1, width=32, feed_forward=64, heads=2, tasks=("math", "qa"))
SMALL = TowerSpec(32, layers=1, width=32, heads=2, feed_forward=64)


def test_drawings_say_what_they_show():
    rng = random.Random(0)
    drawings = [draw(rng) for _ in range(300)]
    assert {one.kind for drawing in drawings for one in drawing.asked} == {
        "description", "count", "presence", "colour", "shape", "place", "number", "bars",
    }  # fmt: skip
    for drawing in drawings:
        assert drawing.pixels.shape == (SIDE, SIDE, 3)
        assert len(drawing.labels) == len(LABELS)
        assert all(label < most for label, most in zip(drawing.labels, LABELS, strict=True))
        shapes = sum(label > 0 for label in drawing.labels[1:5])
        for one in drawing.asked:
            if one.question == "Count the shapes.":
                assert one.answer.split()[2] == ("no", "one", "two", "three", "four")[shapes]


@needs_eyes
def test_llama_cpp_computes_what_torch_trained(tmp_path):
    torch.manual_seed(0)
    tower = Tower(replace(SMALL, out=WIDTH, layers=2)).eval()
    model, projector = vision_model(tmp_path, "llava")
    export_projector(projector, "toy", tower)
    drawing = draw(random.Random(1))
    with LlamaTarget.open(model, ModelSettings(n_ctx=512, threads=1)) as target:
        target.open_eyes(projector)
        ids = target.eyes.ids(Picture("one", SIDE, SIDE, drawing.pixels.tobytes()))
        found = target.eyes._encoded(target.eyes._stretches[ids[0]])
    with torch.no_grad():
        expected = tower(torch.from_numpy(drawing.pixels)[None])[0].numpy()
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


def test_a_target_and_its_tower_are_trained_together(tmp_path):
    write_conversations(tmp_path)
    records = read_records(tmp_path, TOY.tasks)
    tokenizer = train_tokenizer(TOY, [m["content"] for record in records for m in record["messages"]])
    model = Seeing(new_model(TOY, tokenizer), Tower(SMALL)).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    pictures = Pictures(TOY, tokenizer, 0)
    settings = TrainSettings(minutes=6 / 60, log_every_s=0.5, warmup_steps=5, compiled=False)
    train(model, pictures, encode_documents(TOY, tokenizer, records), tmp_path, settings, 0.5)
    assert all(not torch.equal(before[name], weight) for name, weight in model.state_dict().items() if weight.ndim > 1)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert log[-1]["pictures"] > 0 < log[-1]["text"]
    assert log[-1]["names"] < log[0]["names"]


def test_answers_alone_are_learned_of_a_conversation(tmp_path):
    write_conversations(tmp_path)
    records = read_records(tmp_path, TOY.tasks)
    tokenizer = train_tokenizer(TOY, [m["content"] for record in records for m in record["messages"]])
    pictures = Pictures(TOY, tokenizer, 0)
    asked = draw(random.Random(4)).asked[:2]
    ids, learned = pictures.conversation(asked)
    said = tokenizer.decode(
        [id for id, is_learned in zip(ids, learned, strict=True) if is_learned], skip_special_tokens=False
    )
    assert said == "".join(one.answer + TOY.eos for one in asked)
    whole = tokenizer.decode([*pictures.before.tolist(), *ids], skip_special_tokens=False)
    assert whole == pictures._render([(one.question, one.answer) for one in asked]).replace(HERE, "")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    home = find_data_home(tmp_path_factory.mktemp("home"))
    with Pair(home, BUNDLED_MODELS / "tiny-target-a2-f16.gguf", check.DRAFTER, ModelSettings(threads=1)) as opened:
        yield opened


def test_a_projector_that_has_its_models_name_is_not_taken_for_it(tmp_path):
    home = find_data_home(tmp_path)
    assert choose_target("tiny-target-a2", home) == BUNDLED_MODELS / "tiny-target-a2-f16.gguf"


@needs_eyes
def test_the_bundled_model_sees_drawings_it_never_had(pair):
    found, wrong = check.right_by_kind(pair, check.questions(60, seed=77))
    every = [right for kind in found.values() for right in kind]
    assert sum(every) >= 0.75 * len(every), wrong


@needs_eyes
def test_what_it_says_of_them_does_not_depend_on_the_drafter(pair):
    assert check.same_text(pair, check.questions(6, seed=78)) == {"T=0": 6, "T=1": 6}
