"""Each system's way with processes: the real one here, and the branch of the other by what it asks of psutil."""

import subprocess
import sys

import psutil
import pytest

from omnidraft.processes import system
from tests.until import until

HERE = sys.platform
SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
PARENT = [
    sys.executable, "-c",
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print(p.pid, flush=True); p.wait()",
]  # fmt: skip


@pytest.fixture(params=["this system", "win32"])
def branch(request, monkeypatch):
    """What psutil does is the same everywhere, so Windows' branch runs here too, but for its options of Popen."""
    if request.param == "win32" and HERE != "win32":
        monkeypatch.setattr(system, "SYSTEM", "win32")
        monkeypatch.setattr(system, "own_group", lambda: {"process_group": 0})
    return request.param


def test_a_process_is_suspended_and_goes_on(branch):
    child = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, **system.own_group())
    try:
        assert child.stdout.readline()
        system.suspend(child.pid)
        until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
        system.resume(child.pid)
        until(lambda: psutil.Process(child.pid).status() != psutil.STATUS_STOPPED)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_child_ends_with_all_it_started(branch):
    child = subprocess.Popen(PARENT, stdout=subprocess.PIPE, **system.own_group())
    grandchild = int(child.stdout.readline())
    system.end_group(child)
    child.wait()
    child.stdout.close()
    until(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == "zombie")


def test_nothing_happens_to_a_process_that_is_gone(branch):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    system.suspend(child.pid)
    system.resume(child.pid)
    system.end_group(child)


@pytest.mark.skipif(HERE == "win32", reason="the numbers are compared with other systems' lack of them")
def test_windows_is_asked_for_no_window_and_never_for_signals(monkeypatch):
    monkeypatch.setattr(system, "SYSTEM", "win32")
    assert system.own_group() == {"creationflags": 0x08000000}
    monkeypatch.setattr(system.os, "kill", lambda *_: pytest.fail("a signal"))
    monkeypatch.setattr(system.os, "killpg", lambda *_: pytest.fail("a signal"))
    system.limit_processor(0)  # would end this process where limits are known
    system.limit_memory(0)


@pytest.mark.skipif(HERE == "win32", reason="has no such limits")
def test_limits_hold_in_a_child():
    ask = """if True:
        from resource import RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, getrlimit
        from omnidraft.processes import system
        system.leave_no_core()
        system.limit_processor(7)
        system.limit_memory(1 << 40)
        print(getrlimit(RLIMIT_CORE)[0], getrlimit(RLIMIT_CPU)[0] > 7, getrlimit(RLIMIT_DATA)[0] == 1 << 40)
    """
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True", str(HERE == "linux")]
