"""Whatever a request holds, it is understood or refused in a sentence: no field of it can break the server."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from omnidraft.server.api import answers
from omnidraft.server.api import routes as api
from omnidraft.server.api.body import json_body
from omnidraft.server.api.errors import BadRequest
from omnidraft.server.api.infill import Infill
from omnidraft.server.api.request import Chat, Text
from omnidraft.server.api.responses import Responses
from omnidraft.settings.config import AppSettings

UNDERSTOOD = 418
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}
BODY = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        ]},
        {"role": "tool", "tool_call_id": "1", "name": "f", "content": "ok"},
    ],
    "temperature": 1, "top_p": 0.9, "seed": 3, "top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1,
    "max_completion_tokens": 5, "max_tokens": 5, "stop": ["x"], "stream": False,
    "stream_options": {"include_usage": True}, "speculation": True, "n": 2, "frequency_penalty": 0.5,
    "presence_penalty": -2, "logit_bias": {"5": -100, "6": False}, "logprobs": True, "top_logprobs": 3,
    "tools": [{"type": "function", "function": {"name": "f", "description": "Does.", "parameters": SCHEMA}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": True,
}  # fmt: skip
TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
FORMED = {name: value for name, value in BODY.items() if name not in TOOLS} | {
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
}


@pytest.fixture(scope="module")
def client():
    """The API in front of a session that starts no answer, but says that the request was understood."""
    session = SimpleNamespace(settings=AppSettings())

    async def start(session, asked, request):
        raise BadRequest("understood", UNDERSTOOD)

    app = FastAPI()
    api.add_routes(app, SimpleNamespace(get=lambda profile=None: session))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(answers, "start", start)
        yield TestClient(app)


def post(client, body: object) -> int:
    """The status; what is no answer in the program's own words fails."""
    response = client.post("/v1/chat/completions", content=body if isinstance(body, str) else json.dumps(body))
    assert response.json()["error"]["message"]
    return response.status_code


def test_a_request_that_uses_everything_is_understood(client):
    assert post(client, BODY) == UNDERSTOOD
    assert post(client, FORMED) == UNDERSTOOD
    assert post(client, {"messages": [{"role": "user", "content": "Hi"}], "model": None, "stop": None}) == UNDERSTOOD


@pytest.mark.parametrize(("kind", "body"), [
    (Chat, {"messages": [{"role": "user", "content": "Hi"}]}), (Text, {"prompt": "Hi"}), (Responses, {"input": "Hi"}),
    (Infill, {"input_prefix": "Hi"}),
])  # fmt: skip
@pytest.mark.parametrize("given", [
    {"top_k": 7}, {"frequency_penalty": 1}, {"seed": 3}, {"stop": "x"}, {"logit_bias": {"5": 1}}, {"stream": True},
    {"grammar": 'root ::= "a"'}, {"speculation": False}, {"model": "m"},
], ids=lambda given: next(iter(given)))  # fmt: skip
def test_what_every_kind_of_request_takes_has_an_effect(kind, body, given):
    session = SimpleNamespace(settings=AppSettings())
    assert kind.read({**body, **given}).asked(session) != kind.read(body).asked(session)


WRONG = {
    "model": [5, ["m"], {}],
    "messages": [
        None,
        5,
        {},
        [],
        ["Hi"],
        [{"role": ["user"]}],
        [{"role": "user", "content": 5}],
        [{"role": "assistant", "content": "x"}],
    ],
    "temperature": [10**400, "1", True, [], {}, -1],
    "top_p": ["x", 10**400, True],
    "seed": ["x", 1.5, True, -1, 2**63, []],
    "top_k": ["x", 1.5, True, 10**400],
    "min_p": [[], True],
    "repeat_penalty": [{}, 0],
    "max_completion_tokens": [0, "5", True, [], 1.5],
    "stop": [5, 1.5, True, {"a": 1}, [1], [None], "", [""], ["x"] * 17],
    "stream": [1, "yes", [], {}],
    "stream_options": ["x", 5, [], True, {"include_usage": "yes"}],
    "speculation": ["no", 1, []],
    "n": [33, "1", [], 0, True, 1.0],
    "frequency_penalty": [2.5, -3, "0", [1]],
    "presence_penalty": [2.1, True, "x"],
    "logit_bias": ["x", {"5": -101}, {"x": 1}, {"-5": 1}, {"5": True}, {"5": "1"}, [[5]], [5], [[1.5, 2]], [["²", 1]]],
    "logprobs": [1, "x", None, False],  # the last two because top_logprobs needs it
    "top_logprobs": [-1, 21, "x", True, 1.0],
    "tools": ["x", 5, {}, [5], [{"type": "function"}], [{"function": {"name": "f", "parameters": 5}}]],
    "tool_choice": [5, ["f"], "f", {"function": 5}],
    "parallel_tool_calls": ["x", 0],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_type_is_refused_in_a_sentence(client, name, value):
    assert post(client, {**BODY, name: value}) == 400


@pytest.mark.parametrize(
    ("path", "given"),
    [("chat/completions", {"stop": [5]}), ("chat/completions", {"max_tokens": 0}), ("completions", {"top_p": "x"}),
     ("chat/completions", {"max_completion_tokens": "5"}), ("responses", {"max_output_tokens": 0}),
     ("responses", {"temperature": -1})],
)  # fmt: skip
def test_a_refusal_names_the_field_that_was_sent(client, path, given):
    body = {"messages": BODY["messages"]} if path == "chat/completions" else {"prompt": "Hi"}
    body = {"input": "Hi"} if path == "responses" else body
    told = client.post(f"/v1/{path}", json={**body, **given}).json()["error"]["message"]
    assert told.startswith(f"{next(iter(given))} "), told


@pytest.mark.parametrize(("messages", "told"), [
    ([{"role": "SECRET", "content": "Hi"}], "messages[0].role must be 'system', "),
    ([{"role": "user", "content": [{"type": "SECRET"}]}], "messages[0].content[0].type must be 'text', "),
    ([{"role": "user", "content": "Hi"}, {"role": "user", "content": {"SECRET": 1}}], "messages[1].content must be a"),
    ([{"role": "user", "content": "Hi", "name": ["SECRET"]}], "messages[0].name must be a text."),
    ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "SECRET"}}]}],
     "messages[0].tool_calls[0].function.arguments must be JSON."),
])  # fmt: skip
def test_a_refusal_says_where_and_shows_nothing_of_what_was_said(client, messages, told):
    said = client.post("/v1/chat/completions", json={"messages": messages}).json()["error"]["message"]
    assert said.startswith(told)
    assert "SECRET" not in said


@pytest.mark.parametrize(
    "value",
    ["x", 5, [], {"type": []}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 5}},
     {"type": "json_schema", "json_schema": {"schema": {"type": 5}}}],
)  # fmt: skip
def test_so_is_a_wrong_form_of_answer(client, value):
    assert post(client, {**FORMED, "response_format": value}) == 400


@pytest.mark.parametrize("text", ["", "[]", "5", "{", '{"temperature": NaN}', '{"temperature": 1e999}', "[" * 5000])
def test_what_is_no_object_of_json_is_refused(client, text):
    assert post(client, text) == 400


@pytest.mark.parametrize(("data", "said"), [
    (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", None),
    (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "The request is nested too deeply."),
    (b'{"a": 1e999}', "The request is not JSON."), (b'{"a"', "The request is not JSON."),
])  # fmt: skip
def test_deep_json_is_told_from_what_is_none(data, said):
    if said is None:
        assert json_body(data)
        return
    with pytest.raises(BadRequest) as refused:
        json_body(data)
    assert str(refused.value) == said
