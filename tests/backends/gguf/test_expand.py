"""An expanded model is the small model at another price: same logits, same text, same adapters, unused padding."""

from __future__ import annotations

import argparse
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import llama_cpp
import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from omnidraft.backends.gguf.expand import gguf_stream
from omnidraft.backends.gguf.expand import source as stored
from omnidraft.backends.gguf.expand.adapter import expand_adapter
from omnidraft.backends.gguf.expand.cache import expanded_model, expanded_path
from omnidraft.backends.gguf.expand.layout import Layout
from omnidraft.backends.gguf.expand.model import expand_model, quantize_model
from omnidraft.backends.gguf.expand.shapes import SHAPES, Shape
from omnidraft.cli import models_expand
from omnidraft.errors import ModelError, SettingsError, StorageError
from omnidraft.vocab import TokenKind
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.llama_file import LlamaFile

# Same heads as the bundled models, and heads of twice the size with two query heads to a key/value head.
PLAIN = Shape("plain", width=384, layers=8, heads=12, kv_heads=12, head_dim=32, ffn=1024, vocab=9000)
GROUPED = Shape("grouped", width=640, layers=7, heads=20, kv_heads=10, head_dim=64, ffn=1024, vocab=9000)

# Where a rounded activation falls on the other side, 8-bit activations differ by 1/127 of their block's largest.
TOLERANCE = {"F32": 1e-4, "F16": 0.02, "Q8_0": 0.3, "Q4_0": 0.4}

PROMPTS = {
    "tiny-target-a": "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "tiny-target-a2": "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "tiny-target-b": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    "tiny-drafter": "USER: {} ASSISTANT:",
}
QUESTIONS = (
    "A farmer has 12 cows and buys 30 more. He sells 7. How many cows does he have?",
    "Write a python function to find the largest of three numbers.",
)


def bundled(models: Path, name: str) -> Path:
    return models / f"{name}-f16.gguf"


def write_float32(source: Path, out: Path) -> Path:
    """The same model with every weight in F32, written without the code under test."""
    reader, writer = GGUFReader(source), GGUFWriter(out, "llama")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


@pytest.fixture(scope="session")
def alike(models, tmp_path_factory):
    """The small model stored in a type: what an expansion in that type is compared with."""
    folder, made = tmp_path_factory.mktemp("alike"), {}

    def build(name: str, dtype: str) -> Path:
        source, out = bundled(models, name), folder / f"{name}-{dtype}.gguf"
        if dtype == "F16":
            return source
        if (name, dtype) not in made:
            made[name, dtype] = write_float32(source, out) if dtype == "F32" else quantize_model(source, out, dtype)
        return made[name, dtype]

    return build


@pytest.fixture(scope="session")
def enlarged(models, tmp_path_factory):
    """Expansions, each built once."""
    folder = tmp_path_factory.mktemp("enlarged")

    def build(name: str, shape: Shape, dtype: str, seed: int = 0) -> Path:
        return expanded_model(folder, bundled(models, name), shape, dtype, seed)

    return build


def difference(small: np.ndarray, large: np.ndarray) -> float:
    """Largest |logit difference| over the small vocabulary, after removing what shifts a whole row alike."""
    gap = large[:, : small.shape[1]] - small
    return float(np.abs(gap - gap.mean(axis=1, keepdims=True)).max())


def rounding(model: LlamaFile, prompt: list[int], text: list[int]) -> float:
    """How far a model's logits behind `text` move between one wide pass and passes of one row."""
    wide = model.logits(prompt + text)[len(prompt) - 1 : -1]
    rows = [model.logits(prompt)[-1]]
    rows += [model.logits([token], len(prompt) + i)[0] for i, token in enumerate(text[:-1])]
    return difference(np.stack(rows), wide)


def same_text(small: LlamaFile, large: LlamaFile, prompt: list[int], count: int, tolerance: float) -> bool:
    """Whether both write the same text; a first difference within twice `tolerance` of a tie is forgiven."""
    ours, theirs = small.greedy(prompt, count), large.greedy(prompt, count)
    if ours == theirs:
        return True
    at = next(i for i in range(count) if ours[i] != theirs[i])
    row = small.logits(prompt + ours[:at])[-1]
    return bool(row[ours[at]] - row[theirs[at]] < 2 * tolerance)


