"""`chat`: interactive on a terminal, or one-shot over prompts with JSON results.

One-shot stores no chat and does not train; the n-gram cache learns unless `--ephemeral`. A conversation is kept for
the drafter to learn from while you think; its adapter versions are used by both.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.app.models_list import choose_drafter, choose_target
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.pictures import Picture, open_picture
from omnidraft.cli.interrupt import Interrupts
from omnidraft.cli.report import add_setting, draft_length, given, print_json, report, summary
from omnidraft.decoding.events import Finished, Notice, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError, SettingsError
from omnidraft.lab.prompts import TASKS, Prompt, load_prompts
from omnidraft.learning.adapters.serving import AUTO, NO_ADAPTER
from omnidraft.prompting.formats.chat_format import collect
from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.prompting.prompt import with_pictures
from omnidraft.prompting.thinking import EFFORTS
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, describe
from omnidraft.storage.paths import find_data_home

# A conversation on the terminal, or through a pipe: one line, one question.


Message = dict[str, Any]
_HELP = "Ctrl+C stops an answer. /help lists the commands, /exit or Ctrl+D ends."
_COMMANDS = """\
/help         this list
/model        the model that answers
/model NAME   answer with another one from here on
/image FILE   a picture that the next message is about
/stats        speed and drafting of the last answer
/new          a new conversation
/exit         end, as Ctrl+D"""
_COMMAND = re.compile(r"/([A-Za-z?]+)(?:\s+(.*))?")


def converse(
    assistant: Assistant,
    sampling: SamplingSettings,
    draft: DraftSettings,
    system: list[Message],
    pictures: list[Picture],
    load: Callable[[str], None],
) -> int:
    """Ask and answer until the input ends. Returns 2 if a piped question could not be answered, else 0.

    pictures: what the first message is about. `load` makes the model of that name the one that answers.
    """
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with suppress(ImportError):  # line editing and history, where the system has it
            importlib.import_module("readline")
    failed = False
    messages, chat, last = list(system), new_chat(), None
    print(f"{_named(assistant)}. {_HELP}", file=sys.stderr)
    for line in _lines("> " if at_terminal else ""):
        if (command := _COMMAND.fullmatch(line)) is not None:
            word, value = command[1].lower(), (command[2] or "").strip()
            if word in ("exit", "quit"):
                break
            if word == "new":
                messages, chat, pictures = list(system), new_chat(), []
            told = _attach(value, pictures) if word == "image" else _told(word, value, assistant, last, load)
            print(told, file=sys.stderr)
            continue
        asked = [*messages, {"role": "user", **with_pictures(line, pictures)}]
        try:
            said, ids, last = _answer(assistant, asked, sampling, draft, chat, Interrupts(assistant.stop))
        except OmniDraftError as error:  # this question failed, not the conversation
            print(f"omnidraft: {error}", file=sys.stderr)
            failed = True
            continue
        pictures = []
        messages = [*asked, _told_again(assistant, said, ids, sampling)]
    return 2 if failed and not at_terminal else 0


def _attach(path: str, pictures: list[Picture]) -> str:
    """Add the picture in a file to `pictures`; what there is to say about it."""
    try:
        pictures.append(open_picture(path))
    except OmniDraftError as error:
        return f"omnidraft: {error}"
    return f"The next message is about {'this picture' if len(pictures) == 1 else f'{len(pictures)} pictures'}."


def _told(name: str, value: str, assistant: Assistant, last: Finished | None, load: Callable[[str], None]) -> str:
    """Do what a command says; what there is to say about it."""
    if name == "new":
        return "A new conversation."
    if name == "stats":
        return summary(last) if last is not None else "Nothing was answered yet."
    if name == "model":
        if value:
            try:
                load(value)
            except OmniDraftError as error:
                return f"omnidraft: {error}"
        return f"{_named(assistant)} answers."
    if name in ("help", "?"):
        return _COMMANDS
    return f"There is no command /{name[:40]}.\n{_COMMANDS}"


def _named(assistant: Assistant) -> str:
    """The model that answers, which is loaded before a conversation begins."""
    return assistant.target.name if assistant.target is not None else ""


def new_chat() -> str:
    """A name under which what is learned on the terminal can be forgotten; the conversation itself is not kept."""
    return f"terminal-{uuid.uuid4().hex}"


def _answer(
    assistant: Assistant, messages: Sequence[Message], sampling: SamplingSettings, draft: DraftSettings, chat: str,
    interrupts: Interrupts, shown: bool = True,
) -> tuple[str, list[int], Finished]:  # fmt: skip
    """Print an answer as it comes, if it is to be shown; its text, also if it was stopped, its ids, and its end."""
    request = AnswerRequest(messages, sampling, draft, source=chat, capture=assistant.capture)
    said: list[Token | Finished] = []
    with interrupts, closing(assistant.answer(request)) as events:
        for event in events:
            if isinstance(event, (Token, Finished)):
                said.append(event)
                print(event.text if shown else "", end="", flush=True)
            elif isinstance(event, Notice):
                print(event.text, file=sys.stderr)
            elif interrupts.pending:
                assistant.stop()  # in case it came before the engine had begun
    finished = next(event for event in said if isinstance(event, Finished))  # every other end is an error
    if shown:
        print()
        print(("[stopped] " if finished.reason == "cancelled" else "") + summary(finished), file=sys.stderr)
    return "".join(event.text for event in said), [event.id for event in said if isinstance(event, Token)], finished


def _told_again(assistant: Assistant, said: str, ids: Sequence[int], sampling: SamplingSettings) -> Message:
    """An answer as later turns get it: its thoughts apart."""
    assert assistant.engine is not None  # it has just answered
    target = assistant.engine.target
    reader = AnswerRequest((), sampling).told(target.template).reader({})
    read = collect([*reader.feed(said), *reader.finish()])
    own = Spelled(target.model.vocabulary.fingerprint, tuple(ids))
    return {"role": "assistant", "content": read.content, "reasoning_content": read.reasoning, KEY: own}


def _lines(prompt: str) -> Iterator[str]:
    """Non-empty input lines until the input ends."""
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            if prompt:
                print()
            return
        if line:
            yield line


_NUMBERS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "max_tokens")
_SAMPLING = [setting for setting in describe(SamplingSettings) if setting.name in _NUMBERS]
_MODEL = describe(ModelSettings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", help="model file or folder (default: the profile's, first a bundled one)")
    parser.add_argument("--drafter", help="drafter file (default: the profile's, first the bundled one)")
    parser.add_argument("--no-draft", action="store_true", help="decode plainly")
    parser.add_argument("--ngram-cache", choices=("on", "off"), default="on")
    parser.add_argument("--no-seed-cache", action="store_true", help="start an empty n-gram cache")
    parser.add_argument("--adapter", default="auto", help="auto (what was learned), none, or a GGUF LoRA file")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--prompt", help="answer this one message and stop; - reads it from standard input")
    source.add_argument(
        "--prompts",
        help=f"answer every prompt of a bundled task ({', '.join(TASKS)}) or of a file: a line is a prompt, and in a "
        '*.jsonl file {"messages": [{"role": "user", "content": "..."}]}',
    )
    for setting in (*_SAMPLING, *_MODEL):
        add_setting(parser, setting, "--ctx" if setting.name == "n_ctx" else "")
    parser.add_argument("--image", type=Path, action="append", default=[],
                        help="a picture that the first message is about (may be repeated)")  # fmt: skip
    parser.add_argument("--mmproj", type=Path, help="the target's projector for pictures (default: one beside it)")
    parser.add_argument("--think", choices=("on", "off", *EFFORTS),
                        help="whether the model thinks before it answers, or how much, if it can be told")  # fmt: skip
    parser.add_argument("--stop", action="append", help="a text that ends the answer (may be repeated)")
    parser.add_argument("--draft-length", help="drafter tokens per round, or adaptive")
    parser.add_argument("--system", help="system message")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--ephemeral", action="store_true", help="leave no trace: the n-gram cache is not kept")
    parser.add_argument("--json", action="store_true", help="one JSON object per prompt; with --prompt or --prompts")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    conversing = args.prompt is None and args.prompts is None
    library.wait_for(library.build_soon())
    assistant = Assistant(home, args.profile, ephemeral=args.ephemeral, learn=conversing)
    try:
        sampling, draft = sampling_settings(args, assistant), draft_settings(args, assistant)
        pictures = [open_picture(path) for path in args.image]
        prompts = _prompts(args, pictures)
        with Interrupts() as interrupts:
            _load(args, assistant)
        interrupts.check()
        _check_thinking(args, assistant)
        if prompts is None:

            def load(name: str) -> None:
                _load(argparse.Namespace(**{**vars(args), "target": name, "mmproj": None}), assistant)

            return converse(assistant, sampling, draft, _system(args), pictures, load)
        chat = new_chat()
        for prompt in prompts:
            interrupts = Interrupts(assistant.stop)
            found = _answer(assistant, prompt.messages, sampling, draft, chat, interrupts, shown=not args.json)
            if args.json:
                print_json({"id": prompt.id, **report(*found)})
            interrupts.check()  # interrupted, it has still said what there is
        return 0
    finally:
        assistant.close()


def sampling_settings(args: argparse.Namespace, assistant: Assistant) -> SamplingSettings:
    """The profile's sampling settings with what the arguments change."""
    changes = given(args, _SAMPLING)
    if args.stop:
        changes["stop"] = tuple(args.stop)
    if args.think:
        changes["thinking"] = args.think
    return dataclasses.replace(assistant.settings.sampling, **changes)


