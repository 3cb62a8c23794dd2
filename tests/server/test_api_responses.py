"""The Responses API through the official client: texts, events, tools, forms, pictures, and what is refused."""

from __future__ import annotations

from typing import Literal

import openai
import pydantic
import pytest

from omnidraft.server.api.errors import BadRequest
from omnidraft.server.api.responses import Responses
from tests.prompting.tool_templates import TEMPLATES
from tests.server.test_api import ASK, MODEL, client
from tests.server.test_api_tools import PARAMETERS, TOOLS, is_weather

WEATHER = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": PARAMETERS}
TEXT = ASK[0]["content"]


def respond(server, **more):
    return client(server).responses.create(**{"model": MODEL, "input": TEXT, "temperature": 0, **more})


def test_a_response_has_the_text_of_a_chat_completion(server):
    said = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=24, temperature=0)
    done = respond(server, max_output_tokens=24)
    assert done.output_text == said.choices[0].message.content
    assert done.usage.output_tokens == said.usage.completion_tokens
    assert (done.status, done.incomplete_details) == ("completed", None) or done.incomplete_details.reason
    cut = respond(server, max_output_tokens=3)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert cut.output[-1].status == "incomplete"


def test_input_items_and_instructions_are_the_messages_of_a_conversation(server):
    told = [{"role": "system", "content": "Be brief."}, *ASK, {"role": "assistant", "content": "Fine."},
            {"role": "user", "content": "And yours?"}]  # fmt: skip
    said = client(server).chat.completions.create(model=MODEL, messages=told, max_tokens=20, temperature=0)
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": TEXT}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fine."}]},
        {"role": "user", "content": "And yours?"},
    ]
    done = respond(server, input=items, instructions="Be brief.", max_output_tokens=20)
    assert done.output_text == said.choices[0].message.content


def test_a_stream_tells_of_every_part_and_ends_with_the_whole(server):
    whole = respond(server, max_output_tokens=24)
    events = list(respond(server, max_output_tokens=24, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", whole.status]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens


class Told(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    unit: Literal["C", "F"]
    sure: bool


def test_a_model_of_pydantic_is_parsed(server):
    done = client(server).responses.parse(model=MODEL, input=TEXT, text_format=Told, temperature=0)
    assert isinstance(done.output_parsed, Told)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_tool_is_called_and_its_output_spoken_of(tooled, template):
    asked = {"model": f"tools-{template}", "tools": [WEATHER], "temperature": 1, "extra_body": {"seed": 4}}
    forced = {"tool_choice": {"type": "function", "name": "weather"}, "max_output_tokens": 120}
    done = respond(tooled, **asked, **forced)
    (call,) = done.output
    assert (call.type, call.name, is_weather(call.arguments)) == ("function_call", "weather", True)
    events = list(respond(tooled, **asked, **forced, stream=True))
    spelled = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert is_weather(spelled)
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    given = [{"role": "user", "content": TEXT}, call.model_dump(), output]
    after = respond(tooled, **{**asked, "temperature": 0}, input=given, max_output_tokens=20)
    function = {"name": call.name, "arguments": call.arguments}
    said = {"role": "assistant", "tool_calls": [{"id": call.call_id, "type": "function", "function": function}]}
    messages = [*ASK, said, {"role": "tool", "tool_call_id": call.call_id, "content": output["output"]}]
    chat = client(tooled).chat.completions.create(
        model=asked["model"], messages=messages, tools=TOOLS[:1], max_tokens=20, temperature=0
    )
    assert after.output_text == (chat.choices[0].message.content or "")
    assert after.usage.input_tokens == chat.usage.prompt_tokens


@pytest.mark.parametrize(("body", "sentence"), [
    ({}, "input is missing"),
    ({"input": "a", "previous_response_id": "resp_1"}, "are not stored"),
    ({"input": "a", "tools": [{"type": "web_search"}]}, "type must be 'function'"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "must be a list of messages"),
    ({"input": "a", "text": {"format": {"type": "json_schema"}}}, "text.format of type json_schema needs a schema"),
    ({"input": "a", "text": {"format": {"type": "xml"}}}, "text.format.type must be"),
])  # fmt: skip
def test_what_is_not_there_is_refused_in_a_sentence(body, sentence):
    with pytest.raises(BadRequest, match=sentence):
        Responses.read(body).told()


def test_a_refusal_reaches_the_client(server):
    with pytest.raises(openai.BadRequestError, match="not stored"):
        respond(server, previous_response_id="resp_1")
    with pytest.raises(openai.NotFoundError):
        respond(server, model="nobody")