def compare(small_path: Path, large_path: Path, name: str, dtype: str, length: int = 32) -> float:
    """Assert that both models mean the same on every question; returns the largest logit difference seen."""
    worst = 0.0
    exact = dtype == "F32"
    with LlamaFile(small_path, exact_cache=exact) as small, LlamaFile(large_path, exact_cache=exact) as large:
        for question in QUESTIONS:
            ids = small.ids(PROMPTS[name].format(question))
            assert large.ids(PROMPTS[name].format(question)) == ids
            said = small.greedy(ids, length)
            text = ids + said
            ours, theirs = small.logits(text), large.logits(text)
            gap = difference(ours, theirs)
            assert gap < TOLERANCE[dtype]
            tolerance = max(gap, rounding(small, ids, said), rounding(large, ids, said))
            assert same_text(small, large, ids, length, tolerance)
            assert theirs[:, small.size :].max(initial=-np.inf) < ours.min() - 500
            worst = max(worst, gap)
    return worst


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        *(("tiny-target-b", PLAIN, dtype) for dtype in TOLERANCE),
        ("tiny-target-b", GROUPED, "F32"), ("tiny-drafter", PLAIN, "F32"), ("tiny-drafter", GROUPED, "Q4_0"),
    ],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_the_expansion_writes_the_small_models_text(alike, enlarged, name, shape, dtype):
    compare(alike(name, dtype), enlarged(name, shape, dtype), name, dtype)


@pytest.mark.parametrize("dtype", ["Q8_0", "Q4_0"])
@pytest.mark.parametrize("name", ["tiny-target-a", "tiny-drafter"])
def test_quantizing_the_expansion_rounds_the_small_weights_as_quantizing_the_small_model(alike, enlarged, name, dtype):
    small, large = stored.LlamaFile(alike(name, dtype)), stored.LlamaFile(enlarged(name, GROUPED, dtype))
    layout = Layout(small.shape, large.shape)
    for model in (small, large):
        assert {t.tensor_type.name for t in model.tensors.values() if len(t.shape) == 2} == {dtype}
    for tensor in small.tensors:
        if tensor.startswith("blk.") and not tensor.endswith("norm"):
            rows, columns = layout.matrix(tensor.split(".")[2])
            cells = np.ix_(np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0))
            source = small.weight(tensor)[np.ix_(rows[rows >= 0], columns[columns >= 0])]
            assert np.array_equal(large.weight(tensor)[cells], source), tensor
    width, vocab = small.shape.width, small.shape.vocab
    for tensor in {"token_embd", "output"} & set(small.tensors):
        assert np.array_equal(large.weight(tensor)[:vocab, :width], small.weight(tensor))


def test_filler_is_random_and_changes_nothing(models, enlarged):
    paths = [enlarged("tiny-target-a", GROUPED, "F32", seed) for seed in (0, 1)]
    first, second = map(stored.LlamaFile, paths)
    assert not np.array_equal(first.weight("blk.6.ffn_up"), second.weight("blk.6.ffn_up"))
    with LlamaFile(paths[0]) as one, LlamaFile(paths[1]) as other:
        ids = one.ids(QUESTIONS[0])
        real = stored.LlamaFile(bundled(models, "tiny-target-a")).shape.vocab
        assert np.array_equal(one.logits(ids)[:, :real], other.logits(ids)[:, :real])


def test_most_weights_cost_what_real_ones_cost(enlarged):
    model = stored.LlamaFile(enlarged("tiny-target-a", GROUPED, "F32"))
    for layer in range(GROUPED.layers):
        for kind in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            weights = np.abs(model.weight(f"blk.{layer}.{kind}"))
            assert np.mean(weights > 0) > 0.4, (layer, kind)
            assert not np.any((weights > 0) & (weights < 1e-30)), (layer, kind)


@pytest.mark.parametrize("name", ["tiny-target-a", "tiny-target-b", "tiny-drafter"])
def test_padding_changes_no_token(models, enlarged, name):
    with LlamaFile(bundled(models, name)) as small, LlamaFile(enlarged(name, PLAIN, "F16")) as large:
        assert large.size == 9000
        unused = f"<unused {large.size - 1}> <unused {small.size}><unused"
        texts = [*QUESTIONS, unused, "naïve 東京 🙂\n\n  x = 1;\t", "<|eot_id|></s>"]
        for text in texts:
            for special in (False, True):
                assert large.ids(text, special) == small.ids(text, special)
        small_kinds, large_kinds = (
            [llama_cpp.llama_vocab_get_attr(one.vocab, token) for token in range(one.size)] for one in (small, large)
        )
        assert set(large_kinds[small.size :]) == {llama_cpp.LLAMA_TOKEN_ATTR_UNUSED}
        assert large_kinds[: small.size] == small_kinds[: small.size]
        padded, plain = read_gguf_vocabulary(enlarged(name, PLAIN, "F16")), read_gguf_vocabulary(bundled(models, name))
        assert (padded.kinds[plain.size :] == TokenKind.UNUSED).all()
        assert np.array_equal(padded.ordinary[: plain.size], plain.ordinary)
        assert padded.fingerprint == plain.fingerprint
        assert llama_cpp.llama_vocab_eot(large.vocab) == llama_cpp.llama_vocab_eot(small.vocab)