def _check_thinking(args: argparse.Namespace, assistant: Assistant) -> None:
    engine = assistant.engine
    words = list(engine.target.template.thinking) if engine is not None else []
    if args.think and engine is not None and args.think not in words:
        known = f"it knows {', '.join(words)}" if words else "it knows no such switch"
        raise SettingsError(f"--think {args.think} does nothing with {engine.target.model.name}: {known}.")


def draft_settings(args: argparse.Namespace, assistant: Assistant) -> DraftSettings:
    changes: dict[str, Any] = {"enabled": False} if args.no_draft else {}
    if args.draft_length is not None:
        length = draft_length(args.draft_length)
        changes |= {"mode": "adaptive"} if length is None else {"mode": "fixed", "length": length}
    return dataclasses.replace(assistant.settings.draft, **changes)


def _load(args: argparse.Namespace, assistant: Assistant) -> None:
    model = dataclasses.replace(assistant.settings.model, **given(args, _MODEL))
    cache = dataclasses.replace(assistant.settings.cache, enabled=args.ngram_cache == "on")
    if args.no_seed_cache:
        cache = dataclasses.replace(cache, seed=False)
    target = choose_target(args.target, assistant.home, assistant.settings)
    drafter = None if args.no_draft else choose_drafter(args.drafter, assistant.home, assistant.settings, target)
    adapter = args.adapter if args.adapter in (AUTO, NO_ADAPTER) else Path(args.adapter)
    notices = assistant.load(target, drafter, model, cache, adapter=adapter, projector=args.mmproj)
    for notice in (*assistant.warnings, *notices):
        print(notice, file=sys.stderr)


