"""What CONTRIBUTING says of where things are is so: every package in its order, every file and every name it gives."""

import re

from tests.test_imports import ORDER, ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FOLDERS = (".ci", "docs", "models", "omnidraft", "tests", "ui")
PATHS = [ROOT / "app.py", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
SOURCES = {  # by path; of what is no program only that
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") if path.suffix in (".cpp", ".h", ".py") else ""
    for path in PATHS
    if path.suffix != ".pyc"
}


def test_packages_are_listed_in_the_order_of_imports():
    cells = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    names = [name.strip("/") for cell in cells for name in re.findall("`([^`]+)`", cell)]
    assert [name for name in names if "/" not in name] == ORDER
    folders = [name for name in names if "/" in name]
    assert folders
    assert all((ROOT / "omnidraft" / folder).is_dir() for folder in folders)


def having(file: str) -> list[str]:
    """The texts of the files that are named so."""
    return [text for path, text in SOURCES.items() if f"/{path}".endswith(f"/{file}")]


def test_every_file_it_names_is_there():
    named = re.findall(r"`([\w/]+\.(?:cpp|h|md|py))`", TEXT)
    assert len(named) > 40
    assert [name for name in named if not having(name)] == []


def test_every_name_it_gives_is_there():
    known = set(re.findall(r"\w+", " ".join([*SOURCES, *SOURCES.values()])))
    given = {word for quoted in re.findall(r"`([\w./:]+)`", TEXT) for word in re.findall(r"\w+", quoted)}
    assert len(given) > 100
    assert given - known == set()


def test_what_it_finds_in_a_file_is_defined_there():
    pairs = re.findall(r"`([\w/]+\.(?:cpp|h|py))` \(`(\w+)`", TEXT)
    assert len(pairs) > 10
    defined = r"^ *(?:(?:def|class|struct|void) {0}\b|{0} = )"
    assert [pair for pair in pairs if not re.search(defined.format(pair[1]), "".join(having(pair[0])), re.M)] == []