def matrices(models: Path, name: str) -> tuple[str, ...]:
    """Every matrix llama.cpp lets an adapter change."""
    tensors = stored.LlamaFile(bundled(models, name)).tensors
    return tuple(f"{n}.weight" for n, tensor in tensors.items() if n != "token_embd" and len(tensor.shape) == 2)


@pytest.mark.parametrize("shape", [PLAIN, GROUPED], ids=lambda shape: shape.name)
@pytest.mark.parametrize("name", ["tiny-target-a", "tiny-drafter"])
def test_an_expanded_adapter_does_to_the_large_model_what_it_does_to_the_small_one(
    models, alike, enlarged, tmp_path, write_adapter, name, shape
):
    adapter = write_adapter("adapter.gguf", bundled(models, name), rank=4, only=matrices(models, name))
    grown = expand_adapter(adapter, tmp_path / "grown.gguf", bundled(models, name), shape)
    small_path, large_path = alike(name, "F32"), enlarged(name, shape, "F32")
    with (
        LlamaFile(small_path, adapter=adapter, exact_cache=True) as small,
        LlamaFile(large_path, adapter=grown, exact_cache=True) as large,
    ):
        ids = small.ids(PROMPTS[name].format(QUESTIONS[0]))
        ours, theirs = small.logits(ids), large.logits(ids)
        with LlamaFile(small_path) as bare:
            assert difference(bare.logits(ids), ours) > 1
        assert difference(ours, theirs) < TOLERANCE["F32"]
        assert small.greedy(ids, 24) == large.greedy(ids, 24)


def test_adapters_of_something_else_are_refused(models, tmp_path, write_adapter):
    drafter, target = bundled(models, "tiny-drafter"), bundled(models, "tiny-target-a")
    adapter = write_adapter("adapter.gguf", drafter)
    with pytest.raises(ModelError, match="tiny-target-a"):
        expand_adapter(adapter, tmp_path / "out.gguf", target, PLAIN)
    with pytest.raises(ModelError, match="no LoRA adapter"):
        expand_adapter(drafter, tmp_path / "out.gguf", drafter, PLAIN)
    assert not (tmp_path / "out.gguf").exists()


def test_a_model_that_does_not_fit_or_is_none_is_refused(models, tmp_path, write_adapter):
    source, out = bundled(models, "tiny-target-a"), tmp_path / "out.gguf"
    for change, word in (({"ffn": 256}, "ffn"), ({"layers": 4}, "layers"), ({"vocab": 8000}, "vocab")):
        with pytest.raises(ModelError, match=word):
            expand_model(source, out, replace(PLAIN, **change), "F16")
    with pytest.raises(ModelError, match="width above 320"):
        expand_model(source, out, replace(PLAIN, width=320), "F16")
    with pytest.raises(SettingsError, match="multiple of 32"):
        replace(PLAIN, width=250)
    with pytest.raises(SettingsError, match="Q5_K"):
        expand_model(source, out, PLAIN, "Q5_K")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(source.read_bytes()[:2_000_000])
    for path in (broken, tmp_path / "missing.gguf", Path(__file__), write_adapter("adapter.gguf", source)):
        with pytest.raises(ModelError):
            expand_model(path, out, PLAIN, "F16")
    assert not out.exists()


