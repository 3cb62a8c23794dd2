"""Commands run in this process, on a data home of the test's own."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from omnidraft.__main__ import main
from omnidraft.storage.paths import DataHome

Said = tuple[int, str, str]  # exit code, stdout, stderr


@pytest.fixture
def cli(home, capsys, monkeypatch) -> Callable[..., Said]:
    """Runs a command, with `typed` on its input."""

    def run(*args: object, typed: str = "", home: DataHome = home) -> Said:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        try:
            code = main([*map(str, args), "--data-dir", str(home.root)])
        except SystemExit as left:  # argparse's own
            code = left.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def chat(cli) -> Callable[..., Said]:
    """One-shot on tiny-target-a at T = 0, unless the arguments say otherwise."""

    def run(*args: object, target: object = "tiny-target-a", **more: str) -> Said:
        return cli("chat", "--target", target, "--threads", 1, "--temperature", 0, "--max-tokens", 16, *args, **more)

    return run
