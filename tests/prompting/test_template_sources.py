"""Where a model's chat template comes from: its file, a variant for tools, a folder, or a file its owner named."""

import json
from pathlib import Path

import pytest

from omnidraft.app.loaded_pair import LoadRequest
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.hf.folder import read_template
from omnidraft.errors import ModelError, SettingsError
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import AppSettings, CacheSettings, ModelSettings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.prompting.following import text
from tests.prompting.tool_templates import HERMES, copy_with_template

PLAIN = "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}"
ASK = [{"role": "user", "content": "How warm?"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def asked_of(templates: tuple[str, ...]) -> LoadRequest:
    return LoadRequest(Path("t"), None, ModelSettings(), CacheSettings(), templates=templates)


@pytest.fixture(scope="module")
def with_variant(models: Path, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("variants") / "two.gguf"
    copy_with_template(models / "tiny-target-b-f16.gguf", file, PLAIN, HERMES)
    return file


def test_the_variant_for_tools_is_used_where_there_are_tools(with_variant):
    template = ChatTemplate.from_model(read_info(with_variant), read_gguf_vocabulary(with_variant))
    assert text(template, ASK) == "[user]How warm?"
    assert template.supports_tools
    assert '"name": "weather"' in text(template, [{**ASK[0], "tools": [TOOL]}])
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    later = [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "abcdefgh1", "content": "21"}]  # fmt: skip
    assert "<tool_call>" in text(template, later), "also behind calls, when none are offered any more"
    assert template.form.learned, "and answers are read by it"


def test_a_variant_that_cannot_be_used_leaves_the_ordinary_one(models):
    vocabulary = read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")
    template = ChatTemplate(PLAIN, vocabulary, "It", "{% for m in messages %}")
    assert text(template, [{**ASK[0], "tools": [TOOL]}]) == "[user]How warm?"
    assert template.note is None


@pytest.mark.parametrize("listed", [True, False])
def test_a_folder_has_its_variants_in_a_list_or_in_files(tmp_path, listed):
    if listed:
        names = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": names}))
    else:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "a"}))
        (tmp_path / "additional_chat_templates").mkdir()
        (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("b")
    assert (read_template(tmp_path), read_template(tmp_path, "tool_use")) == ("a", "b")
    assert read_template(tmp_path, "rag") is None


def test_an_owner_names_another_template_for_a_model(with_variant, tmp_path):
    mine = tmp_path / "mine.jinja"
    mine.write_text("<{{ messages[0].content }}>")
    info, vocabulary = read_info(with_variant), read_gguf_vocabulary(with_variant)
    assert text(asked_of((f"two.gguf = {mine}",)).template(info, vocabulary), ASK) == "<How warm?>"
    assert text(asked_of((f"one.gguf = {mine}",)).template(info, vocabulary), ASK) == "[user]How warm?"
    with pytest.raises(ModelError, match=r"none\.jinja, named for .*, cannot be read"):
        asked_of(("two.gguf = none.jinja",)).template(info, vocabulary)


@pytest.mark.parametrize("entry", ["two.gguf", "= file", "two.gguf ="])
def test_what_names_no_template_is_refused(entry):
    with pytest.raises(SettingsError, match=r"templates .*model\.gguf = FILE"):
        AppSettings(templates=(entry,))
