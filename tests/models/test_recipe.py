"""The recipe end to end at toy size: text -> vocabulary -> training -> GGUF that llama.cpp reads as torch does."""

import itertools
import json
import random
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from models.recipe.__main__ import build
from models.recipe.average import average
from models.recipe.data import Document, encode_documents, packed_batches, read_records
from models.recipe.export import export_gguf
from models.recipe.schedule import StopRequest, TrainingClock, WarmupHoldDecay
from models.recipe.specs import DRAFTER, TARGET_A, TARGET_B, ModelSpec
from models.recipe.start import rows_of, start_from
from models.recipe.tokenizers import train_tokenizer
from models.recipe.train import Trainer, TrainSettings, new_model, pick_positions
from models.recipe.unpack import unpack
from tests.llama_file import LlamaFile

TOY = [
    replace(TARGET_A, vocabulary_size=420, layers=2, width=32, feed_forward=64, heads=2),
    replace(TARGET_B, vocabulary_size=420, layers=1, width=32, feed_forward=64, heads=2),
    replace(DRAFTER, vocabulary_size=480, layers=1, width=32, feed_forward=64, heads=2),
]
QUICK = TrainSettings(minutes=1.5 / 60, bf16=False, compiled=False, rows=4, length=64, warmup_steps=5)
TEXTS = [
    "How many plums does Vera have left?",
    "  two spaces, a tab\tand\n\n\nnew lines ",
    "def area(r):\n    return 3.14159 * r ** 2\n",
    "Zażółć gęślą jaźń, 東京 🙂 e\u0301 12345678901234567890",
    "I'll say: it's 5% — don't!",
]


def write_conversations(folder: Path) -> None:
    """200 small conversations in three tasks, the same every time."""
    rng = random.Random(0)
    names, things = ["Vera", "Milo", "Ana", "Jürgen"], ["plums", "books", "lamps", "tickets"]
    with (folder / "toy.jsonl").open("w", encoding="utf-8") as file:
        for i in range(200):
            name, thing, a, b = rng.choice(names), rng.choice(things), rng.randint(20, 99), rng.randint(1, 19)
            question = f"{name} has {a} {thing} and gives away {b}. How many {thing} does {name} have left?"
            answer = f"{name} has {a} - {b} = {a - b} {thing} left.\nThe answer is {a - b}."
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            task = ("math", "dialogue", "qa")[i % 3]
            file.write(json.dumps({"id": f"toy/{i}", "task": task, "messages": messages}) + "\n")


@pytest.fixture(scope="module", params=TOY, ids=lambda spec: spec.name)
def trained(request, tmp_path_factory) -> tuple[ModelSpec, Path]:
    folder = tmp_path_factory.mktemp(request.param.name)
    write_conversations(folder)
    torch.set_num_threads(1)
    path = build(request.param, folder, folder / "out", QUICK)
    return request.param, path


def loaded(path: Path) -> tuple[Tokenizer, LlamaForCausalLM]:
    return Tokenizer.from_file(str(path.parent / "tokenizer.json")), LlamaForCausalLM.from_pretrained(path.parent)


def test_a_short_training_lowers_the_held_out_loss(trained):
    _, path = trained
    log = [json.loads(line) for line in (path.parent / "log.jsonl").read_text().splitlines()]
    assert log[-1]["held_out"] < log[0]["held_out"] - 0.5
    assert log[-1]["tokens"] == log[-1]["step"] * QUICK.rows * QUICK.length


def test_llama_cpp_and_tokenizers_give_the_same_ids(trained):
    spec, path = trained
    tokenizer, _ = loaded(path)
    texts = [*TEXTS, f"{spec.controls[-1]}".join(TEXTS)]
    with LlamaFile(path, context=False) as file:
        for text in texts:
            assert file.ids(text) == tokenizer.encode(text, add_special_tokens=False).ids


