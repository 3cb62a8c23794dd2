"""Measures what the pages cost: `python -m tests.ui.measure` prints figures, and one JSON line last (needs Chromium).

Runs take turns, command line and browser, so that a busy moment hits both. The model is a bundled one whose file says
that its context is longer and that nothing ends an answer: it writes 2,000 tokens whatever it thinks of them. It is
far faster than a model anybody would talk to, so the share that streaming takes is the largest there can be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.ui.chatting import arrived, new_chat
from tests.ui.conftest import ARGUMENTS, CHROMIUM, ROOT, Server, write_settings

TOKENS = 2000
PATIENCE = 240_000  # ms: a machine others use may stand still for minutes
NEVER = 187  # the bundled target's token for the byte FF, which no text holds
PROMPT = "Tell me a very long story."
SEED = 11
# Drafting off: its rounds depend on what the machine was doing. Learning is another part's cost.
SETTINGS = f"""[model]
threads = 1
n_ctx = 4096

[sampling]
temperature = 0.8
seed = {SEED}
max_tokens = TOKENS

[draft]
enabled = false

[learning]
enabled = false
"""
# Notes when the text of the answer changed on the page.
WATCH = """() => {
  window.odMoments = [];
  if (window.odWatch) window.odWatch.disconnect();
  let last = '';
  const look = () => {
    const rows = document.querySelectorAll('#od-chat .bot-row .message');
    const text = rows.length ? rows[rows.length - 1].textContent : '';
    if (text !== last) { last = text; window.odMoments.push(performance.now()); }
  };
  const what = {childList: true, subtree: true, characterData: true};
  window.odWatch = new MutationObserver(look);
  window.odWatch.observe(document.querySelector("#od-chat"), what);
}"""


def endless(source: Path, made: Path) -> Path:
    """A copy of a bundled target, enlarged or not, with a context of 4,096 tokens in which no token ends an answer."""
    data = source.read_bytes()
    for old, new in ((b"<|eot_id|>", b"<|eot_no|>"), (b"<|end_of_text|>", b"<|end_of_tale|>")):
        data = data.replace(old, new)
    for key, value in ((b"llama.context_length", 4096), (b"tokenizer.ggml.eos_token_id", NEVER)):
        at = data.index(key) + len(key) + 4  # behind the key stands its type
        data = data[:at] + struct.pack("<I", value) + data[at + 4 :]
    made.write_bytes(data)
    return made


def from_command_line(model: Path, data: Path, tokens: int) -> float:
    """Tokens per second between the first and the last character that `chat --prompt` prints."""
    settings = {"--temperature": "0.8", "--seed": str(SEED), "--max-tokens": str(tokens), "--threads": "1",
                "--ctx": "4096", "--target": str(model), "--prompt": PROMPT, "--data-dir": str(data)}  # fmt: skip
    command = [sys.executable, "-m", "omnidraft", "chat", "--no-draft", "--ephemeral"]
    command += [part for pair in settings.items() for part in pair]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        moments = [time.perf_counter() for _ in iter(lambda: process.stdout.read(65536), b"")]
    assert process.returncode == 0
    return tokens / (moments[-2] - moments[0])  # the last piece is the line end behind the answer


def from_browser(page, server: Server) -> tuple[float, list[float]]:
    """(tokens per second of the server's answer, moments in ms at which the page's text changed)."""
    new_chat(page)
    page.evaluate(WATCH)
    page.fill("#od-box textarea", PROMPT)
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-stop", state="visible")
    page.wait_for_selector("#od-send", state="visible")
    link = page.get_attribute("#od-links >> text=JSON", "href")
    chat = json.loads(page.request.get(server.origin + link).text())["conversations"][0]
    answer = chat["messages"][-1]
    numbers = answer["meta"]["statistics"]
    assert answer["meta"]["finish_reason"] == "length", answer["meta"].get("error")
    wall = chat["updated"] - answer["created"] - numbers["prefill"]
    return numbers["tokens"] / wall, page.evaluate("window.odMoments")


def busiest_second(moments: Sequence[float]) -> int:
    """Most changes within any 1,000 ms."""
    return max((sum(start <= m < start + 1000 for m in moments) for start in moments), default=0)


def ready_seconds(browser, data: Path) -> float:
    """From the first answer of a fresh server to a page one can write on."""
    server = Server(data)
    write_settings(server, SETTINGS.replace("TOKENS", "8"))
    try:
        server.start()
        begun = time.perf_counter()
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(server.origin)
        arrived(page)
        page.wait_for_selector("#od-box textarea", state="visible")
        took = time.perf_counter() - begun
        page.close()
        return took
    finally:
        server.kill()


def measure(folder: Path, source: Path, rounds: int, tokens: int) -> dict:
    from playwright.sync_api import sync_playwright

    model = endless(source, folder / "endless.gguf")
    line, pages, peaks, mean = [], [], [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        ready = [ready_seconds(browser, folder / f"ready{i}") for i in range(3)]
        server = Server(folder / "app", ["--target", str(model)])
        write_settings(server, SETTINGS.replace("TOKENS", str(tokens)))
        server.start()
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(PATIENCE)
            page.goto(server.origin)
            for _ in range(rounds):
                line.append(from_command_line(model, folder / "line", tokens))
                speed, moments = from_browser(page, server)
                pages.append(speed)
                peaks.append(busiest_second(moments))
                mean.append(1000 * len(moments) / (moments[-1] - moments[0]))
                print(f"command line {line[-1]:.0f} tokens/s, browser {speed:.0f} tokens/s, "
                      f"{mean[-1]:.1f} updates/s, at most {peaks[-1]}", flush=True)  # fmt: skip
        finally:
            server.kill()
            browser.close()
    loss = [1 - ours / theirs for ours, theirs in zip(pages, line, strict=True)]
    return {
        "tokens": tokens,
        "rounds": rounds,
        "command_line_tokens_per_second": [round(x, 1) for x in line],
        "browser_tokens_per_second": [round(x, 1) for x in pages],
        "loss_median": round(statistics.median(loss), 4),
        "loss_of_the_best": round(1 - max(pages) / max(line), 4),
        "updates_per_second": round(statistics.median(mean), 1),
        "updates_in_the_busiest_second": max(peaks),
        "page_ready_seconds": [round(x, 2) for x in ready],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the pages cost.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument(
        "--model",
        type=Path,
        default=ROOT / "models/tiny-target-a-f16.gguf",
        help="this target, or an enlarged one (`python -m omnidraft models expand`), which is as slow as a real model",
    )
    args = parser.parse_args()
    if CHROMIUM is None:
        print("There is no Chromium on this machine: set CHROMIUM to its path.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args.model, args.rounds, args.tokens)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
