"""`bench peers`: everybody is counted alike, one that fails is reported, and what is done is not done again."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.__main__ import main
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.bench.peers import report
from omnidraft.bench.peers.bursts import Answer, Burst, answer_of
from omnidraft.bench.peers.llama_server import LlamaServer
from omnidraft.bench.peers.ours import Ours
from omnidraft.bench.peers.peer import PLAIN, Models, Question
from omnidraft.bench.peers.plan import EDIT, Plan
from omnidraft.bench.peers.run import Found, run
from omnidraft.bench.regimes import OWN
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import TASKS
from omnidraft.storage.paths import DataHome


@pytest.fixture
def plan(models):
    return Plan(
        models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", None, Path("none"), tasks=("math",),
        columns=(0.0,), regime="bundled", prompts=3, max_tokens=8,
    )  # fmt: skip


# Counting


def test_the_first_burst_ends_the_reading_of_the_prompt_and_is_not_counted():
    found = answer_of([Burst((1, 2), 5.0), Burst((3,), 5.5), Burst((), 5.6), Burst((4, 5, 6), 6.0)])
    assert (found.ids, found.tokens, found.seconds) == ([1, 2, 3, 4, 5, 6], 4, 1.0)
    assert (found.per_token, found.per_pass) == (0.25, 2.0)
    assert answer_of([Burst((1,), 5.0)]).per_token is None
    assert answer_of([]).ids == []


def test_a_loop_is_not_counted():
    words = [Burst((n,), float(n)) for n in range(20)]
    loop = [Burst((7, 8), 20.0 + n) for n in range(40)]
    found = answer_of([*words, *loop])
    assert found.looped
    assert 20 <= found.tokens <= 22
    assert not answer_of(words).looped


def test_prompts_of_a_task_are_distinct_and_those_to_learn_from_are_others(plan):
    for task in (*TASKS, EDIT):
        test, train = ({p.text for p in part} for part in (plan.test(task), plan.train(task)))
        assert len(test) == plan.prompts
        assert train.isdisjoint(test)
        assert plan.aside(task).text not in test


def test_the_drafter_may_stay_as_it_is_beside_a_large_target(plan):
    assert replace(plan, drafter_shape=OWN).decides() != plan.decides()
    with pytest.raises(SettingsError, match="shape is one of own"):
        replace(plan, drafter_shape="huge")


def test_the_learned_way_drafts_with_the_file_that_was_taught(plan, tmp_path, monkeypatch):
    taught, opened, real_open = tmp_path / "taught.gguf", [], LlamaDrafter.open
    taught.write_bytes(plan.drafter.read_bytes())

    def noted(path, *more, **named):
        opened.append(path)
        return real_open(path, *more, **named)

    monkeypatch.setattr(LlamaDrafter, "open", noted)
    models = Models(plan.target, plan.drafter, 1, 512, taught=(taught, None))
    question = Question(plan.test("math")[0].messages, (), 0.0, 0, 12)
    peer = Ours(DataHome(tmp_path), models, plan.target, "ours")
    try:
        assert opened == [plan.drafter, taught]
        assert peer.answer("learned", question).ids == peer.answer(PLAIN, question).ids != []
    finally:
        peer.close()


def test_a_file_of_messages_is_a_task(plan, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"{n % 4}?"}]}) + "\n"
                           for n in range(8)))  # fmt: skip
    assert [p.text for p in plan.test(str(own))] == ["0?", "1?", "2?"]
    assert {p.text for p in plan.train(str(own))} == {"3?"}


# A run with programs of our making


class Fake:
    """Plain decoding takes a second a token, "quick" half of it. Breaks at the `breaks`th question."""

    ways = (PLAIN, "quick")

    def __init__(self, name: str, breaks: int = 10**6) -> None:
        self.name, self.notes, self.left = name, ["a note"], breaks
        self.asked: list[tuple[str, Question]] = []
        self.closed = False

    def answer(self, way: str, question: Question) -> Answer:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("out of luck")
        self.asked.append((way, question))
        step = 1.0 if way == PLAIN else 0.5
        return answer_of(Burst((n * 7 + question.seed,), n * step) for n in range(question.max_tokens))

    def keeps_text(self, way: str, column: object) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def compared(plan: Plan, folder: Path, peers: dict) -> Found:
    models = Models(plan.target, plan.drafter, 1, 64)
    return list(run(plan, folder, lambda: (models, peers), lambda _line: None))[-1]


def broken() -> Fake:
    raise ModelError("It is not installed.")


def test_one_that_fails_is_reported_and_the_others_go_on(plan, tmp_path):
    good, weak = Fake("llama-cpp-python"), Fake("weak", breaks=4)
    found = compared(plan, tmp_path, {"llama-cpp-python": lambda: good, "weak": lambda: weak, "missing": broken})
    assert found.failed == {"weak": "RuntimeError: out of luck", "missing": "It is not installed."}
    rows = report.rows(found)
    assert [(row.program, row.way) for row in rows] == [("llama-cpp-python", PLAIN), ("llama-cpp-python", "quick")]
    quick = rows[1]
    assert (quick.speedup, quick.pooled, quick.against) == (pytest.approx(2),) * 3
    assert (quick.same_text, quick.answers, quick.long) == (3, 3, 0)
    assert good.closed
    table = "\n".join(report.markdown(found, plan.decides()))
    assert "- weak failed: RuntimeError: out of luck" in table
    assert "| llama-cpp-python, quick | T=0 | 2.00 | 2.00 |" in table
    assert "too few" in table
    assert "Ahead of ours" in table


def test_a_peer_that_is_ahead_of_ours_is_named(plan, tmp_path):
    slow = Fake("omnidraft")
    slow.ways = (PLAIN, "untrained")
    slow.answer = lambda way, question: Fake.answer(slow, PLAIN, question)
    found = compared(plan, tmp_path, {"llama-cpp-python": lambda: Fake("llama-cpp-python"), "omnidraft": lambda: slow})
    (named,) = report.ahead(report.rows(found))
    assert (named["program"], named["way"], named["our_way"]) == ("llama-cpp-python", "quick", "untrained")
    assert (named["speedup"], named["ours"]) == (pytest.approx(2), pytest.approx(1))
    assert "quick 2.00, ours (untrained) 1.00" in "\n".join(report.markdown(found, plan.decides()))


def test_all_are_asked_the_same_in_turns(plan, tmp_path):
    one, other = Fake("one"), Fake("other")
    compared(plan, tmp_path, {"one": lambda: one, "other": lambda: other})
    counted = [(way, q.seed, tuple(q.prompt)) for way, q in one.asked if q.max_tokens == plan.max_tokens]
    assert sorted(counted) == sorted((way, q.seed, tuple(q.prompt)) for way, q in other.asked if q.max_tokens == 8)
    assert len(counted) == 6
    assert len({prompt for _, _, prompt in counted}) == 3
    assert {way for way, seed, _ in counted if seed == 0} == {PLAIN, "quick"}


def test_what_is_done_is_not_done_again_and_not_mixed(plan, tmp_path):
    first = compared(plan, tmp_path, {"one": lambda: Fake("one"), "missing": broken})
    again = list(run(plan, tmp_path, lambda: pytest.fail("nothing is missing"), lambda _line: None))[-1]
    assert report.rows(again) == report.rows(first)
    assert again.failed == first.failed
    with pytest.raises(SettingsError, match="other max_tokens"):
        compared(replace(plan, max_tokens=9), tmp_path, {"one": lambda: Fake("one")})


# llama.cpp's server, played by a program that speaks as it does

SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
if "-md" in arguments and "drafter" in value("-md"):
    print("0.01.234.567 E spec  are_compatible: draft model vocab type must match target model", flush=True)
if "-md" in arguments and "poor" in value("-md"):
    print("0.01.234.567 E srv  load_model: failed to initialize speculative decoding context", flush=True)
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
    peer = LlamaServer(Models(Path("target"), Path("drafter"), 1, 64, helper=Path("poor")), program)
    try:
        assert peer.ways == (
            PLAIN, "ngram-simple", "ngram-mod", "ngram-simple, short", "ngram-mod, short", "draft-simple",
        )  # fmt: skip
        assert peer.notes == [
            "draft-simple: load_model: failed to initialize speculative decoding context",
            "With our drafter it prints: are_compatible: draft model vocab type must match target model",
        ]
        question = Question([], [1, 2], 0.0, 3, 5)
        plain, quick = peer.answer(PLAIN, question), peer.answer("ngram-mod", question)
        assert plain.ids == quick.ids == [100, 101, 102, 103, 104]
        assert (plain.per_token, quick.per_token) == (pytest.approx(0.01), pytest.approx(0.005))
        assert (plain.per_pass, quick.per_pass) == (1.0, 2.0)
    finally:
        peer.close()


def test_a_server_that_ends_at_once_is_an_error_in_a_sentence(tmp_path):
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\necho error: unknown model >&2\nexit 1\n")
    path.chmod(0o700)
    with pytest.raises(ModelError, match="unknown model"):
        LlamaServer(Models(Path("target"), Path("drafter"), 1, 64), path)


# The real ones


def test_a_run_of_the_command_keeps_the_text_and_reports_the_missing(tmp_path, capsys):
    out = tmp_path / "peers.json"
    arguments = ["bench", "peers", "--data-dir", str(tmp_path), "--regime", "bundled", "--tasks", "edit", "--prompts",
                 "2", "--max-tokens", "12", "--learn-prompts", "0", "--temperature", "0,1", "--threads", "1", "--peers",
                 "llama-cpp-python,server,gguf", "--out", str(out)]  # fmt: skip
    assert main(arguments) == 0
    found = json.loads(out.read_bytes())
    assert "--build-server" in found["failed"]["llama.cpp server"]
    rows = {(row["sampling"], row["program"], row["way"]): row for row in found["rows"]}
    ours = [row for (_, program, way), row in rows.items() if program == "omnidraft" and way != PLAIN]
    assert {row["way"] for row in ours} == {"lookup", "untrained"}
    assert all(row["promised"] and row["same_text"] == row["answers"] == 2 for row in ours)
    assert rows[0, "llama-cpp-python", "lookup:10"]["same_text"] == 2
    assert rows[0, "omnidraft", PLAIN]["reference"] == "llama-cpp-python"
    assert "| llama-cpp-python, lookup:2 |" in capsys.readouterr().out
