"""Builds llama.cpp's server from the source archive of the installed llama-cpp-python, so that both compute alike.

Needs cmake and a C++ compiler, and takes ten minutes of processor time. Only `bench peers --build-server` comes here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from omnidraft.errors import ModelError, StorageError
from omnidraft.storage.paths import DataHome

OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "OFF",
    "LLAMA_BUILD_SERVER": "ON",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
}
_TOLD = 20  # lines of a failed command's output


def server_path(home: DataHome) -> Path:
    """Where the built program belongs, whether it is there or not."""
    return home.cache / "peers" / f"llama-server-{version('llama_cpp_python')}"


def build_server(home: DataHome, archive: Path | None, jobs: int, told: Callable[[str], None]) -> Path:
    """Build it if it is missing. archive: the source archive; None downloads it as pip does."""
    program = server_path(home)
    if program.is_file():
        return program
    if shutil.which("cmake") is None:
        raise ModelError("Building llama.cpp's server takes cmake and a C++ compiler; install them first.")
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as name:
        folder = Path(name)
        source = _unpacked(archive or _downloaded(folder, told), folder)
        told("building llama.cpp's server; this takes about ten minutes of processor time")
        options = [f"-D{option}={value}" for option, value in OPTIONS.items()]
        _call(["cmake", "-S", str(source), "-B", str(folder / "build"), *options])
        _call(["cmake", "--build", str(folder / "build"), "--target", "llama-server", "-j", str(jobs)])
        _keep(folder / "build" / "bin" / "llama-server", program)
    return program


def _downloaded(folder: Path, told: Callable[[str], None]) -> Path:
    wanted = f"llama-cpp-python=={version('llama_cpp_python')}"
    told(f"downloading the source archive of {wanted}")
    _call([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", wanted, "-d", str(folder)])
    found = sorted(folder.glob("*.tar.gz"))
    if not found:
        raise ModelError(f"pip found no source archive of {wanted}; name one with --source.")
    return found[0]


def _unpacked(archive: Path, folder: Path) -> Path:
    try:
        with tarfile.open(archive) as file:
            file.extractall(folder / "source", filter="data")
    except (OSError, tarfile.TarError) as error:
        raise StorageError(f"{archive} cannot be unpacked: {error}.") from error
    found = sorted((folder / "source").glob("*/vendor/llama.cpp"))
    if not found or not (found[0] / "tools" / "server").is_dir():
        raise ModelError(f"{archive} holds no source of llama.cpp's server.")
    return found[0]


def _keep(built: Path, program: Path) -> None:
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        temporary = program.with_name(f".{program.name}")
        shutil.copy2(built, temporary)
        temporary.replace(program)
    except OSError as error:
        raise StorageError(f"{program} cannot be written: {error}.") from error


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-_TOLD:])
        raise ModelError(f"{' '.join(command[:3])} failed:\n{last}")
