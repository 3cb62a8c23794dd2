"""Why llama.cpp refused a file is known in every process, whatever else used the library before or beside it."""

import ctypes
from pathlib import Path

import llama_cpp
import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.runtime import supports_architecture
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab import llama_vocab
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.backends.tiny_models import write

_DEAF = llama_cpp.llama_log_callback(lambda level, text, data: None)


@pytest.fixture(autouse=True)
def used(models: Path):
    """A library that has loaded a model, and whose log somebody else then took."""
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", ModelSettings(n_ctx=64, threads=1)) as target:
        target.extend([1, 2, 3], 1)
    llama_cpp.llama_log_set(_DEAF, ctypes.c_void_p(0))
    supports_architecture.cache_clear()
    yield
    llama_vocab.silence()
    supports_architecture.cache_clear()


def test_an_unsupported_architecture_is_named(tmp_path: Path):
    path = write(tmp_path / "new.gguf", "zeta-7")
    with pytest.raises(ModelError, match="architecture 'zeta-7'"):
        read_info(path)
    llama_cpp.llama_log_set(_DEAF, ctypes.c_void_p(0))
    with pytest.raises(ModelError, match="unknown model architecture: 'zeta-7'"):
        read_gguf_vocabulary(path)


def test_a_missing_setting_is_named(tmp_path: Path):
    with pytest.raises(ModelError, match=r"tokenizer\.ggml\.model"):
        read_gguf_vocabulary(write(tmp_path / "empty.gguf", "llama"))
