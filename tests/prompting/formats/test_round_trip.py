"""What a template makes of an assistant's message is what its model writes; reading that gives the message back."""

import json
import re
from pathlib import Path

import pytest

from omnidraft.prompting.formats.probe import SILENT, THINKING
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.backends.hf_folders import add_tokens, write_tokenizer
from tests.prompting.every_template import MARKER, each_template, form, source
from tests.prompting.formats.round_trip import MESSAGES, TOOLS, written
from tests.prompting.reading import read

UNLIKE = {
    "LFM2.5-8B-A1B": ["code", "types"],  # text between quotes, and none of those within escaped
    # Thoughts are begun in words by the prompt, so that there always are some.
    "Apriel-1.6-15b-Thinker-fixed": [kind for kind, message in MESSAGES.items() if not message[0]],
}


@each_template
def test_what_a_template_writes_is_read_back(name: str):
    shown = 0
    for kind, message in MESSAGES.items():
        thoughts, content, calls = message
        for options in (THINKING, SILENT):
            found = written(name, message, options)
            if found is None or kind in UNLIKE.get(name, ()):
                continue
            begun, text = found
            shown += 1
            for size in (0, 1) if kind in ("types", "all") else (0,):
                got = read(form(name), text, TOOLS, begun, size=size)
                called = [(call.name, json.loads(call.arguments)) for call in got.calls]
                assert (got.reasoning, got.content.strip(), called) == (thoughts, content, calls), (kind, begun, text)
    if not shown:
        pytest.skip("the template shows no message as it was given")


@each_template
def test_markers_that_are_control_tokens_are_not_lost(name: str, tmp_path: Path):
    """What arrives are the texts of the tokens that count as text, and of those that the template names for its own."""
    found = written(name, MESSAGES["all"], THINKING) or written(name, MESSAGES["two"], THINKING)
    if found is None:
        pytest.skip("the template shows no message as it was given")
    begun, answer = found
    write_tokenizer(tmp_path, controls=())
    controls = tuple(sorted({marker for marker in MARKER.findall(source(name)) if "|" in marker or marker[0] == "["}))
    add_tokens(tmp_path, controls, special=True)
    template = ChatTemplate(source(name), read_tokenizer_json(tmp_path / "tokenizer.json"))
    named = {text.decode() for text in template.markers.values()}
    parts = re.split("|".join(f"({re.escape(control)})" for control in controls) or "(?!)", answer)
    arrived = "".join(part for part in parts if part and (part not in controls or part in named))
    got, whole = (read(form(name), text, TOOLS, begun) for text in (arrived, answer))
    assert (got.reasoning, got.calls) == (whole.reasoning, whole.calls)
    assert got.content.startswith(whole.content)  # some templates write the next turn's header behind it
