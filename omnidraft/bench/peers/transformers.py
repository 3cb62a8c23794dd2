"""Hugging Face's assisted generation on the folder: UAG at temperature 0, TLI above."""

from __future__ import annotations

from omnidraft.bench.columns import Column
from omnidraft.bench.peers.peer import PLAIN, Answer, Burst, Models, Question, answer_of, greedy
from omnidraft.bench.transformers_models import AssistedModel
from omnidraft.errors import ModelError
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

ASSISTED = "assisted"


class Transformers:
    """A target and a drafter in transformers."""

    ways: tuple[str, ...] = (PLAIN, ASSISTED)

    def __init__(self, models: Models) -> None:
        if models.folder is None or models.drafter_folder is None:
            raise ModelError("There is no folder of this target to give to transformers.")
        self.notes = ["assisted is UAG at temperature 0 and TLI above"]
        self._ends = sorted(read_gguf_vocabulary(models.target).eog)
        self._model = AssistedModel(models.folder, models.drafter_folder, models.threads)

    def answer(self, way: str, question: Question) -> Answer:
        came = self._model.generate(question.prompt, question.sampling, self._ends, assisted=way == ASSISTED)
        return answer_of(Burst(ids, at) for ids, at in came)

    def keeps_text(self, way: str, column: Column) -> bool:
        return greedy(column)

    def close(self) -> None:
        self._model.close()
