"""Compiles chat templates, which come with model files and are not trusted.

jinja2's immutable sandbox keeps a template from Python's internals; here it also loses the globals no chat template
needs. The few helpers that templates in circulation expect are the ones Hugging Face's library offers. Knows nothing
of models or messages.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; for prompts its body is all that counts."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's protocol)

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PlainNamespace(Namespace):
    """`namespace(...)` without underscore names: those reach into the object that carries the values."""

    def __init__(*args: Any, **values: Any) -> None:
        self, *mappings = args
        values = dict(*mappings, **values)
        for name in values:
            _refuse_private(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"chat templates may not store the attribute {name}")


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    # jinja2's own filter escapes HTML characters, which would change what the model reads.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def compile_template(source: str) -> jinja2.Template:
    """The template, ready to render; jinja2.TemplateError if it is not valid."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals = {
        "range": environment.globals["range"],  # the sandbox's, which bounds the length
        "dict": lambda *mappings, **values: dict(*mappings, **values),
        "namespace": _PlainNamespace,
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    return environment.from_string(source)
