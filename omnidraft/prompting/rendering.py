"""Renders chat templates in a process of their own: they come with model files and are not trusted.

jinja2's immutable sandbox keeps a template from Python's internals. Of time and memory it may take what that process
has: one that a template has brought to its limits ends, and the next template starts another. The few helpers that
templates in circulation expect are the ones Hugging Face's library offers. Knows nothing of models or messages.

jinja2 and not minijinja with its fuel: six of seventy published templates render otherwise there, and comparing or
writing out lists that hold each other many times takes no fuel, so it does not end.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
import psutil
from jinja2 import meta
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from omnidraft.errors import ModelError
from omnidraft.processes import system
from omnidraft.processes.children import LineChild

MAX_SOURCE = 1 << 17  # characters; those in circulation have up to 30,000
MAX_SECONDS = 3.0  # of the processor's time, for one rendering
_MEMORY = 1 << 30  # bytes
_LONGEST = 1 << 24  # characters that it may write, and some times what it was given
_MESSAGE = 500  # characters of what it says is wrong
_GLANCE = 50  # milliseconds between looks at the process while it renders


class TemplateLimit(jinja2.TemplateError):
    """The template asks for more time or memory than a prompt can need."""

    def __init__(self) -> None:
        super().__init__("it takes more time or memory than a prompt can need")


class TemplateProcess:
    """Started when it is first needed; one rendering at a time. seconds: of the processor, that renderings took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.begin()

    def begin(self) -> None:
        """With a process of its own, as a copy of this program must."""
        self._lock = threading.Lock()
        self._child: LineChild | None = None

    def render(self, source: str, variables: Mapping[str, Any] | None) -> str:
        """What the template of this text writes; "" without variables, when it is only compiled.

        jinja2.TemplateError whatever it does wrong, TemplateLimit if it asks for too much.
        """
        if len(source) > MAX_SOURCE:
            raise jinja2.TemplateError(f"it is longer than {MAX_SOURCE:,} characters")
        try:
            request = json.dumps([source, variables]) + "\n"
        except RecursionError:
            raise TemplateLimit from None
        with self._lock:
            answer = self._answer(request)
            self.seconds += MAX_SECONDS if answer is None else answer["seconds"]
        if answer is None or answer["limit"]:
            raise TemplateLimit
        if answer["refused"] is not None:
            raise jinja2.TemplateError(answer["refused"])
        return answer["text"]

    def _answer(self, request: str) -> dict[str, Any] | None:
        """None if the process ended over it."""
        try:
            if self._child is None or not self._child.running:
                self._child = LineChild("omnidraft.prompting.rendering", keeps_errors=False)
            self._child.say(request)
            _watch(self._child)
            return json.loads(next(self._child.lines()))
        except (StopIteration, json.JSONDecodeError):  # in the middle of a line, if somebody else ended it
            self.end()
            return None
        except OSError as error:
            raise ModelError(f"Chat templates cannot be rendered: {error.strerror or error}.") from None
        except BaseException:  # an answer that nobody has read would be taken for the next one
            self.end()
            raise

    def end(self) -> None:
        """End the process, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.ended()


def _watch(child: LineChild) -> None:
    """Until it answers or has ended, as it does at its own limits; of memory some systems know none."""
    if child.process.stdout is None or system.SYSTEM == "win32":
        return
    heard = select.poll()  # not `select`, which knows the first 1024 open files only
    heard.register(child.process.stdout, select.POLLIN)
    with suppress(psutil.Error):
        while not heard.poll(_GLANCE):
            if psutil.Process(child.pid).memory_info().rss > _MEMORY:
                child.kill()


RENDERING = TemplateProcess()
atexit.register(RENDERING.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RENDERING.begin)


# What runs in that process: a line of JSON in, [source, variables], and one out.


class Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; for prompts its body is all that counts."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's protocol)

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


_EXTENSIONS = (Generation, "jinja2.ext.loopcontrols")


class _Environment(ImmutableSandboxedEnvironment):
    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Lists may grow and shrink, as some templates collect with; nothing else of Python's may be changed."""
        return (isinstance(obj, list) and attr in ("append", "pop")) or super().is_safe_attribute(obj, attr, value)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """jinja2's own filter escapes HTML characters, which would change what the model reads."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(32)
def _compiled(source: str) -> jinja2.Template:
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=_EXTENSIONS)
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    for chance in (environment.filters, "random"), (environment.globals, "lipsum"):
        del chance[0][chance[1]]
    return environment.from_string(source)


def _rendered(source: str, variables: dict[str, Any] | None, longest: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"text": "", "refused": None, "limit": False}
    try:
        template = _compiled(source)
        if variables is not None:
            text = template.render(variables).encode("utf-8", "replace").decode()  # a lone surrogate has no UTF-8 form
            answer |= {"limit": True} if len(text) > longest else {"text": text}
    except jinja2.TemplateError as error:
        answer["refused"] = _shown(error)
    except (RecursionError, MemoryError):
        answer["limit"] = True
    except Exception as error:  # whatever a template, or jinja2 and Python's compiler over its text, do wrong
        answer["refused"] = f"{type(error).__name__}: {_shown(error)}"
    return answer


def _shown(error: Exception) -> str:
    """A template may raise whatever it likes."""
    return str(error)[:_MESSAGE].encode("utf-8", "replace").decode()


def _limit_processor(seconds: float) -> None:
    """The system ends this process when it has computed that much longer; 0: it goes on. Where a clock is all there
    is, that does."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def main() -> None:
    system.leave_no_core()
    system.limit_memory(_MEMORY)
    for line in sys.stdin:
        begun = time.process_time()
        _limit_processor(MAX_SECONDS)
        source, variables = json.loads(line)
        answer = _rendered(source, variables, _LONGEST + 8 * len(line))
        _limit_processor(0)
        print(json.dumps({**answer, "seconds": time.process_time() - begun}), flush=True)


_ALWAYS = {
    "messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "unk_token", "pad_token", "documents",
    "functions", "datetime", "raise_exception", "strftime_now", "namespace", "range", "dict",
}  # fmt: skip


def template_options(source: str) -> frozenset[str]:
    """Names that a template asks for and that are not given to every one: `enable_thinking`, `reasoning_effort`."""
    environment = jinja2.Environment(extensions=_EXTENSIONS, autoescape=False)
    try:
        return frozenset(meta.find_undeclared_variables(environment.parse(source))) - _ALWAYS
    except (jinja2.TemplateError, RecursionError):
        return frozenset()


if __name__ == "__main__":
    main()
