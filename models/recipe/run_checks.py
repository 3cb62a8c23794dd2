"""Runs a function that a model wrote against checks, in a process of its own with limits on time and memory.

Knows text only. The process is no sandbox: it is for models that this recipe trains.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence

SECONDS = 10  # on the clock, the interpreter's start included; of processor time at most half
MEMORY = 512 << 20

_CHILD = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS // 2}, {SECONDS // 2}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
code, name, checks = json.load(sys.stdin)
space = {{}}
exec(code, space)
sys.exit(0 if all(eval(check, {{"f": space[name]}}) is True for check in checks) else 1)
"""


def code_in(answer: str) -> str:
    """What stands between the first pair of fences, or the whole answer if there is none."""
    fenced = re.search(r"```[a-z]*\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    return fenced.group(1) if fenced else answer


def passes_checks(answer: str, name: str, checks: Sequence[str]) -> bool:
    """Whether the answer holds a function of that name for which every check is True."""
    given = json.dumps([code_in(answer), name, list(checks)])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD],
            input=given,
            text=True,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
