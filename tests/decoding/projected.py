"""What drafting brings on simulated machines at a given acceptance: `python -m tests.decoding.projected` prints it.

Ten answers of a hundred tokens, the app's own decision, means of six seeds. Acceptance is of drafts of four; a draft
step takes what the bundled drafter's takes.
"""

import numpy as np

from omnidraft.decoding.depth import PairStats
from omnidraft.decoding.drafting import FixedLength
from tests.decoding.simulation import COMPUTE_BOUND, FLAT, MEMORY_BOUND, Machine

STEP = 0.85e-3  # seconds
ACCEPTED = (0.15, 0.20, 0.29, 0.40)
MACHINES = {"memory-bound card": FLAT, "float weights, two cores": MEMORY_BOUND, "4 bits, two cores": COMPUTE_BOUND}
PASSES = (0.008, 0.02, 0.06)  # seconds


def machine(passes: dict[int, float], seconds: float, chance: float, seed: int) -> Machine:
    return Machine({rows: seconds * cost for rows, cost in passes.items()}, STEP, [chance], seed, catching_up=True)


def accepted(chance: float) -> float:
    """Share of drafts of four where each piece is right with this chance."""
    simulated, policy, counts = machine(FLAT, 0.02, chance, 1), FixedLength(4), np.zeros(2)
    for made in range(0, 6000, 2):
        done, *_ = simulated._round(policy, made)
        counts += done.accepted, done.proposed
    return counts[0] / counts[1]


def chance_of(share: float) -> float:
    low, high = 0.1, 0.9
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if accepted(middle) < share else (low, middle)
    return low


def speedup(passes: dict[int, float], seconds: float, chance: float) -> float:
    found = []
    for seed in range(6):
        simulated = machine(passes, seconds, chance, seed)
        outcome = simulated.answers(PairStats(simulated.cost.copy()), 10, 100)
        found.append(outcome.tokens * seconds / outcome.seconds)
    return float(np.mean(found))


def main() -> None:
    chances = [chance_of(share) for share in ACCEPTED]
    print("| machine | a pass | " + " | ".join(f"{share:.2f}" for share in ACCEPTED) + " |")
    print("|---" * (2 + len(ACCEPTED)) + "|")
    for name, passes in MACHINES.items():
        for seconds in PASSES:
            row = " | ".join(f"{speedup(passes, seconds, chance):.2f}" for chance in chances)
            print(f"| {name} | {1000 * seconds:.0f} ms | {row} |")


if __name__ == "__main__":
    main()
