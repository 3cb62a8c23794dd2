"""The recipe from a toy target to a drafter's file: cut, written for, trained, stopped and gone on with."""

import base64
import json
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from models.recipe import __main__ as recipe
from models.recipe.answers import PACKED
from models.recipe.cut import Vocabulary, export, new_model, read_model, read_vocabulary
from models.recipe.train import Rows, rounded
from omnidraft.backends.gguf.file import read_info
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.llama_file import llama_logits

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = "The quick brown fox jumps over 12 lazy dogs; what does the fox do? It jumps, and the dogs are lazy."


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two targets of 30 narrow layers under the names the recipe asks for, and data."""
    folder = tmp_path_factory.mktemp("targets")
    tokenizer = Tokenizer(models.BPE())
    cutting = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Sequence(cutting), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        [TEXT], trainers.BpeTrainer(vocab_size=330, special_tokens=CONTROL, initial_alphabet=alphabet)
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=96, num_hidden_layers=30,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
        max_position_embeddings=1024,
    )  # fmt: skip
    learned = json.loads(tokenizer.to_str())["model"]
    vocabulary = Vocabulary(list(learned["vocab"]), learned["vocab"], learned["merges"], len(CONTROL))
    for name in recipe.WRITERS:
        export(folder / name, vocabulary, LlamaForCausalLM(config), "F32")
    (folder / "pretrain").mkdir()
    talk = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}] * 2
    record = json.dumps({"task": "math", "messages": talk})
    (folder / "pretrain/math.jsonl").write_text(f"{record}\n" * 30)
    (folder / "pretrain/qa.jsonl").write_text(record.replace("math", "qa") + "\n")
    return folder


def test_the_cut_vocabulary_refines_the_whole_one(folder):
    source = folder / recipe.SOURCE
    cut, whole = read_vocabulary(source, 290).tokenizer(), read_gguf_vocabulary(source)
    for text in (TEXT, "foxes  dogged\n\n12345 naïve 😀"):
        theirs = {len(whole.decode(whole.encode(text)[:count])) for count in range(len(text))}
        ends = set(accumulate((len(cut.id_to_token(piece)) for piece in cut.encode(text).ids), initial=0))
        assert theirs <= ends
    assert len(cut.encode(TEXT).ids) > len(whole.encode(TEXT))


def test_where_a_token_begins_what_else_was_likely_is_learned_too(folder, tmp_path):
    """The target's tokens are longer than the drafter's pieces: inside of them only the text is known."""
    source = folder / recipe.SOURCE
    vocabulary, target = read_vocabulary(source, 265), read_gguf_vocabulary(source)
    ids = [*target.encode(" the dogs"), target.eos]
    top = np.array([[token, target.encode("lazy")[0]] for token in ids], np.uint32)
    logp = np.log(np.array([[0.75, 0.25]] * len(ids))).astype(np.float16)
    record = {"messages": [{"role": "user", "content": TEXT}], "answer": " the dogs", "ended": True}
    record |= {
        key: base64.b64encode(np.asarray(value, PACKED[key]).tobytes()).decode()
        for key, value in zip(PACKED, (ids, top, logp), strict=True)
    }
    (tmp_path / "answers.jsonl").write_text(f"{json.dumps(record)}\n" * 2)
    rows = Rows({tmp_path / "answers.jsonl": target}, vocabulary, [])
    (row,) = rows.training
    cut = vocabulary.tokenizer()
    pieces = [*cut.encode(" the dogs").ids, 2]
    assert row.pieces[row.start :].tolist() == pieces
    assert len(pieces) > len(ids)
    begins = {len(target.decode(ids[:count])) for count in range(len(ids))}
    ends = accumulate((len(cut.id_to_token(piece)) for piece in pieces), initial=0)
    for piece, begin, likely, chances in zip(pieces, ends, row.likely, row.chances, strict=False):
        expected = {piece: 0.875, cut.encode("lazy").ids[0]: 0.125} if begin in begins else {piece: 1.0}
        found = {int(one): float(chance) for one, chance in zip(likely, chances, strict=True) if chance}
        assert found == pytest.approx(expected, abs=1e-3)


def test_llama_cpp_computes_the_layers_that_torch_has(folder, tmp_path):
    vocabulary = read_vocabulary(folder / recipe.SOURCE, 290)
    model = new_model(folder / recipe.SOURCE, vocabulary, (0, 7, 29)).eval()
    export(tmp_path / "drafter.gguf", vocabulary, model, "F32")
    ids = vocabulary.tokenizer().encode(TEXT).ids
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(llama_logits(tmp_path / "drafter.gguf", ids), theirs, atol=2e-3)


@pytest.mark.slow
def test_it_goes_on_where_it_was_stopped(folder, tmp_path, monkeypatch):
    out = tmp_path / "drafter.gguf"
    work = tmp_path / "drafter.gguf.work"
    command = ["recipe", "--targets", str(folder), "--data", str(folder), "--out", str(out), "--answers", "0.01"]
    monkeypatch.setattr("sys.argv", [*command, "--minutes", "0.01"])
    recipe.main()
    first = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()][-1]
    written = {path: path.read_bytes() for path in work.glob("*.jsonl") if path.name != "log.jsonl"}
    assert len(written) == len(recipe.WRITERS)
    source = work / f"{Path(recipe.SOURCE).stem}.jsonl"
    source.write_bytes(written[source][:-20])  # killed within a line
    monkeypatch.setattr("sys.argv", [*command, "--minutes", str(first["minutes"] + 0.01)])
    recipe.main()
    last = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()][-1]
    assert last["steps"] > first["steps"]
    assert last["pieces"] > first["pieces"]
    assert [len(path.read_bytes().splitlines()) for path in written] == [
        len(data.splitlines()) for data in written.values()
    ]
    assert len(read_gguf_vocabulary(out).pieces) == len(read_vocabulary(folder / recipe.SOURCE).ids)
    start, other = tmp_path / "start.gguf", tmp_path / "other.gguf"
    vocabulary = read_vocabulary(folder / recipe.SOURCE)
    export(start, vocabulary, new_model(folder / recipe.SOURCE, vocabulary, (0, 7, 29)))
    command[command.index(str(out))] = str(other)
    monkeypatch.setattr("sys.argv", [*command, "--minutes", "0.01", "--start", str(start)])
    recipe.main()
    assert read_info(other).layers == 3  # those of what it was told to train on, not of a new one


def test_it_is_trained_as_it_will_be_read(folder, tmp_path):
    vocabulary = read_vocabulary(folder / recipe.SOURCE, 300)
    model = new_model(folder / recipe.SOURCE, vocabulary)
    exact = model.model.layers[0].mlp.up_proj.weight.detach().clone()
    export(path := tmp_path / "rounded.gguf", vocabulary, model)
    with rounded(model):
        for found, read in zip(model.parameters(), read_model(path).parameters(), strict=True):
            assert torch.equal(found, read)
    assert torch.equal(model.model.layers[0].mlp.up_proj.weight, exact)
