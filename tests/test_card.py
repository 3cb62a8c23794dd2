"""What measures a graphics card runs where none is, too: every table, from the bundled models where no others are."""

import json
import os
import subprocess
import sys

from tests.test_imports import ROOT


def test_every_table_is_measured(tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable, "OMNIDRAFT_MODELS": str(tmp_path)}
    done = subprocess.run([ROOT / ".ci/card", "--small"], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(row["C(1)"] > 0 for row in found["costs"])
    assert {row["drafter"] for row in found["steps"]} >= {"smol-drafter-q5_0"}
    assert {row["way"] for row in found["speed"]} == {"plain", "adaptive", "fixed:4"}
    assert all(row["differ"] == 0 and row["tokens_per_second"] > 0 for row in found["speed"])
    assert all(row["least"] == 1 < row["widest"] for row in found["bits"])
    assert len(found["layers"]) == 3
