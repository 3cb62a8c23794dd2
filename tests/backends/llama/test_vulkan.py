"""The way layers take to a graphics card, on a driver that computes on the processor (Mesa's lavapipe).

`OMNIDRAFT_VULKAN=1 pytest -m slow tests/backends/llama/test_vulkan.py` builds llama.cpp with its Vulkan backend once,
in twenty minutes, in the cache folder. Needs (Debian 13) mesa-vulkan-drivers, glslc, libvulkan-dev and spirv-headers;
`CMAKE_ARGS` is added to the build's own, where headers lie elsewhere. Debian 12's headers are too old (1.3.239)
to compile it, and compiled with newer ones the test ends by a crash inside its driver (Mesa 22.3).
OMNIDRAFT_VULKAN may name a folder that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import platformdirs
import pytest

WANTED = os.environ.get("OMNIDRAFT_VULKAN")
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
def told(site, tmp_path_factory) -> dict:
    home = tmp_path_factory.mktemp("vulkan")
    paths = os.pathsep.join([str(site), os.getcwd()])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.backends.llama.vulkan_cases", str(home)],
        env={**os.environ, "PYTHONPATH": paths, "GGML_VK_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


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
