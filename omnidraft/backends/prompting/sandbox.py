"""Compiles chat templates, which come with model files and are not trusted.

jinja2's immutable sandbox keeps a template from Python's internals; here it also loses the globals and filters no chat
template needs, and all it does is paid for out of a budget, so that no template takes the program's time or memory.
The few helpers that templates in circulation expect are the ones Hugging Face's library offers. Knows nothing of
models or messages.

jinja2 and not minijinja with its fuel: six of seventy published templates render otherwise there, and comparing or
writing out lists that hold each other many times takes no fuel, so it does not end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import BuiltinMethodType
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from omnidraft.backends.prompting.template_limits import (
    TemplateLimit,
    begin,
    check_binary,
    check_method,
    current,
    filters,
    tests,
)

MAX_SOURCE = 1 << 17  # characters; those in circulation have up to 30,000
# Filters of our own; no template can write names with a space.
_MADE, _SEEN, _CONCAT = "made ", "seen ", "concat "
_WIDTH_IN_TIME = re.compile(r"%[-_0^#]*\d")


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

    def __repr__(self) -> str:
        return "namespace"  # its values may hold it, or each other many times over


def _refuse_private(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"chat templates may not store the attribute {name}")


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    if len(form) > 1000 or _WIDTH_IN_TIME.search(form):
        raise TemplateLimit
    return datetime.now().strftime(form)


class _Counting(NodeTransformer):
    """Puts payment where jinja2 has no place for it: turns of loops, literals, slices, comparisons, `~`."""

    def _body(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_filtered(nodes.Const(0), _SEEN)))
        return node

    visit_Macro = visit_CallBlock = _body

    def visit_For(self, node: nodes.For) -> Any:
        node = self._body(node)
        if node.test is not None:  # turns that the test leaves out count as well
            node.iter = _filtered(node.iter, _MADE)
        return node

    def _literal(self, node: Any) -> Any:
        self.generic_visit(node)
        plain = getattr(node, "ctx", "load") != "load" or not any(
            not isinstance(part, (nodes.Const, nodes.Pair)) for part in node.find_all(nodes.Expr)
        )
        return node if plain else _filtered(node, _MADE)

    visit_List = visit_Tuple = visit_Dict = _literal

    def visit_Getitem(self, node: nodes.Getitem) -> Any:
        self.generic_visit(node)
        return _filtered(node, _MADE) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: Any) -> Any:
        self.generic_visit(node)
        for part in (node, *node.ops):
            if not isinstance(part.expr, nodes.Const):
                part.expr = _filtered(part.expr, _SEEN)
        return node

    def visit_Concat(self, node: nodes.Concat) -> Any:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes), _CONCAT)


def _filtered(node: Any, name: str) -> nodes.Expr:
    return nodes.Filter(node, name, [], [], None, None)


def _concat(parts: Iterable[Any]) -> str:
    """Texts in a row, which must be small enough together; also the whole of a template and of its macros."""
    budget, texts = current(), []
    for part in parts:
        budget.weigh(part)
        text = str(part)
        budget.pay(len(text))
        texts.append(text)
    budget.pay(sum(map(len, texts)))
    return "".join(texts)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(_concat)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = _Counting().visit(super()._parse(source, name, filename))
        return template.set_environment(self)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Lists may grow and shrink, as some templates collect with; nothing else of Python's may be changed."""
        return (isinstance(obj, list) and attr in ("append", "pop")) or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        check_binary(operator, left, right)
        return current().made(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **options: Any) -> Any:
        budget = current()
        budget.step()
        method = getattr(__obj, "__wrapped__", __obj)  # as jinja2 wraps str.format
        if isinstance(method, BuiltinMethodType) and method.__self__ is not None:
            check_method(method.__self__, method.__name__, args, options)
        return budget.made(super().call(__context, __obj, *args, **options))


@jinja2.pass_context
def _shown(_context: Any, value: Any) -> Any:
    """Weighed before it is written. The context is not needed, but keeps jinja2 from calling this while compiling."""
    current().weigh(value)
    return value


@contextmanager
def _foreign(too_deep: jinja2.TemplateError) -> Iterator[None]:
    """Whatever a template, or jinja2 and Python's compiler over its text, do wrong is a jinja2.TemplateError."""
    try:
        yield
    except jinja2.TemplateError:
        raise
    except (RecursionError, MemoryError):
        raise too_deep from None
    except Exception as error:
        raise jinja2.TemplateError(f"{type(error).__name__}: {str(error)[:200]}") from None


class SafeTemplate:
    """A compiled template. Renderings that ask for too much end in TemplateLimit, a jinja2.TemplateError."""

    def __init__(self, template: jinja2.Template) -> None:
        self._template = template

    def render(self, variables: dict[str, Any]) -> str:
        """jinja2.TemplateError whatever the template does wrong."""
        with _foreign(TemplateLimit()):
            begin(variables)
            # A lone surrogate has no UTF-8 form.
            return self._template.render(variables).encode("utf-8", "replace").decode()


def compile_template(source: str) -> SafeTemplate:
    """The template, ready to render; jinja2.TemplateError if it is not valid."""
    if len(source) > MAX_SOURCE:
        raise jinja2.TemplateError(f"it is longer than {MAX_SOURCE:,} characters")
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"], finalize=_shown,
        optimized=False,  # nothing is computed while compiling
    )  # fmt: skip
    own = {_MADE: lambda value: current().made(value), _SEEN: lambda value: current().see(value), _CONCAT: _concat}
    environment.filters, environment.tests = {**filters(), **own}, tests()
    environment.globals = {
        "range": environment.globals["range"],  # the sandbox's, which bounds the length
        "dict": lambda *mappings, **values: dict(*mappings, **values),
        "namespace": _PlainNamespace,
        "raise_exception": _refuse,
        "strftime_now": _now,
    }
    with _foreign(jinja2.TemplateError("it is nested too deeply")):
        return SafeTemplate(environment.from_string(source))


_ALWAYS = {
    "messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "unk_token", "pad_token", "documents",
    "functions", "datetime", "raise_exception", "strftime_now", "namespace", "range", "dict",
}  # fmt: skip


def template_options(source: str) -> frozenset[str]:
    """Names that a template asks for and that are not given to every one: `enable_thinking`, `reasoning_effort`."""
    environment = jinja2.Environment(extensions=[_Generation, "jinja2.ext.loopcontrols"], autoescape=False)
    try:
        return frozenset(meta.find_undeclared_variables(environment.parse(source))) - _ALWAYS
    except (jinja2.TemplateError, RecursionError):
        return frozenset()
