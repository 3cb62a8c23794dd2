"""The command line: what one-shot prints, what conversations do, and one clear sentence for every mistake."""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from gguf import GGUFReader

from omnidraft.__main__ import _COMMANDS, _parser
from omnidraft.cli.chat import _prompts
from omnidraft.errors import SettingsError
from omnidraft.storage.paths import DataHome
from tests.prompting.thinking_templates import OPENED

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds: a busy machine takes a minute for what takes two seconds otherwise
KEYS = {
    "text", "token_ids", "prompt_tokens", "tokens", "target_passes", "rounds", "drafted", "proposed", "tested",
    "accepted", "acceptance_rate", "tokens_per_pass", "origins", "tokens_per_second", "seconds",
    "finish_reason", "seed", "draft_disabled_reason",
}  # fmt: skip
ORIGINS = {"target", "direct", "ngram", "split", "lookup", "forced"}
CODE = "Write a Python function that adds two numbers."


def answers(result) -> list[dict]:
    code, out, err = result
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def answer(result) -> dict:
    (one,) = answers(result)
    return one


def refused(result) -> str:
    """The sentence of a refused command: exit 2, nothing on stdout, one line on stderr, no traceback."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert len(last) > 20
    if not last.startswith("python -m omnidraft"):  # argparse puts its usage in front
        assert err.count("\n") == 1
        assert last.startswith("omnidraft: ")
        assert last.endswith(".")
    return last


def test_one_shot_prints_one_object_with_everything_counted(chat):
    found = answer(chat("--json", "--prompt", CODE, "--draft-length", 4))
    assert set(found) >= KEYS
    assert set(found["seconds"]) == {"prefill", "draft", "translate", "verify", "other"}
    assert set(found["origins"]) == ORIGINS
    assert sum(found["origins"].values()) == found["tokens"] == len(found["token_ids"])
    assert found["accepted"] <= found["tested"] <= found["proposed"]
    assert found["acceptance_rate"] == pytest.approx(found["accepted"] / found["proposed"])
    assert found["tokens_per_pass"] == pytest.approx(found["tokens"] / found["target_passes"])
    seconds = found["seconds"]
    assert found["tokens_per_second"] == pytest.approx(found["tokens"] / (sum(seconds.values()) - seconds["prefill"]))
    assert found["finish_reason"] in ("stop", "length")
    assert found["draft_disabled_reason"] is None
    assert isinstance(found["seed"], int)


def test_no_draft_is_plain_decoding_with_the_same_text(chat):
    plain = answer(chat("--json", "--prompt", CODE, "--no-draft"))
    assert plain["draft_disabled_reason"]
    assert plain["tokens_per_pass"] == 1 or plain["origins"]["lookup"]
    assert plain["drafted"] == 0
    for length in (4, "adaptive"):
        drafted = answer(chat("--json", "--prompt", CODE, "--draft-length", length))
        assert drafted["text"] == plain["text"]


def test_prompts_come_from_a_file_up_to_the_first_answer(chat, tmp_path):
    lines = [
        {"id": "one", "messages": [{"role": "user", "content": CODE}, {"role": "assistant", "content": "def add"},
                                   {"role": "user", "content": "never asked"}]},
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "日本語 😀"}]},
    ]  # fmt: skip
    path = tmp_path / "my.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    found = answers(chat("--json", "--prompts", path))
    assert [f["id"] for f in found] == ["one", "my-2"]
    alone = answer(chat("--json", "--prompt", CODE))
    assert found[0]["prompt_tokens"] == alone["prompt_tokens"]
    assert found[0]["text"] == alone["text"]


def test_thinking_is_switched_through_the_template_that_was_named(chat, home, tmp_path):
    mine = tmp_path / "mine.jinja"
    mine.write_text(OPENED)
    assert "it knows no such switch" in refused(chat("--prompt", CODE, "--think", "on"))
    home.profile().settings.write_text(f"templates = ['tiny-target-a-f16.gguf = {mine}']\n")
    read = [answer(chat("--json", "--prompt", CODE, "--think", word))["prompt_tokens"] for word in ("on", "off")]
    assert read[0] < read[1], "thoughts that are left out stand in the prompt, empty"
    assert "it knows on, off" in refused(chat("--prompt", CODE, "--think", "low"))
    mine.unlink()
    assert "cannot be read" in refused(chat("--prompt", CODE))


def contents(home: DataHome) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in home.profile().root.glob("ngrams*")}


def test_the_cache_learns_unless_the_run_is_ephemeral(chat, home):
    answer(chat("--json", "--prompt", CODE, "--ephemeral"))
    assert not home.profile().ngrams.exists()
    answer(chat("--json", "--prompt", CODE))
    first = contents(home)
    assert first
    answer(chat("--json", "--prompt", CODE + " And one that multiplies.", "--ephemeral"))
    assert contents(home) == first
    answer(chat("--json", "--prompt", CODE + " And one that multiplies.", "--draft-length", 4))
    assert contents(home) != first


def test_models_lists_what_is_there_with_its_numbers(cli, home, models, tmp_path):
    home.models.mkdir(parents=True, exist_ok=True)
    (home.models / "broken.gguf").write_bytes(b"not a model")
    code, out, _ = cli("models", "--json")
    found = {m["name"]: m for m in map(json.loads, out.splitlines())}
    assert code == 0
    assert found["tiny-target-a"]["architecture"] == "llama"
    assert found["tiny-target-a"]["context"] == 1024
    in_file = GGUFReader(models / "tiny-target-b-f16.gguf").fields["tokenizer.ggml.tokens"]
    assert found["tiny-target-b"]["vocabulary_size"] == len(in_file.data)
    assert found["broken"]["kind"] == "damaged"
    assert "GGUF" in found["broken"]["error"]
    text = cli("models")[1]
    assert "llama-bpe" in text
    assert "14.1 MB" in text, "as the pages say it"
    assert "broken" in text
    assert "nowhere" in refused(cli("models", "--folder", tmp_path / "nowhere"))


def leaves(parser: argparse.ArgumentParser):
    """A parser and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from leaves(below)


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_and_every_part_of_one_takes_the_data_folder(name):
    (commands,) = (a for a in _parser(name)._actions if isinstance(a, argparse._SubParsersAction))
    for parser in leaves(commands.choices[name]):
        assert "--data-dir" in parser._option_string_actions, parser.prog


