"""`bench peers`: everybody is counted alike, and what is done is not done again."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.__main__ import main
from omnidraft.bench.pairs import PLAIN
from omnidraft.bench.peers import Answer, LlamaServer, Models, answer_of, compared
from omnidraft.bench.runner import Cells, Peers, Report, Work, as_text
from omnidraft.decoding.events import Round
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.statistics import Trace, before_loop
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import DataHome


@pytest.fixture
def plan(models):
    target, drafter = models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"
    return Peers(str(drafter), 1, str(target), ("server",), ("math",), ("0",), 3, 8)


# Counting


def said(*rounds: tuple[list[int], float]) -> Answer:
    """What rounds of these tokens and seconds count as."""
    made = [Round(0, 0, 0, 0, len(ids), 0.0, 0.0, seconds, 0.0) for ids, seconds in rounds]
    return answer_of(before_loop(Trace([id for ids, _ in rounds for id in ids], made)))


def test_the_first_round_ends_the_reading_of_the_prompt_and_is_not_counted():
    found = said(([1, 2], 5.0), ([3], 0.5), ([4, 5, 6], 0.5))
    assert (found.ids, found.tokens, found.decode) == ([1, 2, 3, 4, 5, 6], 4, 1.0)
    assert found.per_pass == 2.0
    assert said(([1], 5.0)).tokens == 0
    assert said().ids == []


def test_a_loop_is_not_counted():
    words = [([n], 1.0) for n in range(20)]
    found = said(*words, *[([7, 8], 1.0)] * 40)
    assert found.looped
    assert 20 <= found.tokens <= 22
    assert not said(*words).looped


# A run with programs of our making


class Fake:
    """Plain decoding takes a second a token, "quick" half of it."""

    ways = (PLAIN, "quick")
    exact = True

    def __init__(self) -> None:
        self.closed = False

    def answer(self, way: str, messages: object, ids: object, sampling: SamplingSettings) -> Answer:
        step = 1.0 if way == PLAIN else 0.5
        return said(*(([n * 7 + sampling.seed], step) for n in range(sampling.max_tokens)))

    def close(self) -> None:
        self.closed = True


def asked(plan: Peers, folder: Path, peers: dict) -> Report:
    work = Work(DataHome(folder), Cells(folder / "cells"), lambda _line: None)
    return list(compared(plan, work, Models(Path(plan.target), Path(plan.drafter), 1), peers))[-1]


def test_ways_are_held_against_their_own_plain_decoding_and_the_first_programs(plan, tmp_path):
    good = Fake()
    found = asked(plan, tmp_path, {"omnidraft": lambda: good})
    rows = found.values["rows"]
    assert [(row["program"], row["way"]) for row in rows] == [("omnidraft", PLAIN), ("omnidraft", "quick")]
    quick = rows[1]
    assert (quick["speedup"], quick["pooled"].mean, quick["against"]) == (pytest.approx(2),) * 3
    assert (quick["same_text"], quick["answers"], quick["long"], quick["promised"]) == (3, 3, 0, True)
    assert good.closed
    table = [" ".join(line.split()) for line in as_text(found)]
    assert "omnidraft, quick T=0 2.00 2.00" in table
    assert any("too few" in line for line in table)


def test_what_is_done_is_not_done_again_and_not_mixed(plan, tmp_path):
    first = asked(plan, tmp_path, {"one": Fake})
    again = asked(plan, tmp_path, {})  # nobody is loaded
    assert again == first
    with pytest.raises(SettingsError, match="other max_tokens"):
        asked(replace(plan, max_tokens=9), tmp_path, {"one": Fake})


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
        assert asked["prompt"] == [1, 2] and asked["temperature"] == 0
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


def test_the_server_is_asked_in_ids_and_believed_about_its_times(program):
    peer = LlamaServer(Models(Path("target"), Path("drafter"), 1), program)
    try:
        assert peer.ways == (PLAIN, "ngram-simple", "ngram-mod")
        question = ([], [1, 2], SamplingSettings(temperature=0.0, seed=3, max_tokens=5))
        plain, quick = peer.answer(PLAIN, *question), peer.answer("ngram-mod", *question)
        assert plain.ids == quick.ids == [100, 101, 102, 103, 104]
        assert (plain.tokens, plain.decode, quick.decode) == (4, pytest.approx(0.04), pytest.approx(0.02))
        assert (plain.per_pass, quick.per_pass) == (1.0, 2.0)
    finally:
        peer.close()


def test_a_server_that_ends_at_once_is_an_error_in_a_sentence(tmp_path):
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\necho error: unknown model >&2\nexit 1\n")
    path.chmod(0o700)
    with pytest.raises(ModelError, match="unknown model"):
        LlamaServer(Models(Path("target"), Path("drafter"), 1), path)


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