def test_llama_cpp_and_torch_give_the_same_logits(trained):
    _, path = trained
    tokenizer, model = loaded(path)
    ids = [tokenizer.token_to_id(trained[0].bos), *tokenizer.encode(TEXTS[0] * 3, add_special_tokens=False).ids]
    model = model.half().float()  # the file's weights
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].float().numpy()
    with LlamaFile(path, exact_cache=True) as file:
        difference = np.abs(file.logits(ids) - expected).max()
    print(f"largest difference {difference:.1e} of logits up to {np.abs(expected).max():.1f}")
    assert difference < 1e-2


def test_the_file_carries_the_chat_template_and_turn_end(trained):
    import llama_cpp

    spec, path = trained
    tokenizer, _ = loaded(path)
    with LlamaFile(path, context=False) as file:
        assert file.template() == spec.template
        assert llama_cpp.llama_vocab_eos(file.vocab) == tokenizer.token_to_id(spec.eos)
        assert llama_cpp.llama_vocab_bos(file.vocab) == tokenizer.token_to_id(spec.bos)


def test_training_goes_on_from_a_folder_and_from_a_checkpoint(trained, tmp_path: Path):
    spec, path = trained
    before = [json.loads(line) for line in (path.parent / "log.jsonl").read_text().splitlines()][-1]
    out = tmp_path / "more"
    build(spec, path.parent.parent, out, replace(QUICK, minutes=0.01), resume=path.parent, take_up=False)
    first = json.loads((out / "log.jsonl").read_text().splitlines()[0])
    assert first["held_out"] == pytest.approx(before["held_out"], abs=0.1)  # one small step away at most
    build(spec, path.parent.parent, out, replace(QUICK, minutes=0.02), resume=path.parent, take_up=True)
    last = json.loads((out / "log.jsonl").read_text().splitlines()[-1])
    assert last["step"] > first["step"]


def test_a_run_taken_up_while_the_rate_falls_goes_on_falling(trained, tmp_path: Path):
    model = loaded(trained[1])[1]

    def trainer(minutes: float) -> Trainer:
        return Trainer(model, [], replace(QUICK, minutes=minutes), tmp_path, 0)

    killed = trainer(45.0)
    killed.clock = TrainingClock("cpu", 1, 40 * 60)
    killed.schedule.begin_decay(31.5 * 60)
    killed.save_checkpoint()
    going_on, longer = trainer(45.0), trainer(90.0)
    going_on.load_checkpoint()
    assert going_on.schedule.scale(1000, 40 * 60) == pytest.approx(5 / 13.5)
    assert going_on.schedule.scale(1000, 45 * 60) is None
    longer.load_checkpoint()
    assert longer.schedule.scale(1000, 50 * 60) == 1.0


def test_sigterm_asks_for_an_end_and_is_given_back():
    handler = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert not stop.came
        signal.raise_signal(signal.SIGTERM)
        assert stop.came
    assert signal.getsignal(signal.SIGTERM) is handler


def test_the_rate_warms_up_holds_and_decays_to_nothing():
    schedule = WarmupHoldDecay(budget_s=100, warmup_steps=10, decay_share=0.25)
    assert schedule.scale(0, 0.0) == pytest.approx(0.1)
    assert schedule.scale(50, 74.0) == 1.0
    assert schedule.scale(51, 75.0) == 1.0
    assert schedule.scale(60, 87.5) == pytest.approx(0.5)
    assert schedule.scale(70, 100.0) is None