def _system(args: argparse.Namespace) -> list[dict[str, str]]:
    return [{"role": "system", "content": args.system}] if args.system else []


def _standard_input() -> str:
    try:
        text = sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        raise SettingsError("What came through standard input is not valid UTF-8.") from None
    if not text:
        raise SettingsError("Nothing came through standard input; --prompt - reads the message from there.")
    return text


def _prompts(args: argparse.Namespace, pictures: list[Picture]) -> list[Prompt] | None:
    """What to answer; None for a conversation."""
    if args.prompt == "-":
        args.prompt = _standard_input()
    for name in ("prompt", "system"):
        try:
            (getattr(args, name) or "").encode()
        except UnicodeEncodeError:
            raise SettingsError(f"The text given with --{name} is not valid UTF-8.") from None
    system = _system(args)
    if args.prompt is not None:
        return [Prompt("prompt", "", None, (*system, {"role": "user", **with_pictures(args.prompt, pictures)}))]
    if args.prompts is not None:
        if pictures:
            raise SettingsError("--image goes with --prompt or a conversation, not with --prompts.")
        return [dataclasses.replace(p, messages=(*system, *p.messages)) for p in load_prompts(args.prompts)]
    if args.json:
        raise SettingsError("--json needs --prompt or --prompts.")
    return None