# What each setting takes is tested with the settings; here every option comes to its own.
BAD_NUMBERS = [
    ("--temperature", "10.1"), ("--temperature", "hot"), ("--top-k", "1.5"), ("--top-p", "nan"), ("--min-p", "2"),
    ("--repeat-penalty", "0"), ("--seed", str(2**63)), ("--max-tokens", "9" * 30), ("--ctx", "63"), ("--ctx", "1e3"),
    ("--threads", "5000"), ("--n-gpu-layers", "-2"), ("--draft-length", "65"), ("--draft-length", "²"),
    ("--draft-length", ""), ("--draft-length", "9" * 5000), ("--kv-type", "f4"), ("--verification", "maybe"),
    ("--ngram-cache", "perhaps"), ("--profile", "../x"), ("--profile", ""), ("--stop", ""), ("--stop", "x" * 5000),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "value"), BAD_NUMBERS, ids=[f"{f}={v[:12]}" for f, v in BAD_NUMBERS])
def test_absurd_settings_are_refused_in_one_sentence_that_names_them(cli, flag, value):
    said = refused(cli("chat", "--prompt", "Hi", f"{flag}={value}"))
    name = flag.strip("-").replace("-", "_")
    short = {"ctx": "n_ctx", "draft_length": "length"}.get(name, name)
    assert short in said.replace("-", "_") or name in said.replace("-", "_")


def test_other_mistakes_are_explained(chat, cli, tmp_path, home, models):
    (cut := tmp_path / "cut.gguf").write_bytes((models / "tiny-target-a-f16.gguf").read_bytes()[:1_000_000])
    for role in ("--target", "--drafter"):
        assert "cut.gguf" in refused(cli("chat", role, cut, "--threads", 1, "--prompt", "Hi"))
    assert "--prompt" in refused(chat("--json"))
    assert "not allowed with" in refused(chat("--prompt", "a", "--prompts", "qa"))
    assert "no-such" in refused(chat("--prompts", tmp_path / "no-such.jsonl"))
    refused(chat("--prompt", "a", target="x" * 9000))
    refused(chat("--prompt", "\udcff"))
    refused(cli("nonsense"))
    settings, ngrams = home.profile().settings, home.profile().ngrams
    settings.write_text("[sampling]\ntemperature = 'warm'\n")
    assert "settings.toml" in refused(chat("--prompt", "a"))
    assert settings.read_text() == "[sampling]\ntemperature = 'warm'\n"
    settings.write_text("not toml [")
    assert "settings.toml" in refused(chat("--prompt", "a"))
    settings.unlink()
    ngrams.write_bytes(b"my own notes, not a database" * 40)
    code, _, err = chat("--prompt", "a")
    assert (code, "kept as ngrams.sqlite.damaged-1" in err) == (0, True)


def test_a_conversation_through_a_pipe(chat):
    code, out, err = chat(typed="Hello there.\n\nHow are you?\n/new\nHello there.\n/exit\nnever read\n")
    assert code == 0
    lines = out.splitlines()
    assert "> " not in out
    assert len(re.findall(r"\[\d+ tokens", err)) == 3
    assert lines[0] == lines[-1]


def test_a_conversation_has_commands_that_no_model_reads(chat):
    asked = "/help\n/stats\nHello there.\n/stats\n/model\n/model tiny-target-b\n/model nope\n/what is this\n/exit\n"
    code, out, err = chat(typed=asked)
    assert code == 0
    assert len(out.splitlines()) == 1, "one question, one answer"
    for said in ("/model NAME", "Nothing was answered yet.", "tiny-target-a answers.", "tiny-target-b answers.",
                 "no model file or known model named nope", "There is no command /what."):  # fmt: skip
        assert said in err
    assert len(re.findall(r"\[\d+ tokens", err)) == 2, "after the answer, and when asked for"


