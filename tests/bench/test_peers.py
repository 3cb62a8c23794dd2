"""`bench peers`: everybody is counted alike, and what is done is not done again."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.__main__ import main
from omnidraft.bench.peers import Answer, Program, compared, llama_server
from omnidraft.bench.plans import Peers, Work
from omnidraft.decoding.events import Event, Finished, Round, Statistics, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.experiment import PLAIN
from omnidraft.lab.results import Cells, Report, as_text
from omnidraft.lab.statistics import record
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import DataHome


@pytest.fixture
def plan(models) -> Peers:
    target, drafter = models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"
    return Peers(str(drafter), 1, str(target), ("server",), ("math",), ("0",), 3, 8)


def events(*rounds: tuple[list[int], float], **told: int) -> Iterator[Event]:
    """An answer of rounds of these tokens and seconds."""
    for ids, seconds in rounds:
        yield from (Token(one, b"", "", "target", 0) for one in ids)
        yield Round(0, 0, 0, 0, len(ids), 0.0, 0.0, seconds, 0.0)
    yield Finished("stop", Statistics(**told))


def test_the_first_round_ends_the_reading_of_the_prompt_and_is_not_counted():
    trace = record(events(([1, 2], 5.0), ([3], 0.5), ([4, 5, 6], 0.5), tokens=6, target_passes=6))
    assert Answer.of(trace) == Answer(4, 1.0, 2.0, False)
    assert Answer.of(trace, rounds=False).per_pass == 1.0, "as it says itself"
    assert Answer.of(record(events(([1], 5.0)))) == Answer(0, 0, None, False)


# A run with a program of our making: plain decoding takes a second a token, "quick" half of it.


def fake(closed: list[bool]) -> Program:
    def answer(way: str, request: AnswerRequest) -> Iterator[Event]:
        step, drawn = 1.0 if way == PLAIN else 0.5, request.sampling
        yield from events(*(([n * 7 + drawn.seed], step) for n in range(drawn.max_tokens)))

    return Program((PLAIN, "quick"), answer, lambda: closed.append(True))


def asked(plan: Peers, folder: Path, peers: dict) -> Report:
    work = Work(DataHome(folder), Cells(folder / "cells"), lambda _line: None)
    return list(compared(plan, work, (Path(plan.target), Path(plan.drafter)), peers))[-1]


def test_ways_are_held_against_plain_decoding_and_what_is_done_is_not_done_again(plan, tmp_path):
    closed = []
    found = asked(plan, tmp_path, {"omnidraft": lambda: fake(closed)})
    rows = found.values["rows"]
    assert [(row["program"], row["way"]) for row in rows] == [("omnidraft", PLAIN), ("omnidraft", "quick")]
    quick = rows[1]
    assert (quick["speedup"], quick["pooled"].mean, quick["against"]) == (pytest.approx(2),) * 3
    assert (quick["same_text"], quick["answers"], quick["long"], quick["promised"]) == (3, 3, 0, True)
    assert closed == [True]
    table = [" ".join(line.split()) for line in as_text(found)]
    assert "omnidraft, quick T=0 2.00 2.00" in table
    assert any("too few" in line for line in table)
    assert asked(plan, tmp_path, {}) == found  # nobody is loaded
    with pytest.raises(SettingsError, match="other max_tokens"):
        asked(replace(plan, max_tokens=9), tmp_path, {"omnidraft": lambda: fake(closed)})


def test_answers_as_earlier_versions_kept_them_are_read():
    assert Answer.kept({"ids": [], "tokens": 4, "decode": 1.0, "per_pass": None, "looped": False}).tokens == 4


# llama.cpp's server, played by a program that speaks as it does

SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["prompt"][-1] > 0 and asked["temperature"] == 0
        self.send_response(200); self.end_headers()
        step = 10 if value("--spec-type") == "none" else 5
        for n in range(asked["n_predict"]):
            part = {{"tokens": [100 + n], "stop": False, "timings": {{"predicted_ms": n * step}}}}
            self.wfile.write(b"data: " + json.dumps(part).encode() + b"\\n\\n")
        timings = {{"predicted_n": asked["n_predict"], "draft_n_accepted": 0 if step == 10 else 2}}
        end = {{"tokens": [], "stop": True, "timings": timings}}
        self.wfile.write(b"data: " + json.dumps(end).encode() + b"\\n\\ndata: [DONE]\\n\\n")
HTTPServer(("127.0.0.1", int(value("--port"))), Handler).serve_forever()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "llama-server"
    path.write_text(SERVER.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_server_is_asked_in_ids_and_believed_about_its_times(plan, program):
    peer = llama_server(program, Path(plan.target), 1)
    try:
        assert peer.ways == (PLAIN, "ngram-simple", "ngram-mod")
        hello = AnswerRequest([{"role": "user", "content": "Hello"}], SamplingSettings(0.0, seed=3, max_tokens=5))
        plain, quick = (record(peer.answer(way, hello)) for way in (PLAIN, "ngram-mod"))
        assert plain.ids == quick.ids == [100, 101, 102, 103, 104]
        slow, fast = Answer.of(plain, peer.rounds), Answer.of(quick, peer.rounds)
        assert (slow.tokens, slow.decode, fast.decode) == (4, pytest.approx(0.04), pytest.approx(0.02))
        assert (slow.per_pass, fast.per_pass) == (1.0, 2.0)
    finally:
        peer.close()


def test_a_server_that_ends_at_once_is_an_error_in_a_sentence(plan, tmp_path):
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\necho error: unknown model >&2\nexit 1\n")
    path.chmod(0o700)
    with pytest.raises(ModelError, match="unknown model"):
        llama_server(path, Path(plan.target), 1)


# The real ones


@pytest.mark.slow
def test_a_run_of_the_command_keeps_the_text_and_names_what_is_missing(tmp_path, capsys):
    out = tmp_path / "peers.json"
    arguments = ["bench", "peers", "--data-dir", str(tmp_path), "--tasks", "edit", "--prompts", "2", "--max-tokens",
                 "12", "--temperature", "0,1", "--threads", "1", "--out", str(out)]  # fmt: skip
    assert main([*arguments, "--peers", "server"]) == 2
    assert "docs/measurements.md" in capsys.readouterr().err
    assert main([*arguments, "--peers", "ours"]) == 0
    rows = {(row["sampling"], row["way"]): row for row in json.loads(out.read_bytes())["rows"]}
    ours = [row for (_, way), row in rows.items() if way != PLAIN]
    assert {row["way"] for row in ours} == {"lookup", "adaptive"}
    assert all(row["promised"] and row["same_text"] == row["answers"] == 2 for row in ours)
    assert rows[0, PLAIN]["reference"] == "omnidraft"
    assert "omnidraft, lookup" in capsys.readouterr().out
