"""`chat`: interactive on a terminal, or one-shot over prompts with JSON results.

One-shot stores no chat and does not train; the n-gram cache learns unless `--ephemeral`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from omnidraft.assistant import Assistant
from omnidraft.bench.prompts import Prompt, load_prompts
from omnidraft.cli.defaults import choose_adapter, choose_drafter, choose_target
from omnidraft.config import DraftSettings, SamplingSettings
from omnidraft.decoding.events import Finished, Notice, Statistics, Token
from omnidraft.errors import SettingsError
from omnidraft.paths import find_data_home

_SAMPLING = {"temperature": float, "top_k": int, "top_p": float, "min_p": float, "repeat_penalty": float,
             "seed": int, "max_tokens": int}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", help="model file or folder (default: the profile's, first a bundled one)")
    parser.add_argument("--drafter", help="drafter file (default: the profile's, first the bundled one)")
    parser.add_argument("--no-draft", action="store_true", help="decode plainly")
    parser.add_argument("--ngram-cache", choices=("on", "off"), default="on")
    parser.add_argument("--no-seed-cache", action="store_true", help="start an empty n-gram cache")
    parser.add_argument("--adapter", default="auto", help="auto, none, or a GGUF LoRA file")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--prompt", help="answer this one message and stop")
    source.add_argument("--prompts", help="answer every prompt of a JSONL file, or of a bundled task (math, code, ...)")
    for name, kind in _SAMPLING.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind)
    parser.add_argument("--stop", action="append", help="a text that ends the answer (may be repeated)")
    parser.add_argument("--ctx", type=int, help="context length in tokens; 0: the model's own")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--n-gpu-layers", type=int)
    parser.add_argument("--kv-type", choices=("f16", "q8_0", "q4_0"))
    parser.add_argument("--verification", choices=("coupled", "rejection", "paper"))
    parser.add_argument("--draft-length", help="drafter tokens per round, or adaptive")
    parser.add_argument("--system", help="system message")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--ephemeral", action="store_true", help="leave no trace: the n-gram cache is not kept")
    parser.add_argument("--json", action="store_true", help="one JSON object per prompt")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    assistant = Assistant(home, args.profile, ephemeral=args.ephemeral)
    try:
        sampling, draft = sampling_settings(args, assistant), draft_settings(args, assistant)
        prompts = _prompts(args)
        _load(args, assistant)
        if prompts is None:
            return _converse(args, assistant, sampling, draft)
        for prompt in prompts:
            _answer_one(args, assistant, prompt, sampling, draft)
        return 0
    finally:
        assistant.close()


def sampling_settings(args: argparse.Namespace, assistant: Assistant) -> SamplingSettings:
    """The profile's sampling settings with what the arguments change."""
    given = {name: value for name in _SAMPLING if (value := getattr(args, name)) is not None}
    if args.stop:
        given["stop"] = tuple(args.stop)
    return dataclasses.replace(assistant.settings.sampling, **given)


def draft_settings(args: argparse.Namespace, assistant: Assistant) -> DraftSettings:
    given: dict = {}
    if args.no_draft:
        given["enabled"] = False
    if args.verification:
        given["verification"] = args.verification
    if args.draft_length == "adaptive":
        given["mode"] = "adaptive"
    elif args.draft_length is not None:
        if not args.draft_length.isdigit():
            raise SettingsError(f"--draft-length takes a whole number or 'adaptive', not '{args.draft_length}'.")
        given.update(mode="fixed", length=int(args.draft_length))
    return dataclasses.replace(assistant.settings.draft, **given)


def _load(args: argparse.Namespace, assistant: Assistant) -> None:
    names = {"n_ctx": args.ctx, "threads": args.threads, "n_gpu_layers": args.n_gpu_layers, "kv_type": args.kv_type}
    model = dataclasses.replace(
        assistant.settings.model, **{name: value for name, value in names.items() if value is not None}
    )
    cache = dataclasses.replace(assistant.settings.cache, enabled=args.ngram_cache == "on")
    if args.no_seed_cache:
        cache = dataclasses.replace(cache, seed=False)
    target = choose_target(args.target, assistant.home, assistant.settings)
    drafter = None if args.no_draft else choose_drafter(args.drafter, assistant.home, assistant.settings)
    for notice in assistant.load(target, drafter, model, cache, adapter=choose_adapter(args.adapter)):
        print(notice, file=sys.stderr)
    if args.json:
        assistant.measure_near_ties()


