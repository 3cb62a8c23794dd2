"""A target in a process of its own: the same rows, and an end of that process that ends nothing here."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import psutil
import pytest

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.remote import target_process
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.errors import ModelError
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.settings.config import ModelSettings
from tests.lent import named, needs_rpc, workers

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ModelSettings(threads=1, n_ctx=1024)


@pytest.fixture(scope="module")
def model(models):
    return models / "tiny-target-a-f16.gguf"


@pytest.fixture(scope="module")
def here(model):
    with LlamaTarget.open(model, SETTINGS) as target:
        yield target


@pytest.fixture(scope="module")
def apart(model):
    with TargetProcess(model, SETTINGS) as target:
        yield target


@pytest.fixture
def ids(here):
    return np.flatnonzero(here.vocabulary.ordinary)[:120].tolist()


def test_passes_of_one_class_have_the_same_bits_here_and_in_a_process(model, ids):
    with LlamaTarget.open(model, SETTINGS) as here, TargetProcess(model, SETTINGS) as apart:
        assert apart.widest == here.widest > 3
        rows = []
        for target, width in ((here, 1), (apart, 1), (apart, 4)):
            target.rewind(0)
            target.extend(ids[:24], 0)
            rows.append([target.extend(ids[at : at + width], width).copy() for at in range(24, 48, width)])
    np.testing.assert_array_equal(np.concatenate(rows[0]), np.concatenate(rows[1]))
    np.testing.assert_array_equal(np.concatenate(rows[0]), np.concatenate(rows[2]))


def test_the_process_may_be_killed_and_the_next_pass_starts_it_again(here, apart, ids):
    here.rewind(0)
    expected = here.extend(ids[:20], 3).copy()
    apart.rewind(0)
    apart.extend(ids[:20], 3)
    before = apart.pid
    os.kill(apart.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"ended .*next message loads the model again"):
        apart.extend(ids[20:21], 1)
    assert apart.tokens == []
    assert apart.pid is None
    apart.rewind(0)
    np.testing.assert_array_equal(apart.extend(ids[:20], 3), expected)
    assert apart.pid != before


def test_a_process_that_stands_still_is_given_up_after_the_stated_time(apart, ids, monkeypatch):
    apart.rewind(0)
    apart.extend(ids[:3], 1)
    monkeypatch.setattr(target_process, "STALLED", 1.0)
    process = psutil.Process(apart.pid)
    process.suspend()
    start = time.monotonic()
    with pytest.raises(ModelError, match="given up"):
        apart.extend(ids[3:4], 1)
    assert time.monotonic() - start >= 1.0
    assert not process.is_running()
    monkeypatch.undo()
    assert apart.extend(ids[:3], 1).shape[0] == 1


def test_an_interrupted_pass_that_does_not_end_is_left_behind(apart, ids):
    apart.rewind(0)
    apart.extend(ids[:8], 1)
    expected = apart.extend(ids[8:12], 1).copy()
    apart.rewind(8)
    process = psutil.Process(apart.pid)
    process.suspend()
    threading.Timer(0.3, apart.abort).start()
    with pytest.raises(Aborted):
        apart.extend(ids[8:12], 1)
    process.resume()
    assert apart.tokens in (ids[:8], ids[:12])
    apart.rewind(8)
    np.testing.assert_allclose(apart.extend(ids[8:12], 1), expected, atol=1e-5)


def test_it_ends_with_the_program_that_started_it(model):
    script = (
        "import sys, time\nfrom omnidraft.backends.remote.target_process import TargetProcess\n"
        "from omnidraft.settings.config import ModelSettings\n"
        f"target = TargetProcess({str(model)!r}, ModelSettings(threads=1, n_ctx=64))\n"
        "print(target.pid, flush=True)\ntime.sleep(600)"
    )
    app = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(app.stdout.readline()))
    app.kill()
    app.wait()
    app.stdout.close()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_how_far_loading_is_is_told_here_and_it_can_be_called_off(model):
    class Watching(Progress):
        heard: ClassVar[list[str]] = []

        def go_on(self) -> bool:
            self.heard.append(self.doing)
            return super().go_on()

    with watched(Watching(model)), TargetProcess(model, SETTINGS):
        assert f"reading {model.stem.removesuffix('-f16')}" in Watching.heard
    with watched(Progress(model, called_off=True)), pytest.raises(CalledOff):
        TargetProcess(model, SETTINGS)


@needs_rpc
def test_over_a_worker_passes_of_one_class_have_the_same_bits(model, ids):
    with workers(1) as running:
        settings = ModelSettings(threads=1, n_ctx=1024, workers=named(running), split="1,1")
        with TargetProcess(model, settings) as spread:
            assert spread.widest > 3
            rows = []
            for width in (1, 4):
                spread.rewind(0)
                spread.extend(ids[:24], 0)
                rows.append([spread.extend(ids[at : at + width], width).copy() for at in range(24, 88, width)])
    np.testing.assert_array_equal(np.concatenate(rows[0]), np.concatenate(rows[1]))


@needs_rpc
def test_a_worker_that_is_gone_is_named_and_missed_until_it_is_back(model, ids):
    with workers(2) as running:
        settings = ModelSettings(threads=1, n_ctx=256, workers=named(running), split="0,1,1")
        with TargetProcess(model, settings) as spread:
            expected = spread.extend(ids[:9], 1).copy()
            spread.rewind(8)
            running[1].stop()
            with pytest.raises(ModelError, match=f"{running[1].address} was lost"):
                spread.extend(ids[8:9], 1)
            assert spread.tokens == []
            with pytest.raises(ModelError, match=f"no worker at {running[1].address}"):
                spread.extend(ids[:9], 1)
            running[1] = type(running[1])(running[1].address.port)
            np.testing.assert_allclose(spread.extend(ids[:9], 1), expected, atol=2e-3)


@needs_rpc
def test_a_worker_that_stands_still_is_given_up(model, ids, monkeypatch):
    with workers(1) as running:
        settings = ModelSettings(threads=1, n_ctx=256, workers=named(running), split="1,1")
        with TargetProcess(model, settings) as spread:
            spread.extend(ids[:3], 1)
            monkeypatch.setattr(target_process, "STALLED", 1.0)
            running[0].inner.suspend()
            with pytest.raises(ModelError, match=r"did not answer for \d+ seconds and were given up"):
                spread.extend(ids[3:4], 1)
            with pytest.raises(ModelError, match="does not answer within"):
                spread.extend(ids[:4], 1)
            running[0].inner.resume()
            assert spread.extend(ids[:4], 1).shape[0] == 1
