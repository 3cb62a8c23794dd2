"""The fault table of SECURITY.md names tests that are there, and the nightly run has a step for each."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.partition("## Faults")[2].partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
NAMED = sorted({tuple(name) for row in ROWS for name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)})


def test_every_fault_has_a_test():
    assert len(ROWS) > 15
    assert [row for row in ROWS if "::" not in row.split("|")[3]] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_it_is_there(file, name):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_nightly_run_reaches_all_of_them():
    """It runs all tests, and of the long ones those of the folders that it leaves out there by themselves."""
    nightly = (ROOT / ".ci/nightly").read_text(encoding="utf-8")
    assert re.search(r"pytest -n 2 --dist loadfile\b", nightly)
    long = next(line for line in nightly.splitlines() if line.startswith('step "long tests"'))
    for left_out in re.findall(r"--ignore (\S+)", long):
        assert re.search(rf"-m slow .*{re.escape(left_out)}$", nightly.replace(long, ""), re.MULTILINE), left_out