def _prompts(args: argparse.Namespace) -> list[Prompt] | None:
    system = [{"role": "system", "content": args.system}] if args.system else []
    if args.prompt is not None:
        return [Prompt("prompt", "", None, (*system, {"role": "user", "content": args.prompt}))]
    if args.prompts is not None:
        return [dataclasses.replace(p, messages=(*system, *p.messages)) for p in load_prompts(args.prompts)]
    return None


def _answer_one(
    args: argparse.Namespace, assistant: Assistant, prompt: Prompt, sampling: SamplingSettings, draft: DraftSettings
) -> None:
    text, ids, finished = [], [], None
    for event in assistant.answer(prompt.messages, sampling, draft):
        if isinstance(event, Token):
            text.append(event.text)
            ids.append(event.id)
            if not args.json:
                print(event.text, end="", flush=True)
        elif isinstance(event, Notice):
            print(event.text, file=sys.stderr)
        elif isinstance(event, Finished):
            text.append(event.text)
            finished = event
    if args.json:
        print(json.dumps({"id": prompt.id, **report("".join(text), ids, finished)}, ensure_ascii=False), flush=True)
    else:
        print(finished.text)
        print(summary(finished), file=sys.stderr)


def report(text: str, ids: list[int], finished: Finished) -> dict:
    """The JSON object of one answer."""
    s = finished.statistics
    return {
        "text": text,
        "token_ids": ids,
        "prompt_tokens": s.prompt_tokens,
        "reused_tokens": s.reused_tokens,
        "tokens": s.tokens,
        "target_passes": s.target_passes,
        "rounds": s.rounds,
        "drafted": s.drafted,
        "proposed": s.proposed,
        "tested": s.tested,
        "accepted": s.accepted,
        "acceptance_rate": s.acceptance_rate,
        "tokens_per_pass": s.tokens_per_pass,
        "origins": s.origins,
        "tokens_per_second": s.tokens_per_second,
        "seconds": {name: getattr(s, name) for name in ("prefill", "draft", "translate", "verify", "other")},
        "near_ties": s.near_ties,
        "near_tie_positions": list(s.near_tie_positions),
        "finish_reason": finished.reason,
        "seed": finished.seed,
        "draft_disabled_reason": finished.draft_disabled_reason,
    }


def summary(finished: Finished) -> str:
    """One line about an answer's speed, for people."""
    s: Statistics = finished.statistics
    parts = [f"{s.tokens} tokens"]
    if s.tokens_per_second:
        parts.append(f"{s.tokens_per_second:.1f} tokens/s")
    if s.acceptance_rate is not None:
        parts.append(f"{s.acceptance_rate:.0%} of {s.proposed} proposals accepted")
        parts.append(f"{s.tokens_per_pass:.2f} tokens per pass")
    if finished.draft_disabled_reason:
        parts.append(f"no drafting: {finished.draft_disabled_reason}")
    return "[" + ", ".join(parts) + "]"


def _converse(
    args: argparse.Namespace, assistant: Assistant, sampling: SamplingSettings, draft: DraftSettings
) -> int:
    """A conversation on the terminal until end of input; Ctrl+C stops an answer, then the program."""
    messages = [{"role": "system", "content": args.system}] if args.system else []
    print(f"{assistant.target.name}. An empty line or Ctrl+D ends the conversation.", file=sys.stderr)
    for line in _lines():
        messages.append({"role": "user", "content": line})
        said: list[str] = []
        events = assistant.answer(messages, sampling, draft)
        try:
            for event in events:
                if isinstance(event, Token):
                    said.append(event.text)
                    print(event.text, end="", flush=True)
                elif isinstance(event, Notice):
                    print(event.text, file=sys.stderr)
                elif isinstance(event, Finished):
                    print(event.text)
                    print(summary(event), file=sys.stderr)
        except KeyboardInterrupt:
            print("\n[stopped]", file=sys.stderr)
        finally:
            events.close()
        messages.append({"role": "assistant", "content": "".join(said)})
    return 0


def _lines() -> Iterator[str]:
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            return
        if not line:
            return
        yield line
