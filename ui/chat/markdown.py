"""What people and models wrote, as Markdown that holds no HTML: whatever looks like a tag is shown as it was written.

The chatbot's parser takes tags, comments and autolinks at every `<` outside code, and what is code only that parser
knows. So no `<` is sent at all: a character that stands in no text takes its place, and the page script puts the `<`
back where text stands, in code as elsewhere. Inside formulas it is sent as an entity, which the parser leaves alone.
"""

from __future__ import annotations

import re

LESS = "\ufdd0"  # a noncharacter: Unicode keeps it for use inside programs
_FORMULA = re.compile(r"\$\$[\s\S]{1,2000}?\$\$|\\\[[\s\S]{1,2000}?\\\]|\\\([\s\S]{1,2000}?\\\)")
# Code as far as it matters here: what is taken for code or not decides how a text looks, never what it may do.
CODE = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?P<fence>`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`{1,60})(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE,
)
_AUTOLINK = re.compile(r"<(https?://[^\s<>]+)>")
_DOLLARS = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n`]{1,400}?)(?<![\s\\])\$(?![\w$])")
_MATH = re.compile(r"[\\^_=+<>|]|^-?[\d.,]+%?$|^[A-Za-z][\w']{0,2}$|^[A-Za-z]\([^()]*\)$|^[\w ]+[-*/][\w ]+$")


# What the chatbot would draw as HTML of its own, and languages whose colours it cannot load: it shows nothing then.
_LANGUAGE = re.compile(r"(?P<fence>```|~~~)(?P<space>[ \t]*)(?P<name>mermaid|cpp|markup-templating)(?!\S)")
_SHOWN_AS = {"cpp": "c"}


def without_html(text: str) -> str:
    """`text` as Markdown without HTML and images, with `$...$` as the formulas they are."""
    whole = _FORMULA.sub(lambda found: found[0].replace("<", "&lt;"), _outside_code(text, _plain))
    named = _LANGUAGE.sub(lambda found: found["fence"] + found["space"] + _SHOWN_AS.get(found["name"], "text"), whole)
    return named.replace("<", LESS)


def _plain(text: str) -> str:
    """A part that is no code: an image is what its address says, not what is found there."""
    return _DOLLARS.sub(_formula, _AUTOLINK.sub(r"\1", text).replace("![", "!\\["))


def _formula(found: re.Match[str]) -> str:
    """A formula, unless it is more likely two prices."""
    return rf"\({found[1]}\)" if _MATH.search(found[1]) else found[0]


def _outside_code(text: str, change) -> str:
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


# What would be Markdown in a person's words, as characters that are none: entities, which the parser shows as they are.
_FENCED = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^(?P=fence)[`~]*[ \t]*(?:\n|\Z)|\Z)", re.MULTILINE)
_MARKUP = re.compile(
    r"[\\`*_\[\]~$|&!@\n]|(?<=[a-z]):(?=//)|(?<=\bwww)\.|^[ \t]*(?:[#>=+-]|\d+[.)])|^[ \t]+", re.MULTILINE
)


def as_typed(text: str) -> str:
    """What a person typed as Markdown that looks the same; blocks of code stay blocks."""
    parts, end = [], 0
    for fence in _FENCED.finditer(text):
        parts += [_typed(text[end : fence.start()].removesuffix("\n")), fence[0].rstrip("\n")]
        end = fence.end()
    return "\n\n".join(part for part in [*parts, _typed(text[end:])] if part)


def _typed(text: str) -> str:
    return _MARKUP.sub(lambda found: "".join(f"&#{ord(letter)};" for letter in found[0]), text)