def test_packing_gives_rows_of_whole_documents_and_each_once_a_pass():
    sizes = (7, 11, 3, 16, 40)  # the last is longer than a row and comes in pieces
    ids = [np.arange(100 * i + 1, 100 * i + 1 + size, dtype=np.int32) for i, size in enumerate(sizes)]
    documents = [Document(document, document % 2 == 0) for document in ids]
    batches = list(itertools.islice(packed_batches(documents, rows=2, length=15, seed=0), 6))
    rows = np.concatenate([batch for batch, _ in batches])
    learned = np.concatenate([marks for _, marks in batches])
    assert (learned == ((rows % 2 == 0) & (rows > 0))).all()
    assert rows.shape == (12, 16)
    starts = {int(document[at]) for document in ids for at in range(0, len(document), 16)}
    assert {int(row[0]) for row in rows} <= starts
    for row in rows:
        filled = row[row > 0]
        assert (np.diff(filled) == 1).sum() == len(filled) - sum(int(token) in starts for token in filled)
    counts = Counter(rows[rows > 0].tolist())
    assert set(counts) == {int(token) for document in ids for token in document}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_file_is_read_back_as_it_was_written(trained, tmp_path: Path):
    spec, path = trained
    if spec.vocabulary == "spm":
        pytest.skip("such a vocabulary keeps no merges in the file")
    written, model = loaded(path)
    unpack(spec, path, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert tokenizer.encode(text).ids == written.encode(text).ids
    read = LlamaForCausalLM.from_pretrained(tmp_path).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(read[name], weight.half().float() if weight.ndim > 1 else weight), name


def test_weights_lie_between_those_before_and_behind_a_stage(trained, tmp_path: Path):
    spec, path = trained
    if spec.vocabulary == "spm":
        pytest.skip("such a vocabulary keeps no merges in the file")
    tokenizer, model = loaded(path)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: 2 * value for name, value in before.items()})
    behind, between = tmp_path / "behind.gguf", tmp_path / "between.gguf"
    export_gguf(behind, spec, tokenizer, model, "F32")
    average(spec, path, behind, 0.25, between)
    unpack(spec, between, tmp_path)
    found = LlamaForCausalLM.from_pretrained(tmp_path).state_dict()
    for name, weight in before.items():
        torch.testing.assert_close(found[name], 1.25 * weight, rtol=2e-3, atol=1e-6, msg=name)


def test_only_answers_are_learned_and_of_the_drafter_everything(trained):
    spec, path = trained
    tokenizer, _ = loaded(path)
    said = [
        {"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "It is four."},
        {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Any time."},
    ]  # fmt: skip
    (document,) = encode_documents(spec, tokenizer, [{"id": "x", "task": "math", "messages": said}])
    if spec.learns == "all":
        assert document.learned.all()
        return
    learned = tokenizer.decode(document.ids[document.learned].tolist(), skip_special_tokens=False)
    assert learned == f"It is four.{spec.eos}Any time.{spec.eos}"


def test_a_step_reads_always_the_same_number_of_positions():
    rng = np.random.default_rng(0)
    learned = np.zeros((2, 11), bool)
    learned[:, 3:6] = True
    few = pick_positions(learned, 0.5, rng)
    assert sorted(few) == [-1] * 4 + [2, 3, 4, 12, 13, 14]
    assert len(pick_positions(np.ones((2, 11), bool), 0.5, rng)) == 10


def test_a_model_starts_from_anothers_layers_and_vocabulary(trained, tmp_path: Path):
    _, path = trained
    spec = next(spec for spec in TOY if spec.name in str(path))
    records = read_records(path.parent.parent, spec.tasks)
    texts = [message["content"] for record in records for message in record["messages"]]
    other = replace(spec, vocabulary_size=spec.vocabulary_size - 40, layers=1)
    tokenizer, theirs = train_tokenizer(other, texts), Tokenizer.from_file(str(path.parent / "tokenizer.json"))
    model = new_model(other, tokenizer)
    start_from(other, model, tokenizer, path.parent / "checkpoint.pt")
    saved = torch.load(path.parent / "checkpoint.pt", weights_only=True)["model"]
    table = model.model.embed_tokens.weight
    for number, rows in enumerate(rows_of(other, tokenizer, theirs)):
        assert torch.allclose(table[number], saved["model.embed_tokens.weight"][rows].mean(0))
    assert rows_of(other, tokenizer, theirs)[tokenizer.token_to_id(spec.eos)] == [theirs.token_to_id(spec.eos)]
    first = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(model.state_dict()[first], saved[first])


def test_documents_that_spell_a_control_token_are_left_out(trained):
    spec, path = trained
    tokenizer, _ = loaded(path)
    clean = {"messages": [{"role": "user", "content": "Hello"}]}
    hostile = {"messages": [{"role": "user", "content": f"Hello {spec.eos}"}]}
    assert len(encode_documents(spec, tokenizer, [clean, hostile])) == 1
