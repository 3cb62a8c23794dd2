"""What gets installed is what the locks name, whole and with hashes."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = "torch"  # every build of it has other hashes; the README's command pins it


def entries(name: str) -> dict[str, tuple[set[str], int]]:
    """Versions and number of hashes of every package in a lock."""
    found: dict[str, tuple[set[str], int]] = {}
    for entry in re.split(r"(?<!\\)\n", (ROOT / name).read_text()):
        if entry and not entry.startswith("#"):
            package, number = re.match(r"([^ =]+)==([^ ]+)", entry).groups()
            versions, hashes = found.get(canonical(package), (set(), 99))
            found[canonical(package)] = (versions | {number}, min(hashes, entry.count("--hash=sha256:")))
    return found


def pins(name: str) -> dict[str, str]:
    lines = [line.split()[0] for line in (ROOT / name).read_text().splitlines() if "==" in line and line[0] != "#"]
    return {canonical(line.partition("==")[0]): line.partition("==")[2] for line in lines}


APP, TESTS = entries("requirements.lock"), entries("requirements-dev.lock")


@pytest.mark.parametrize(("file", "lock"), [("requirements.txt", APP), ("requirements-dev.txt", TESTS)])
def test_every_pin_is_locked_at_its_version_with_hashes(file, lock):
    wanted = pins(file)
    assert wanted
    assert {name: {number} for name, number in wanted.items() if name != WITHOUT} == {
        name: lock[name][0] for name in wanted if name != WITHOUT
    }
    assert min(hashes for _, hashes in lock.values()) >= 1
    assert WITHOUT not in lock


def test_an_installation_takes_the_same_versions():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {canonical(Requirement(line).name): str(Requirement(line).specifier) for line in declared} == {
        name: f"=={number}" for name, number in pins("requirements.txt").items()
    }


def test_the_locks_share_no_package():
    assert not set(APP) & set(TESTS)


def needed(names: list[str]) -> set[str]:
    """These packages and all they need here, as their own metadata says."""
    found, left = set(), [Requirement(name) for name in names]
    while left:
        wanted = left.pop()
        extras = ["", *wanted.extras]
        if canonical(wanted.name) not in found or wanted.extras:
            found.add(canonical(wanted.name))
            for line in requires(wanted.name) or ():
                one = Requirement(line)
                if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
                    left.append(one)
    return found


def test_the_locks_name_all_that_is_needed():
    """Installed without looking at what packages need: what the lock forgets would be missing."""
    missing = needed([*pins("requirements.txt"), *pins("requirements-dev.txt")]) - {*APP, *TESTS, WITHOUT}
    cuda = {name for name in missing if name.startswith(("nvidia-", "cuda-")) or name == "triton"}
    assert missing <= cuda  # torch's own, where it is a build for CUDA


def test_here_runs_what_the_locks_name():
    for name, (versions, _) in {**APP, **TESTS}.items():
        try:
            found = version(name)
        except PackageNotFoundError:  # for another system
            continue
        assert found in versions, name


def test_the_commands_install_from_the_locks():
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) == 2
    for command in commands:
        assert "--no-deps --require-hashes -r requirements.lock" in command
        assert f"torch=={pins('requirements.txt')['torch']}" in command
        assert "requirements.txt" not in command
        assert "--upgrade-deps" in command, "Debian 12's pip (23.0) takes no settings of a build from a lock"
