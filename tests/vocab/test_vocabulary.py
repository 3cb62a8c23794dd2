"""Text passes through every vocabulary byte by byte; damaged files are refused in one sentence."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.errors import ModelError
from omnidraft.vocab import TokenKind, Vocabulary
from omnidraft.vocab.exact import ExactEncoder
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from omnidraft.vocab.llama_vocab import LlamaTokenizer, read_gguf_vocabulary
from tests.vocab.conftest import BUNDLED_NAMES, REFERENCE_NAMES, vocabulary

TEXTS = [
    "",
    " ",
    "Hello",
    " Hello  world ",
    "😀 👩‍👩‍👧 🇩🇪",
    "中文字符、日本語テキスト 한국어",
    "e\u0301a\u0308 नमस्ते",
    "\tif x:\n\t\treturn '\\t'\r\n\n\n    # end",
    "1234567890" * 20,
    "<|im_start|>user\n<|im_end|><|eot_id|></s><s> <unk> <|end|><|endoftext|><｜end▁of▁sentence｜>",
    "[PAD151646] [PAD102399] <0x41>",
    "a\u2581b \u2581\u2581 \u2581",
    "NUL\0 in\0\0side\0",
    "\x01\x02\x03 control \x7f\x1b[0m",
    "ø ö ú and \u00a0no-break, \u200bzero, \ufeffmark, \ue000private",
    "don't I'LL we’ve",
]


def test_text_passes_intact_as_ordinary_tokens_and_gains_at_most_a_space_at_its_beginning(any_vocabulary):
    for text in TEXTS:
        ids = any_vocabulary.encode(text)
        assert any_vocabulary.decode(ids) == text.encode()
        assert all(any_vocabulary.ordinary[i] for i in ids)
        data = any_vocabulary.decode(any_vocabulary.encode(text, at_start=True))
        spaced = any_vocabulary.family == "spm" and text
        assert data == (b" " if spaced else b"") + text.encode()


@settings(max_examples=300, deadline=None)
@given(
    data=st.one_of(st.binary(max_size=40), st.text(max_size=60)),
    name=st.sampled_from([*BUNDLED_NAMES, "llama-spm", "gpt-2", "qwen2", "deepseek-llm"]),
)
def test_any_text_passes_intact_and_any_bytes_do_or_are_refused(data, name):
    v, raw = vocabulary(name), data.encode() if isinstance(data, str) else data
    if missing := [byte for byte in raw if bytes((byte,)) not in v.by_bytes]:
        with pytest.raises(ValueError, match=f"0x{missing[0]:02X}"):
            v.encode_bytes(raw)
        return
    ids = v.encode(data) if isinstance(data, str) else v.encode_bytes(data)
    assert v.decode(ids) == raw
    assert all(v.ordinary[i] for i in ids)


def test_lone_surrogates_become_the_replacement_character():
    v = vocabulary("tiny-drafter")
    assert v.decode(v.encode("a\ud83d b")) == "a\ufffd b".encode()


def test_typed_control_strings_stay_text(any_vocabulary):
    for text in any_vocabulary.controls:
        ids = any_vocabulary.encode(f"x{text}y")
        assert any_vocabulary.decode(ids) == f"x{text}y".encode()
        assert not any_vocabulary.eog.intersection(ids)


@pytest.mark.parametrize("name", ["tiny-drafter", "llama-spm", "phi-3"])
def test_a_word_in_the_middle_of_a_text_gains_no_space(name):
    v = vocabulary(name)
    assert v.pieces[v.encode("the")[0]] == b"the"
    assert v.pieces[v.encode(" the")[0]] == b" the"
    assert v.encode("the", at_start=True) == v.encode(" the")


def test_threads_do_not_disturb_each_other():
    v = vocabulary("tiny-target-b")
    texts = [f"thread {n} says {'word ' * n}" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(v.encode, texts)) == [v.encode(text) for text in texts]


def spelled(v: Vocabulary, data: bytes) -> list[int] | None:
    try:
        return v.encode_bytes(data)
    except ValueError:
        return None


@pytest.mark.parametrize("name", ["smol-drafter", *REFERENCE_NAMES])
def test_those_of_another_vocabulary_too_and_many_by_each_call(name, monkeypatch):
    """Some tokenizers make their patterns anew with each call, which took 4 of the 5 seconds of a first map."""
    v, calls, tokenize = vocabulary(name), [], LlamaTokenizer.tokenize
    for target in map(vocabulary, ("qwen2", "llama-bpe", "llama-spm")):
        pieces = [target.pieces[t] for t in np.flatnonzero(target.ordinary) if target.pieces[t] not in v.by_bytes][::23]
        alone = [spelled(v, piece) for piece in pieces]
        calls.clear()
        monkeypatch.setattr(LlamaTokenizer, "tokenize", lambda self, data: calls.append(1) or tokenize(self, data))
        assert v.encoder.encode_many(pieces) == alone
        monkeypatch.undo()
        assert len(calls) <= len(pieces) / 4


class Lying:
    """A tokenizer that drops, adds or changes text at will."""

    marks_words = False

    def __init__(self, ids):
        self.ids = ids

    def tokenize(self, data):
        return self.ids


@settings(max_examples=200, deadline=None)
@given(ids=st.lists(st.integers(0, 6), max_size=8), data=st.lists(st.sampled_from(b"abc "), max_size=12).map(bytes))
def test_a_wrong_tokenizer_answer_is_repaired(ids, data):
    pieces = [b"a", b"b", b"c", b" ", b"ab", b" c", b""]
    by_bytes = {piece: i for i, piece in enumerate(pieces) if piece}
    encoder = ExactEncoder(Lying(ids), pieces, by_bytes, pieces)
    for answer in (encoder.encode(data), encoder.encode_many([data])[0]):
        assert b"".join(pieces[i] for i in answer) == data
        assert 6 not in answer


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("tiny-target-a", "<|eot_id|>"),
        ("tiny-target-b", "<|im_end|>"),
        ("tiny-drafter", "</s>"),
        ("llama-bpe", "<|eot_id|>"),
        ("qwen2", "<|im_end|>"),
        ("phi-3", "<|end|>"),
        ("gpt-2", "<|endoftext|>"),
    ],
)
def test_eos_is_the_token_that_ends_a_turn(name, end):
    v = vocabulary(name)
    assert v.eos == v.controls[end]
    assert v.eos in v.eog


def test_fingerprints_are_equal_for_equal_vocabularies_only():
    prints = {name: vocabulary(name).fingerprint for name in BUNDLED_NAMES}
    assert prints["tiny-target-a"] == prints["tiny-target-a2"]
    assert len(set(prints.values())) == 3


@pytest.mark.parametrize("name", ["tiny-drafter", "tiny-target-a", "tiny-target-b"])
def test_a_tokenizer_json_gives_the_same_vocabulary_as_its_gguf(shared, name):
    folder = shared / "bundle" / name
    ours = read_tokenizer_json(folder / "tokenizer.json")
    other = read_gguf_vocabulary(folder / f"{name}-f16.gguf")
    assert ours.pieces == other.pieces
    assert (ours.kinds == other.kinds).all()
    assert (ours.eog, ours.eos, ours.bos, ours.controls) == (other.eog, other.eos, other.bos, other.controls)
    assert ours.fingerprint == other.fingerprint
    for text in TEXTS:
        assert ours.encode(text) == other.encode(text)
        assert ours.encode(text, at_start=True) == other.encode(text, at_start=True)


def test_padding_rows_are_unused_and_leave_the_fingerprint_alone(shared, tmp_path):
    source = shared / "bundle" / "tiny-target-b"
    shutil.copy(source / "tokenizer.json", tmp_path)
    shutil.copy(source / "generation_config.json", tmp_path)
    plain = read_tokenizer_json(source / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": plain.size + 128}))
    padded = read_tokenizer_json(tmp_path / "tokenizer.json")
    assert padded.size == plain.size + 128
    assert set(padded.kinds[plain.size :]) == {TokenKind.UNUSED}
    assert padded.fingerprint == plain.fingerprint


@pytest.mark.parametrize("name", REFERENCE_NAMES)
def test_every_ordinary_token_is_found_by_its_bytes(name):
    v = vocabulary(name)
    assert set(v.by_bytes) == {v.pieces[i] for i in np.flatnonzero(v.ordinary)}
    assert all(v.pieces[token] == data for data, token in v.by_bytes.items())


def test_what_is_no_model_is_refused_in_one_silent_sentence(models, tmp_path, capfd):
    text, other = tmp_path / "model.gguf", tmp_path / "tokenizer.json"
    text.write_text("This is not a model, though it is longer than a header.")
    other.write_text('{"model": 3}')
    cut = [tmp_path / f"cut-{kept}.gguf" for kept in (0, 3, 24, 1000, 300_000)]
    for path in cut:
        kept = int(path.stem.partition("-")[2])
        path.write_bytes((models / "tiny-target-b-f16.gguf").read_bytes()[:kept])
    for path in (*cut, text, other, tmp_path, tmp_path / "missing.gguf", tmp_path / "missing.json"):
        with pytest.raises(ModelError) as refusal:
            (read_tokenizer_json if path.suffix == ".json" else read_gguf_vocabulary)(path)
        assert str(path) in str(refusal.value)
        assert str(refusal.value).endswith(".")
        assert "\n" not in str(refusal.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(pipe := tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="There is no file"):
        read_gguf_vocabulary(pipe)
