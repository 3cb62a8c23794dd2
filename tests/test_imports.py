"""Who imports whom: arrows point down the list of packages, and heavy libraries come only where they are needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "omnidraft"
STORAGE = ("sqlite3", "sqlitedict")
PAGES = ("gradio", "fastapi", "uvicorn")
TRAINING = ("torch", "transformers", "peft")


def loaded_by(statement: str, *, whole: bool = False) -> set[str]:
    """Top-level modules in a fresh process behind `statement`; `whole`: the full names of ours."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    if whole:
        return {name for name in names if name.partition(".")[0] == "omnidraft"}
    return {name.partition(".")[0] for name in names}


def modules(folder: str) -> str:
    """`import` statements for all modules of a package."""
    paths = sorted((PACKAGE / folder).glob("*.py")) if (PACKAGE / folder).is_dir() else [PACKAGE / f"{folder}.py"]
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in paths]
    return "import " + ", ".join(names)


def test_decoding_knows_neither_pages_nor_files_nor_training():
    assert not loaded_by(modules("decoding")) & {*STORAGE, *PAGES, *TRAINING}


def test_neither_does_the_engine():
    """llama-cpp-python loads sqlite3 for a disk cache of its own; nothing of ours that the engine needs does."""
    assert not loaded_by(modules("engine")) & {"sqlitedict", *PAGES, *TRAINING}
    ours = loaded_by("import omnidraft.engine", whole=True)
    assert "omnidraft.vocab.ngram_cache" in ours
    for name in ours:
        path = ROOT / Path(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert not imported(path) & {*STORAGE, *PAGES, *TRAINING}, name


@pytest.mark.parametrize("statement", [
    "import omnidraft.app.assistant", "import omnidraft.cli.chat, omnidraft.cli.models, omnidraft.cli.vocab",
    modules("vocab"), "import app",
    "import ui.server",
])  # fmt: skip
def test_the_app_loads_no_training_library(statement):
    assert not loaded_by(statement) & set(TRAINING)


def test_the_command_line_loads_no_pages():
    assert not loaded_by("import omnidraft.cli.chat, omnidraft.cli.models, omnidraft.cli.vocab") & set(PAGES)


def imported(path: Path) -> set[str]:
    """Absolute names of what a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


LAYERS = [
    ["errors", "addresses", "files", "fields", "paths", "config", "settings_file", "database", "dict_table", "format"],
    ["vocab"],
    ["backends"],
    ["decoding"],
    ["engine"],
    ["chats", "profiles", "learning"],
    ["lab"],
    ["app"],
    ["bench"],
    ["cli", "__main__"],
]


def layer(name: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if name in names), None)


def test_arrows_point_down():
    upward = set()
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "omnidraft" or len(parts) < 2:
                assert parts[0] not in ("ui", "app", "tests", "models"), f"{path} imports {name}"
                continue
            here, there = layer(own), layer(parts[1])
            if own in ("cli", "__main__") or here is None or there is None:
                continue
            if there > here:
                upward.add((str(path.relative_to(ROOT)), parts[1]))
    assert not upward


def test_every_part_has_its_place_in_the_order():
    parts = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}
    assert parts <= {name for names in LAYERS for name in names}
