"""Who imports whom: arrows point down the list of packages, and heavy libraries come only where they are needed."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "omnidraft"
STORAGE = ("sqlite3", "sqlcipher3", "sqlitedict")
PAGES = ("gradio", "fastapi", "uvicorn")
TRAINING = ("torch", "transformers", "peft")


@cache
def loaded_by(statement: str, *, whole: bool = False) -> set[str]:
    """Top-level modules in a fresh process behind `statement`; `whole`: the full names of ours."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    own = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it brings sqlite3
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=own, capture_output=True, text=True, timeout=99)
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
    "import omnidraft.cli.chat, omnidraft.cli.models", modules("vocab"), "import app", "import ui.server",
])  # fmt: skip
def test_the_app_loads_no_training_library(statement):
    assert not loaded_by(statement) & set(TRAINING)


def test_nothing_waits_for_mcp_before_a_server_is_named():
    assert not loaded_by("import ui.server") & {"mcp", "mcp_types"}
    assert importing("mcp") == {"omnidraft/app/tools/running_server.py"}


@cache
def imported(path: Path, *, typing: bool = True) -> set[str]:
    """Absolute names of what a file imports, anywhere in it; without `typing`: but for annotations."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if not typing and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and not child.level:
                found.update({child.module or "", *(f"{child.module}.{alias.name}" for alias in child.names)})
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


ORDER = [
    "errors", "format", "plot", "processes", "storage", "settings", "vocab", "backends", "prompting", "decoding",
    "engine", "chats", "learning", "profiles", "lab", "app", "server", "bench", "cli", "__main__",
]  # fmt: skip
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "ui").rglob("*.py"), ROOT / "app.py"])
NAMES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in FILES}


def test_arrows_point_down():
    upward = set()
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "omnidraft" or len(parts) < 2:
                assert parts[0] not in ("ui", "app", "tests", "models"), f"{path} imports {name}"
            elif own in ORDER and parts[1] in ORDER and ORDER.index(parts[1]) > ORDER.index(own):
                upward.add((str(path.relative_to(ROOT)), parts[1]))
    assert not upward - {("omnidraft/__main__.py", "cli")}


def test_every_part_has_its_place_in_the_order():
    parts = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}
    assert parts == set(ORDER)


def test_no_modules_import_each_other():
    """What a function imports when it is called, for its cost, counts too; only annotations may look back."""
    waiting = {name: _needs(name, path) for name, path in NAMES.items()}
    while free := {name for name, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {name: needs for name, needs in waiting.items() if name not in free}
    assert not waiting


def _needs(name: str, path: Path) -> set[str]:
    """Modules of ours that this one needs; the package around a module that is named does not count."""
    needed = imported(path, typing=False) & NAMES.keys() - {name}
    return needed - {one.rpartition(".")[0] for one in needed}


def importing(library: str) -> set[str]:
    """Files of the app that import a library anywhere in them."""
    here = {path for path in FILES if library in {name.partition(".")[0] for name in imported(path)}}
    return {str(path.relative_to(ROOT)) for path in here}


@pytest.mark.parametrize("library", TRAINING)
def test_training_libraries_are_used_in_two_places(library):
    places = ("omnidraft/learning/training/", "omnidraft/backends/hf/")
    assert not {path for path in importing(library) if not path.startswith(places)}


def test_arguments_are_read_by_the_commands_alone():
    elsewhere = {path for path in importing("argparse") if not path.startswith("omnidraft/cli/")}
    assert elsewhere <= {"app.py", "omnidraft/__main__.py"}


# Where a requirement is imported under another name.
MODULES = {
    "charset-normalizer": "charset_normalizer", "llama-cpp-python": "llama_cpp", "python-docx": "docx", "pillow": "PIL",
}  # fmt: skip


def test_every_requirement_is_imported_somewhere():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = {line.split("==")[0] for line in lines if line and not line.startswith("#")}
    files = [*FILES, *(ROOT / "models").rglob("*.py")]
    used = {name.partition(".")[0] for path in files for name in imported(path)}
    assert not {name for name in wanted if MODULES.get(name, name) not in used}
