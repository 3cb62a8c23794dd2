"""The way layers take to a graphics card, on a driver that computes on the processor (Mesa's lavapipe).

`OMNIDRAFT_VULKAN=1 pytest -m slow tests/backends/llama/test_vulkan.py` builds llama.cpp with its Vulkan backend once,
in twenty minutes, in the cache folder; CONTRIBUTING.md has what Debian 12 and 13 need for it. OMNIDRAFT_VULKAN may name
a folder that has it. The driver translates each of llama.cpp's programs when it is first used, ten seconds to a minute
of a processor (Debian 12's with LLVM 15 far more), and keeps them in Mesa's cache: the first run is slow.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import platformdirs
import pytest

WANTED = os.environ.get("OMNIDRAFT_VULKAN")
CARD = 30_000_000  # bytes: less than the target takes, and more than what computes two of its layers
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not WANTED, reason="OMNIDRAFT_VULKAN=1 builds llama.cpp with its Vulkan backend"),
]


@pytest.fixture(scope="module")
def site() -> Path:
    """A folder with a llama_cpp that has the Vulkan backend."""
    if WANTED != "1":
        return Path(WANTED)
    needed = f"llama-cpp-python=={version('llama-cpp-python')}"
    folder = platformdirs.user_cache_path("omnidraft", appauthor=False) / "tests" / f"vulkan-{needed}"
    if not (folder / "llama_cpp").is_dir():
        arguments = ["--no-deps", "--no-cache-dir", "--no-binary", "llama-cpp-python", "--target", str(folder), needed]
        options = "--config-settings=cmake.args=-DLLAVA_BUILD=OFF;-DGGML_RPC=ON;-DGGML_VULKAN=ON"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *arguments, options], check=True)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """failing_card.c, which without its variables only spares the processor."""
    made = tmp_path_factory.mktemp("library") / "failing_card.so"
    folders = [folder for folder in os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if folder]
    headers = [f"-I{folder}/include" for folder in folders]
    source = Path(__file__).with_name("failing_card.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", *headers, str(source), "-o", str(made), "-ldl"], check=True)
    return made


@pytest.fixture(scope="module")
def run(site, library) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a module of these tests with that llama_cpp and that library."""

    def run(module: str, *arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join([str(site), os.getcwd()])
        ours = {"PYTHONPATH": paths, "GGML_VK_VISIBLE_DEVICES": "0", "LD_PRELOAD": str(library)}
        command = [sys.executable, "-m", f"tests.backends.llama.{module}", *map(str, arguments)]
        given = {name: str(value) for name, value in environment.items()}
        return subprocess.run(
            command, env={**os.environ, **ours, **given}, capture_output=True, text=True, timeout=5400
        )

    return run


def answer(ended: subprocess.CompletedProcess[str]) -> dict:
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told(run, tmp_path_factory) -> dict:
    """On a card that counts: the driver's own figure is what all programs leave free of this machine's memory."""
    return answer(run("vulkan_cases", tmp_path_factory.mktemp("vulkan"), CARD_BYTES=8 << 30))


def test_there_is_a_card(told):
    assert told["cards"]


def test_the_text_is_the_same_with_a_drafter_wherever_both_lie(told):
    assert len(told["texts"]) == 8
    for where, pairs in told["texts"].items():
        for plain, drafted in pairs:
            assert plain == drafted, where
            assert plain


def test_the_drafter_lies_where_its_steps_are_quicker(told):
    assert told["drafter_on_card"]["-1 True"] is False
    assert told["drafter_on_card"]["-1 False"] is True
    assert told["drafter_on_card"]["0 False"] is False


def test_a_switch_and_back_says_the_same(told):
    first, _, again = told["switched"]
    assert first == again
    assert all(plain == drafted for pairs in told["switched"] for plain, drafted in pairs)


def test_a_card_with_little_room_takes_a_part_and_it_is_said(told):
    little = told["little"]
    assert any("layers of tiny-target-a are on the graphics card" in notice for notice in little["notices"])
    assert all(plain == drafted for plain, drafted in little["texts"])
    assert little["beside"] is False


def test_nothing_stays_on_the_card(told):
    assert all(told["closed"])


def test_a_card_that_is_too_small_holds_what_fits(run, tmp_path):
    """CARD_BYTES: the card has so much, says so, and refuses more."""
    told = answer(run("vulkan_failures", tmp_path, "full", CARD_BYTES=CARD))
    assert told["free"] == CARD
    assert told["free_beside_the_processor"] == CARD  # nothing of what the processor computes lies on it
    assert "failed to allocate Vulkan0 buffer" in told["refused"]
    assert told["goes_on"]  # with what was loaded before
    assert told["free_behind_the_refusal"] == CARD
    assert any("layers of tiny-target-a are on the graphics card" in notice for notice in told["notices"])
    assert 0 < told["free_beside_the_target"] < CARD // 2
    assert all(plain == drafted and plain for plain, drafted in told["texts"])
    assert told["free_at_the_end"] == CARD


def test_a_card_that_vanishes_ends_the_program_and_the_next_one_does_without(run, tmp_path):
    """llama.cpp does not catch what its Vulkan backend throws while it computes, so nothing of ours can either."""
    ended = run("vulkan_failures", tmp_path, "gone", CARD_GONE=tmp_path / "gone")
    assert ended.returncode == -signal.SIGABRT, ended.stdout
    assert "vk::DeviceLostError" in ended.stderr
    after = answer(run("vulkan_failures", tmp_path, "after"))
    assert after["text"]