def test_a_question_that_fails_does_not_end_the_conversation(chat):
    code, out, err = chat(typed="word " * 3000 + "\nHello there.\n")
    assert "The last message needs" in err
    assert out.strip()
    assert code == 2


# From here on real processes: signals, pipes and a terminal.


def command(home: DataHome, *args: object) -> list[str]:
    return [sys.executable, "-m", "omnidraft", "chat", "--data-dir", str(home.root), "--threads", "1",
            "--target", "tiny-target-a", *map(str, args)]  # fmt: skip


def start(home: DataHome, *args: object) -> subprocess.Popen:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(home, *args), cwd=ROOT, text=True, **pipes)


@pytest.fixture
def endless(tmp_path) -> Path:
    """Enough prompts that the process is still answering when it is interrupted."""
    path = tmp_path / "many.jsonl"
    line = json.dumps({"messages": [{"role": "user", "content": "Tell me a long story."}]})
    path.write_text("\n".join([line] * 5000))
    return path


def test_an_interrupt_during_an_answer_exits_130_with_whole_lines(home, endless):
    process = start(home, "--prompts", endless, "--json", "--temperature", 1)
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    found = [json.loads(line) for line in [first, *out.splitlines()]]
    assert found[-1]["finish_reason"] in ("cancelled", "stop", "length", "context")
    assert home.profile().ngrams.exists()


@pytest.mark.parametrize("delay", [0.0, 0.6])
def test_an_interrupt_at_any_moment_exits_130_without_a_traceback(home, endless, delay):
    """While libraries are imported, while models load, while an answer is written."""
    arguments = command(home, "--prompts", endless, "--json")[3:]
    script = (
        "import sys, omnidraft.__main__ as program; parser = program._parser\n"
        "program._parser = lambda wanted: print(flush=True) or parser(wanted)\n"
        f"sys.exit(program.main({arguments!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()  # Python itself has started; nothing of ours can meet what comes before
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_error(home, endless):
    process = start(home, "--prompts", endless, "--json", "--max-tokens", 2)
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=PATIENCE) == 0
    assert "Traceback" not in err


def test_bad_bytes_typed_into_a_conversation_are_no_crash(home):
    process = subprocess.run(
        command(home, "--max-tokens", 4), cwd=ROOT, input=b"\xff\xfe hello\n", capture_output=True, timeout=PATIENCE
    )
    assert process.returncode == 0
    assert b"Traceback" not in process.stderr


class Terminal:
    """A child on a pseudo-terminal."""

    def __init__(self, arguments: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execv(arguments[0], arguments)
        self.unread = ""

    def until(self, text: str, seconds: float = 60) -> str:
        """Read on until `text`; returns what came before it."""
        end = time.monotonic() + seconds
        while text not in self.unread:
            assert time.monotonic() < end, f"no {text!r} in {self.unread!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                self.unread += os.read(self.fd, 4096).decode(errors="replace")
        before, _, self.unread = self.unread.partition(text)
        return before

    def until_it_waits(self) -> None:
        """CPython's readline shows its prompt just before it waits; a Ctrl-C in between waits for a next key."""
        asleep = 0
        while asleep < 5:
            time.sleep(0.02)
            asleep = asleep + 1 if psutil.Process(self.pid).status() == psutil.STATUS_SLEEPING else 0

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_person_at_a_terminal_stops_an_answer_asks_on_and_leaves_with_130(home):
    # so hot that the end of an answer is as improbable as any other token
    terminal = Terminal(command(home, "--max-tokens", 900, "--temperature", 10, "--system", "Be brief."))
    terminal.until("> ")
    terminal.type("Tell me a long story.\n")
    terminal.until("long story.\r\n")
    while not terminal.unread.strip():
        terminal.unread += os.read(terminal.fd, 4096).decode(errors="replace")
    terminal.type("\x03")
    terminal.until("[stopped] [")
    terminal.until("> ")
    terminal.type("/new\n")
    terminal.until("A new conversation.")
    terminal.until("> ")
    terminal.until_it_waits()
    terminal.type("\x03")
    assert terminal.code() == 130


@pytest.mark.parametrize(("given", "read"), [(b"What is 2 + 3?\n", "What is 2 + 3?"), (b"", None), (b"\xff", None)])
def test_a_dash_reads_the_message_from_standard_input(monkeypatch, given, read):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    asked = argparse.Namespace(prompt="-", prompts=None, system=None, json=False)
    if read is None:
        with pytest.raises(SettingsError, match="standard input"):
            _prompts(asked, [])
    else:
        (prompt,) = _prompts(asked, [])
        assert prompt.messages[-1]["content"] == read
