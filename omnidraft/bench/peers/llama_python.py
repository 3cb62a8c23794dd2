"""llama-cpp-python's own generation: plain, and with its prompt lookup at the two lengths its manual names."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import llama_cpp
import numpy as np
from llama_cpp.llama_speculative import LlamaDraftModel, LlamaPromptLookupDecoding

from omnidraft.bench.columns import Column
from omnidraft.bench.peers.bursts import Answer, Burst, answer_of
from omnidraft.bench.peers.peer import PLAIN, Models, Question, greedy

LENGTHS = (2, 10)  # "10 is the default and generally good for gpu, 2 performs better for cpu-only machines"


class _Counting(LlamaDraftModel):
    """Prompt lookup that counts how often it was asked: once a target pass."""

    def __init__(self, length: int) -> None:
        self._lookup = LlamaPromptLookupDecoding(num_pred_tokens=length)
        self.asked = 0

    def __call__(self, input_ids: np.ndarray, /, **options: object) -> np.ndarray:
        self.asked += 1
        return self._lookup(input_ids, **options)


class LlamaPython:
    """One loaded model a way: whether all logits are kept is settled at loading, and costs plain decoding time."""

    name = "llama-cpp-python"

    def __init__(self, models: Models) -> None:
        self.notes: list[str] = []
        self._lookups = {f"lookup:{length}": _Counting(length) for length in LENGTHS}
        self.ways = (PLAIN, *self._lookups)
        self._loaded: dict[str, llama_cpp.Llama] = {}
        try:
            for way in self.ways:
                self._loaded[way] = llama_cpp.Llama(
                    str(models.target), n_ctx=models.n_ctx, n_threads=models.threads, n_threads_batch=models.threads,
                    draft_model=self._lookups.get(way), verbose=False,
                )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def answer(self, way: str, question: Question) -> Answer:
        return answer_of(self._bursts(way, question))

    def _bursts(self, way: str, question: Question) -> Iterator[Burst]:
        model, sampling = self._loaded[way], question.sampling
        lookup, left = self._lookups.get(way), question.max_tokens
        model.reset()
        model.set_seed(question.seed)
        came: list[int] = []
        begun, at, asked = perf_counter(), 0.0, lookup.asked if lookup else 0
        for token in model.generate(
            list(question.prompt), temp=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p,
            min_p=sampling.min_p, repeat_penalty=1.0,
        ):  # fmt: skip
            now = perf_counter() - begun
            if came and (lookup is None or lookup.asked > asked):  # a new pass
                yield Burst(tuple(came), at)
                came = []
            came.append(token)
            at, asked = now, lookup.asked if lookup else 0
            left -= 1
            if not left or llama_cpp.llama_vocab_is_eog(model._model.vocab, token):
                break
        yield Burst(tuple(came), at)

    def keeps_text(self, way: str, column: Column) -> bool:
        return greedy(column)

    def close(self) -> None:
        for model in self._loaded.values():
            model.close()
        self._loaded.clear()
