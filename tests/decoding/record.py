"""What the bundled drafter would have drafted at every token of real answers.

`python -m tests.decoding.record FOLDER [FILE ...]`: FOLDER has the models that tests.real names, or those given. A
recording is one target's: {"tasks", "prompts": ids, "answers": ids, "drafts"}, the last a list for each answer of what
was drafted at each of its tokens behind the first: [pieces, proposals], a piece being [log q, entropy] in hundredths
and a proposal [id, first piece, pieces, origin].
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from omnidraft.decoding.acceptance import AcceptanceHead, Averages, Drafted
from omnidraft.decoding.drafting import Drafting, FixedLength
from omnidraft.decoding.pick import GreedyPicker
from omnidraft.decoding.request import AnswerRequest
from omnidraft.decoding.verify import Emission, Verdict
from omnidraft.lab.prompts import TASKS, load_prompts
from omnidraft.settings.config import ModelSettings, SamplingSettings
from tests.answering import PLAIN, answered, loaded
from tests.decoding.recorded import RECORDINGS
from tests.real import LARGE, QWEN, SMOL

PROMPTS, TOKENS, PIECES = 5, 80, 12


class Sure(FixedLength):
    """Drafts to a length, and keeps how sure the drafter was of each piece."""

    def __init__(self) -> None:
        super().__init__(PIECES)
        self.drafted = Drafted(None, AcceptanceHead(), Averages(), 0.0)

    def drew(self, row, piece: int) -> None:
        self.drafted.drew(row, piece)

    def told(self) -> list[list[int]]:
        pieces = [[round(100 * sure) for sure in piece] for piece in self.drafted._pieces]
        self.drafted.begin()
        return pieces


def drafts(drafting: Drafting, answer: list[int]) -> Iterator[list]:
    """At each token behind the first one, which comes without."""
    policy, picker = Sure(), GreedyPicker()
    drafting.settle(Verdict([Emission(answer[0], None)]), [])
    for at, said in enumerate(answer[1:], 1):
        drafting.draft(policy, picker, at)
        proposals = drafting.translator.segment(drafting.pieces)
        yield [policy.told(), [[p.target_id, p.start, p.pieces, p.origin] for p in proposals]]
        drafting.settle(Verdict([Emission(said, None)], 0, 1), proposals)


def recorded(target: Path, drafter: Path) -> dict:
    found: dict[str, list] = {"tasks": [], "prompts": [], "answers": [], "drafts": []}
    greedy = SamplingSettings(temperature=0.0, max_tokens=TOKENS)
    with TemporaryDirectory() as home, loaded(Path(home), target, drafter, ModelSettings()) as pair:
        for task in TASKS:
            for prompt in load_prompts(task, "test", PROMPTS):
                messages = [dict(message) for message in prompt.messages]
                ids, _ = answered(pair, messages, greedy, PLAIN)
                drafting, why = pair.engine._drafting(messages, AnswerRequest(messages, greedy))
                assert drafting, why
                found["tasks"].append(task)
                found["prompts"].append(pair.engine.target.committed[: -len(ids)])
                found["answers"].append(ids)
                found["drafts"].append(list(drafts(drafting, ids)))
    return found


def main(folder: Path, names: list[str]) -> None:
    drafter = Path(__file__).parents[2] / "models" / "smol-drafter-q5_0.gguf"
    for name in names or (SMOL, QWEN, LARGE):
        data = json.dumps(recorded(folder / name, drafter), separators=(",", ":")).encode()
        (RECORDINGS / f"{Path(name).stem}.json.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
