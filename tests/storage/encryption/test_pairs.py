"""Every two commands with one home, and conversions killed at every step: it opens, and nothing is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from omnidraft.processes import system
from omnidraft.storage.encryption.conversion import MADE, OLD
from omnidraft.storage.paths import find_data_home
from tests.storage.encryption.homes import fill, opened
from tests.storage.encryption.pairs import COMMANDS, Scenario

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

STARTS = ("plain", "sealed")
CONVERTING = (("plain", "on"), ("sealed", "off"))
Steps = dict[tuple[str, str], list[str]]  # what stands in the home at each step of each command, alone, by home


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """In memory: what is tried is the order of the steps, and a disk would take most of the time."""
    with tempfile.TemporaryDirectory(prefix="pairs-", dir=system.memory_folder()) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def templates(folder) -> Path:
    templates = folder / "templates"
    fill(find_data_home(templates / "plain"))
    shutil.copytree(templates / "plain", templates / "sealed")
    with opened(templates / "sealed", encrypt=True):
        pass
    return templates


def play(scenarios: Iterable[Scenario], templates: Path, folder: Path) -> list[tuple[Scenario, dict]]:
    folder.mkdir()
    scenarios = list(scenarios)
    command = [sys.executable, str(Path(__file__).with_name("pairs.py")), str(templates), str(folder)]
    lines = "".join(json.dumps(asdict(scenario)) + "\n" for scenario in scenarios)
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    return list(zip(scenarios, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def steps(templates, folder) -> Steps:
    alone = [Scenario(start, first, "status", -1) for start in STARTS for first in COMMANDS]
    return {(one.start, one.first): answer["steps"] for one, answer in play(alone, templates, folder / "alone")}


def lost(steps: Steps) -> list[Scenario]:
    """Each of these lost the key once: a header was read before another program's conversion had ended."""
    said = steps["plain", "on"]
    copying = next(n for n in range(len(said)) if MADE[True] in said[n]) + 2
    waiting = [Scenario("plain", "on", second, copying, "behind") for second in ("list", "app", "on", "change")]
    return [*waiting, *(Scenario("sealed", "off", second, -1, "before") for second in ("off", "change", "app", "list"))]


def every(steps: Steps) -> list[Scenario]:
    """The second command comes in the middle of the first: of a conversion, while its files are being written."""
    return [
        Scenario(start, first, second, len(said) // 2)
        for (start, first), said in steps.items() if said for second in COMMANDS
    ]  # fmt: skip


def check(played: list[tuple[Scenario, dict]]) -> None:
    wrong = [f"{scenario}: {answer}" for scenario, answer in played if answer["wrong"]]
    assert not wrong, f"{len(wrong)} of {len(played)}:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("start", "way"), CONVERTING)
def test_killed_at_any_step_the_home_opens_and_nothing_is_left(steps, templates, folder, start, way, every):
    said = steps[start, way]
    points = range(1, len(said) + 1, every)
    made = MADE[way == "on"]
    assert {said[point - 1].split(" ")[1] for point in points} >= {made, OLD}
    assert {f"{made}+{OLD}"} <= {each.split(" ")[1] for each in said}
    again = [Scenario(start, way, way, point, killed=True) for point in points]
    check(play(again, templates, folder / f"{way}-{every}"))


def test_two_programs_with_one_home_lose_nothing(steps, templates, folder):
    """A program that converts has the home for itself: who comes meanwhile is refused, or waits with its question."""
    check(play([*lost(steps), *every(steps)], templates, folder / "every"))
