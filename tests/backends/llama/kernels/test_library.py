"""What is built for this machine, and what happens where it cannot be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.backends.llama.kernels import library

ALONE = "import sys; from pathlib import Path; from omnidraft.backends.llama.kernels import library; "
ALONE += "library.user_cache_dir = lambda *_, **__: sys.argv[1]; place = library._Place().library; "


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


def said(script: str, cache: Path) -> list[str]:
    """Lines that a process of its own prints, whose built library would lie in `cache`."""
    environment = {name: value for name, value in os.environ.items() if name != library.LEFT_OUT}
    done = subprocess.run(
        [sys.executable, "-c", ALONE + script, str(cache)],
        capture_output=True, text=True, check=True, env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_every_source_makes_another_library():
    here = Path(library.__file__).parent
    assert {*here.glob("*.cpp"), *here.glob("*.h"), here / "check.py"} == set(library._SOURCES)


def test_a_library_that_cannot_be_loaded_is_none_and_is_built_again(tmp_path):
    script = (
        "place.parent.mkdir(parents=True); place.write_bytes(b''); "
        "print(library.registered()); print(library.why_not()); print(library._untried())"
    )
    found, why, untried = said(script, tmp_path)
    assert (found, untried) == ("None", "True")
    assert "not built yet" in why


def test_a_library_that_comes_late_serves_from_the_next_start_on(tmp_path):
    """Models that are there may be computing, and lie in layouts that llama.cpp has to find in its list."""
    if library.registered() is None:
        pytest.skip(library.why_not())
    built = library._Place().library
    (tmp_path / "kernels").mkdir()
    shutil.copy(built, tmp_path / built.name)
    script = (
        "import shutil; from omnidraft.backends.llama.runtime import choose_layouts; print(choose_layouts()); "
        f"shutil.copy({str(tmp_path / built.name)!r}, place); "
        "print(choose_layouts(), library.registered(), library.in_use() == ''); print(library.why_not())"
    )
    before, after, why = said(script, tmp_path)
    assert before == "False"
    assert after == "False None True"
    assert "next start" in why


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(library, "user_cache_dir", lambda *_, **__: str(tmp_path / "file"))
    assert library.build().startswith("it could not be built: ")


def test_a_build_that_another_process_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "_SECONDS", 0.2)
    other = library.FileLock(tmp_path / "ours.lock")
    assert other.acquire()
    assert library.build(into=tmp_path / "ours.so") == "another process is building them"
    other.release()


def test_a_build_that_takes_too_long_is_tried_again(tmp_path, monkeypatch, compiler):
    script = tmp_path / "compiler"
    script.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    script.chmod(0o700)
    monkeypatch.setattr(library, "_SECONDS", 0.2)
    monkeypatch.setattr(library, "user_cache_dir", lambda *_, **__: str(tmp_path))
    compiler(script)
    assert "not enough" in library.build()
    assert library._Place().refused() == ""
