"""What CONTRIBUTING says of where things are is so: every package in its order, every file it names."""

import re

from tests.test_imports import FILES, ORDER, ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_packages_are_listed_in_the_order_of_imports():
    cells = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    names = [name.strip("/") for cell in cells for name in re.findall("`([^`]+)`", cell)]
    assert [name for name in names if "/" not in name] == ORDER
    folders = [name for name in names if "/" in name]
    assert folders
    assert all((ROOT / "omnidraft" / folder).is_dir() for folder in folders)


def test_every_file_it_names_is_there():
    named = re.findall(r"`([\w/]+\.py)`", TEXT)
    places = [f"/{path.relative_to(ROOT).as_posix()}" for path in (*FILES, *(ROOT / "tests").rglob("*.py"))]
    assert len(named) > 40
    assert [name for name in named if not any(place.endswith(f"/{name}") for place in places)] == []
