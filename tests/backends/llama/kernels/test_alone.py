"""The same products by other instructions, to the bit, and under sanitizers of addresses and undefined behaviour."""

import shutil
import subprocess
from pathlib import Path

import gguf
import numpy as np
import pytest

from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.kernels.check import FORMATS, chosen, quantized
from tests.backends.llama.kernels.test_products import multiplied, some

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-march=native", "-O1", "-g")
# Emulated programs and static ones have no addresses to sanitize; -O2 builds in half the time.
NEON = ("-static", "-march=armv8.2-a+dotprod", "-O2")


@pytest.fixture(scope="module", params=["neon", "sanitized"])
def program(request, tmp_path_factory) -> list[str]:
    """The command that runs alone.cpp."""
    compiler, flags, emulator = {
        "neon": ("aarch64-linux-gnu-g++", NEON, ["qemu-aarch64-static"]),
        "sanitized": ("g++", SANITIZED, []),
    }[request.param]
    for needed in (compiler, *emulator):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not there")
    made = tmp_path_factory.mktemp("alone") / "alone"
    folders = [f"-I{folder}" for folder in (Path(library.__file__).parent, library._HEADERS)]
    command = [compiler, "-std=c++17", "-ffp-contract=off", "-w", "-pthread", *flags, *folders]
    subprocess.run([*command, str(HERE / "alone.cpp"), "-o", str(made)], check=True)
    return [*emulator, str(made)]


@pytest.mark.parametrize("kind", FORMATS)
def test_products_are_those_of_this_machine_to_the_bit(program, kind):
    ours = library.registered()
    if ours is None:
        pytest.skip(library.why_not())
    columns = 100 if kind in ("F16", "BF16", "F32") else 512
    for matrices, rows, width in ((1, 35, 1), (1, 35, 3), (1, 16, 40), (3, 17, 9)):
        raw, weights = quantized(kind, some((matrices, rows, columns)))
        x = some((width, columns), 1)
        asked = [gguf.GGMLQuantizationType[kind].value, columns, rows, matrices, width, raw.shape[1]]
        given = raw.tobytes() + x.tobytes() + (chosen(width, matrices).tobytes() if matrices > 1 else b"")
        done = subprocess.run([*program, *map(str, asked)], input=given, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        expected = multiplied(ours, kind, raw, weights.shape, x)
        np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(expected.shape), expected)