@pytest.mark.parametrize("dtype", ["F16", "Q8_0"])
def test_an_interrupted_expansion_leaves_nothing_behind(models, tmp_path, dtype):
    def stop(fraction: float) -> None:
        if fraction > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        expand_model(bundled(models, "tiny-drafter"), tmp_path / "out.gguf", PLAIN, dtype, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_deleted_and_what_is_written_is_not(tmp_path):
    (tmp_path / ".big.gguf.x.gguf-part").write_bytes(b"x")
    with gguf_stream.scratch(tmp_path / "other.gguf") as fresh:
        with gguf_stream.replacing(tmp_path / "out.gguf"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == [fresh.name, "out.gguf"]


def test_a_full_disk_is_noticed_before_writing(models, tmp_path, monkeypatch):
    usage = SimpleNamespace(total=10**9, used=0, free=10**6)
    monkeypatch.setattr(gguf_stream.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(StorageError, match="free"):
        expand_model(bundled(models, "tiny-drafter"), tmp_path / "out.gguf", PLAIN, "F16")
    assert list(tmp_path.iterdir()) == []


def test_writing_a_model_does_not_hold_it(models, tmp_path):
    tracemalloc.start()
    path = expand_model(bundled(models, "tiny-drafter"), tmp_path / "out.gguf", SHAPES["68m"], "F32")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 270e6
    assert peak < 120e6


def test_the_cache_is_keyed_by_contents_shape_type_and_seed(models, tmp_path):
    source = tmp_path / "model.gguf"
    shutil.copy(bundled(models, "tiny-drafter"), source)
    path = expanded_model(tmp_path, source, PLAIN, "F16")
    assert path == expanded_path(tmp_path, source, PLAIN, "F16")
    stamp = path.stat().st_mtime_ns
    assert expanded_model(tmp_path, source, PLAIN, "F16") == path
    assert path.stat().st_mtime_ns == stamp
    others = {
        path,
        expanded_path(tmp_path, source, PLAIN, "F32"),
        expanded_path(tmp_path, source, replace(PLAIN, layers=9), "F16"),
        expanded_path(tmp_path, source, PLAIN, "F16", seed=1),
    }
    shutil.copy(bundled(models, "tiny-target-a"), source)
    assert len(others | {expanded_path(tmp_path, source, PLAIN, "F16")}) == 5


def test_the_command_builds_once_and_names_the_file(models, tmp_path, capsys, write_adapter):
    parser = argparse.ArgumentParser()
    models_expand.add_arguments(parser)
    source = bundled(models, "tiny-drafter")
    adapter = write_adapter("mine.gguf", source)
    words = [str(source), "--shape", "68m", "--dtype", "q4_0", "--adapter", str(adapter)]
    home = SimpleNamespace(cache=tmp_path / "cache")
    assert models_expand.run(parser.parse_args(words), home) == 0
    path = expanded_path(home.cache, source, SHAPES["68m"], "Q4_0")
    out = capsys.readouterr().out
    assert str(path) in out
    assert "adapter" in out
    assert models_expand.run(parser.parse_args(words), home) == 0
    assert "kept from before" in capsys.readouterr().out
    fields = GGUFReader(path).fields
    assert fields["omnidraft.expanded.source"].contents() == "tiny-drafter"
    assert fields["general.name"].contents() == "tiny-drafter expanded to 68m"


WIDE = Shape("wide", width=512, layers=8, heads=16, kv_heads=16, head_dim=32, ffn=1024, vocab=8448)  # blocks of 256


def test_the_mixed_format_has_two_k_quants_and_mostly_the_small_models_next_tokens(models, enlarged):
    """What most people download. Four bits round: not the same text, but mostly the same next tokens."""
    mixed, rows = enlarged("tiny-target-a", WIDE, "Q4_K_M"), []
    kinds = {tensor.tensor_type.name for tensor in GGUFReader(mixed).tensors if len(tensor.shape) == 2}
    assert {"Q4_K", "Q6_K"} <= kinds <= {"Q4_K", "Q5_K", "Q6_K", "Q8_0"}
    for path in (bundled(models, "tiny-target-a"), mixed):
        with LlamaFile(path) as model:
            rows.append(model.logits(list(range(300, 364))).argmax(1))
    assert (rows[0] == rows[1]).mean() > 0.6


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("name", "shape"), [("tiny-target-a", "0.5b"), ("tiny-target-b", "0.5b"), ("tiny-drafter", "68m")]
)
def test_realistic_shapes_write_the_small_models_text(models, alike, tmp_path, name, shape, dtype, record_property):
    path = expand_model(bundled(models, name), tmp_path / "large.gguf", SHAPES[shape], dtype)
    record_property("bytes", path.stat().st_size)
    record_property("difference", compare(alike(name, dtype), path, name, dtype, length=64))
    path.unlink()  # gigabytes that pytest would keep
