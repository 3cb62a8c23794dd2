"""Pictures in a llama.cpp cache: three ways of reading them, taken back before and behind, never inside."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama import estimate
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.runtime import AbortFlag
from omnidraft.backends.opening import open_target
from omnidraft.backends.pictures import FIRST
from omnidraft.errors import ModelError, NoRoom
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.trial import Trials
from tests.backends.seeing import PROJECTORS, needs_eyes, noise, vision_model

SETTINGS = ModelSettings(n_ctx=512, threads=1)
BEFORE, BEHIND = [5, 6, 7], [8, 9, 10]


@pytest.fixture(params=PROJECTORS)
def target(request, tmp_path):
    model, projector = vision_model(tmp_path, request.param)
    with LlamaTarget.open(model, SETTINGS) as target:
        target.open_eyes(projector)
        yield target


@needs_eyes
@pytest.mark.parametrize("pictures", [1, 2])
def test_reading_on_after_a_cut_gives_what_reading_anew_gives(target, pictures):
    seen = [id for seed in range(pictures) for id in target.eyes.ids(noise(seed))]
    expected = target.extend(BEFORE + seen + BEHIND, 3).copy()
    assert len(target.tokens) == target._live().held
    for length in (len(BEFORE + seen) + 1, len(BEFORE + seen), len(BEFORE), 1):
        target.rewind(length)
        assert target.tokens == (BEFORE + seen + BEHIND)[:length]
        again = target.extend((BEFORE + seen + BEHIND)[length:], min(3, len(BEFORE + seen + BEHIND) - length))
        assert np.abs(again - expected[-len(again) :]).max() < 1e-4
        assert target._live().held == len(target.tokens)


@needs_eyes
def test_a_picture_is_never_cut_in_two(target):
    ids = BEFORE + target.eyes.ids(noise(1))
    target.extend(ids, 0)
    with pytest.raises(ValueError, match="inside a picture"):
        target.rewind(next(at for at, id in enumerate(ids) if id >= FIRST) + 1)
    assert target.tokens == ids


@needs_eyes
@pytest.mark.parametrize("nodes", [0, 1, 20])
def test_a_stop_while_a_picture_is_encoded_leaves_the_cache_whole(target, monkeypatch, nodes):
    expected = target.extend(BEFORE + target.eyes.ids(noise(1)) + BEHIND, 1).copy()
    target.rewind(len(BEFORE))
    asked = []
    monkeypatch.setattr(AbortFlag, "is_set", property(lambda _: asked.append(1) or len(asked) > nodes))
    with pytest.raises(Aborted):
        target.extend(target.eyes.ids(noise(2)), 0)
    monkeypatch.undo()
    assert len(asked) == nodes + 2  # no node was computed behind the stop; then the encoding's end is looked at
    held = target.tokens
    assert held[:3] == BEFORE
    assert all(id < FIRST for id in held)
    target.rewind(len(BEFORE))
    assert np.abs(target.extend(target.eyes.ids(noise(1)) + BEHIND, 1) - expected).max() < 1e-4


@needs_eyes
def test_a_projector_of_another_width_or_kind_is_refused(write_gguf, tmp_path):
    model, projector = vision_model(tmp_path, "llava")
    kind, metadata, tensors = PROJECTORS["llava"]()
    tensors |= {"mm.2.weight": tensors["mm.2.weight"][:32], "mm.2.bias": tensors["mm.2.bias"][:32]}
    narrow = write_gguf("other/mmproj-narrow.gguf", kind, metadata | {"clip.vision.projection_dim": 32}, tensors)
    with LlamaTarget.open(model, SETTINGS) as target:
        with pytest.raises(ModelError, match="does not serve"):
            target.open_eyes(narrow)
        with pytest.raises(ModelError, match="no projector"):
            target.open_eyes(model)
        assert target.eyes is None
        target.extend(BEFORE, 1)
        target.open_eyes(projector)
        target.extend(target.eyes.ids(noise(1)), 0)


@needs_eyes
def test_a_projector_that_ends_the_program_ends_only_a_child(write_gguf, tmp_path):
    """Its places of patches do not fit its picture: llama.cpp asserts."""
    model, _ = vision_model(tmp_path, "llava")
    kind, metadata, tensors = PROJECTORS["llava"]()
    broken = write_gguf(
        "other/mmproj-broken.gguf", kind, metadata, tensors | {"v.position_embd.weight": np.ones((3, 32), np.float32)}
    )
    with pytest.raises(ModelError, match="end the whole program"):
        Trials().require(model, broken)
    Trials().require(*vision_model(tmp_path, "gemma3"))


def test_a_model_takes_the_projector_beside_it_or_says_why_not(tmp_path):
    model, projector = vision_model(tmp_path, "llava")
    projector.write_bytes(projector.read_bytes()[:-4000])
    target = open_target(model, SETTINGS)
    assert target.eyes is None
    target.close()
    with pytest.raises(ModelError, match="cut short"):
        open_target(model, SETTINGS, None, projector)


@needs_eyes
def test_a_projector_without_room_lets_another_model_go_first(tmp_path, monkeypatch):
    model, _ = vision_model(tmp_path, "llava")
    with open_target(model, SETTINGS) as loaded:
        assert loaded.eyes is not None
        monkeypatch.setattr(estimate, "available_bytes", lambda: 10_000)
        monkeypatch.setattr("omnidraft.backends.llama.model.check_memory", lambda *_: None)
        with pytest.raises(NoRoom, match="of memory are free"):
            open_target(model, SETTINGS, loaded)
    with open_target(model, SETTINGS) as alone:
        assert alone.eyes is None
        assert "reads text only" in alone.notices[-1]


def test_a_projector_is_found_by_its_name(write_gguf):
    from omnidraft.backends.discovery import projector_beside

    content = PROJECTORS["llava"]()
    model = Path(write_gguf("a/Some-3-4b-it-Q4_K_M.gguf", *content))
    assert projector_beside(model) is None
    general = write_gguf("a/mmproj-BF16.gguf", *content)
    write_gguf("a/mmproj-Some-3-12b-it-f16.gguf", *content)
    (model.parent / "mmproj-some-3-4b-it-Q8_0.gguf").write_bytes(b"no model")
    assert projector_beside(model) == general
    own = write_gguf("a/mmproj-Some-3-4b-it-f16.gguf", *content)
    assert projector_beside(model) == own


@needs_eyes
def test_the_logits_are_those_of_the_librarys_own_reading(target):
    """`mtmd_helper_eval_chunks` counts positions itself."""
    from llama_cpp import llama_cpp, mtmd_cpp

    picture, context = noise(1), target._live()
    marker = mtmd_cpp.mtmd_default_marker()
    written = b"ab" + marker + b"cd" + marker + b"efg"
    pixels = (ctypes.c_uint8 * len(picture.pixels)).from_buffer_copy(picture.pixels)
    bitmap = mtmd_cpp.mtmd_bitmap_init(picture.width, picture.height, pixels)
    chunks = mtmd_cpp.mtmd_input_chunks_init()
    text = mtmd_cpp.mtmd_input_text(written, len(written), False, True)
    bitmaps = (mtmd_cpp.mtmd_bitmap_p_ctypes * 2)(bitmap, bitmap)
    assert mtmd_cpp.mtmd_tokenize(target.eyes._context, chunks, ctypes.byref(text), bitmaps, 2) == 0
    ids, behind, count = [], llama_cpp.llama_pos(0), ctypes.c_size_t()
    for at in range(mtmd_cpp.mtmd_input_chunks_size(chunks)):
        chunk = mtmd_cpp.mtmd_input_chunks_get(chunks, at)
        tokens = mtmd_cpp.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
        ids += tokens[: count.value] if tokens else [id for id in target.eyes.ids(picture) if id >= FIRST]
        last = at + 1 == mtmd_cpp.mtmd_input_chunks_size(chunks)
        code = mtmd_cpp.mtmd_helper_eval_chunk_single(
            target.eyes._context, context._context, chunk, behind.value, 0, 64, last, ctypes.byref(behind)
        )
        assert code == 0
    expected = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context._context, -1), (context.n_vocab,)).copy()
    mtmd_cpp.mtmd_input_chunks_free(chunks)
    mtmd_cpp.mtmd_bitmap_free(bitmap)
    context.clear()
    assert np.abs(target.extend(ids, 1)[0] - expected).max() < 1e-4
    assert context._layout.behind(len(ids)) == behind.value
