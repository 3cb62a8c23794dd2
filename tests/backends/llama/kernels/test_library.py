"""What is built for this machine, and what happens where it cannot be."""

import os
from pathlib import Path

import pytest

from omnidraft.backends.llama.kernels import library


@pytest.fixture
def compiler(monkeypatch):
    """Names another compiler, as CXX does."""

    def use(path: Path) -> None:
        monkeypatch.setenv("CXX", str(path))
        monkeypatch.setenv("PATH", "")
        library._compiler.cache_clear()

    yield use
    monkeypatch.undo()
    library._compiler.cache_clear()


def test_without_a_compiler_there_is_a_sentence_and_no_library(tmp_path, compiler):
    compiler(tmp_path / "none")
    assert library.build(into=tmp_path / "ours.so") == "there is no C++ compiler"
    assert not (tmp_path / "ours.so").exists()


def test_a_build_that_fails_says_what_the_compiler_said(tmp_path):
    why = library.build(("-march=no-such-processor",), tmp_path / "ours.so")
    assert "could not build it" in why
    assert "no-such-processor" in why
    assert list(tmp_path.glob("*.so")) == list(tmp_path.glob("*.new")) == []


@pytest.mark.slow
def test_a_library_whose_products_are_wrong_is_not_kept(tmp_path, compiler):
    """Built by a compiler that takes 26 for 127."""
    sources = Path(library.__file__).parent
    for source in (*sources.glob("*.h"), *sources.glob("*.cpp")):
        (tmp_path / source.name).write_text(source.read_text().replace("127 / most", "26 / most"))
    script, path = tmp_path / "mistaken", os.environ["PATH"]
    moved = f"s#{sources}/products.cpp#{tmp_path}/products.cpp#"
    script.write_text(f'#!/bin/sh\nexport PATH={path}\nexec c++ $(echo "$@" | sed "{moved}")\n')
    script.chmod(0o700)
    compiler(script)
    assert library.build(into=tmp_path / "ours.so") == "products of Q4_0 are wrong"
    assert not (tmp_path / "ours.so").exists()


def test_it_can_be_left_out(monkeypatch):
    monkeypatch.setenv(library.LEFT_OUT, "llama.cpp")
    assert library.registered() is None
    assert library.in_use() == library.why_not() == ""
