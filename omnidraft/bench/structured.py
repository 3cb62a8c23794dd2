"""`bench structured`: answers that follow a JSON schema, and what the schema adds to the time to the first token.

Every answer is written plainly, with what its grammar forces alone, with drafts of four pieces alone, and with both;
the text must be the same. Times of the grammar are taken at a vocabulary of 128,256 pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.backends.prompting.grammar import check_grammar, json_grammar
from omnidraft.backends.prompting.grammar_state import GrammarState, whole_vocabulary
from omnidraft.bench.columns import Column, label, sampling_of
from omnidraft.bench.overhead import TARGET_SIZE, filled
from omnidraft.bench.pairs import draft_settings, engine_of
from omnidraft.bench.plans import Structured
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work, each_cell
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import Prompt, load_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import DraftSettings, ModelSettings

Schema = dict[str, Any]
FIELDS = 20
_WORD: Schema = {"type": "string", "maxLength": 20}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def many_fields(name: str = "field") -> Schema:
    """An object of 20 fields of all kinds."""
    kinds: list[Schema] = [{"type": "boolean"}, {"enum": ["low", "medium", "high"]}, {"type": "integer"}, _WORD]
    return _object(**{f"{name}_number_{i}": kinds[i % len(kinds)] for i in range(FIELDS)})


SCHEMAS: dict[str, Schema] = {
    "an answer": _object(question=_WORD, answer={"type": "string", "maxLength": 60}, sure={"type": "boolean"}),
    "records": {
        "type": "array", "minItems": 2, "maxItems": 4,
        "items": _object(kind={"enum": ["sum", "function", "fact"]}, title=_WORD, count={"type": "integer"}),
    },
    "20 fields": many_fields(),
}  # fmt: skip
# Whether a drafter drafts, and whether forced tokens are proposed; both None: decoded plainly.
WAYS: dict[str, tuple[bool, bool] | None] = {
    "plain": None, "forced alone": (False, True), "drafter alone": (True, False), "both": (True, True),
}  # fmt: skip


def run(plan: Structured, work: Work) -> Iterator[Report]:
    work.told("the grammar's times")
    times = grammar_times(plan.prompts)
    rows: list[dict] = []
    for found in each_cell(plan, work, "structured", partial(_cell, plan, work)):
        rows += found
        yield Report([*rows, times], [_table(rows), _times_table(times)])


def _cell(plan: Structured, work: Work, target: Path, drafter: Path, column: Column) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[Trace]] = {}
    for way, used in WAYS.items():
        work.told(f"{target.stem} {label(column)}: {way}")
        with closing(Assistant(work.home, ephemeral=True)) as assistant:
            assistant.load(target, drafter if used and used[0] else None, ModelSettings(threads=plan.threads))
            for schema in SCHEMAS:
                found[schema, way] = _answers(assistant, plan, schema, used, column)
    rows = []
    for (schema, way), traces in found.items():
        tokens, passes = sum(t.tokens for t in traces), sum(len(t.rounds) for t in traces)
        plain = [trace.ids for trace in found[schema, "plain"]]
        same = sum(trace.ids == ids for trace, ids in zip(traces, plain, strict=True))
        rows.append({"target": target.stem, "temperature": column, "schema": schema, "way": way, "answers": len(traces),
                     "same": same, "tokens": tokens, "passes": passes, "tokens_per_pass": tokens / passes})  # fmt: skip
    return rows


def _answers(
    assistant: Assistant, plan: Structured, schema: str, used: tuple[bool, bool] | None, column: Column
) -> list[Trace]:
    engine_of(assistant).forcing = used is not None and used[1]
    draft = draft_settings("plain") if used is None else DraftSettings(mode="fixed", length=4)
    prompts: Sequence[Prompt] = load_prompts("qa", limit=plan.prompts)
    return [
        record(assistant.answer(AnswerRequest(
            prompt.messages, sampling_of(column, seed=number, max_tokens=plan.max_tokens), draft,
            grammar=json_grammar(SCHEMAS[schema]),
        )))
        for number, prompt in enumerate(prompts)
    ]  # fmt: skip


def grammar_times(count: int) -> dict[str, Any]:
    """Milliseconds, medians over `count` schemas that nobody has seen: until the first token may be drawn, and for a
    mask of the whole vocabulary at each place where there is a choice."""
    vocabulary = filled("tiny-target-a", TARGET_SIZE)
    whole_vocabulary(vocabulary)  # made while the model is loaded
    firsts, masks = [], []
    for number in range(count):
        begun = perf_counter()
        grammar = json_grammar(many_fields(f"schema_{number}"))
        check_grammar(grammar)
        state = GrammarState(grammar, vocabulary)
        if state.only() is None:
            state.mask()
        firsts.append(perf_counter() - begun)
        masks += _mask_times(state)
    return {"vocabulary": TARGET_SIZE, "fields": FIELDS, "first_token_ms": 1e3 * median(firsts),
            "mask_ms": 1e3 * median(masks), "worst_mask_ms": 1e3 * max(masks), "masks": len(masks)}  # fmt: skip


def _mask_times(state: GrammarState, most: int = 300) -> list[float]:
    """Of each place with a choice along one answer, which takes the first id that is allowed."""
    times = []
    for _ in range(most):
        if (token := state.only()) is None:
            begun = perf_counter()
            allowed = state.mask()
            times.append(perf_counter() - begun)
            if not allowed.any() or state.follows(b"", end=True):
                break
            token = int(allowed.argmax())
        state.accept(token)
    return times


def _table(rows: Sequence[dict]) -> Table:
    return Table(
        "Answers under a schema: tokens in a pass of the target",
        ["target", "sampling", "schema", "way", "tokens/pass", "same text"],
        [[r["target"], label(r["temperature"]), r["schema"], r["way"], r["tokens_per_pass"],
          f"{r['same']} of {r['answers']}"] for r in rows],
    )  # fmt: skip


def _times_table(times: dict[str, Any]) -> Table:
    title = f"A schema of {times['fields']} fields at a vocabulary of {times['vocabulary']:,}, ms"
    names = ["first_token_ms", "mask_ms", "worst_mask_ms"]
    return Table(title, ["first token later by", "a mask", "the worst mask"], [[times[name] for name in names]])
