"""OmniDraft: one small drafter speeds up any local target model, exactly, and learns from its owner."""

import os

# GNU OpenMP's threads wait for each other behind every operation by spinning, 300,000 turns unless told otherwise: when
# another program has taken the core of one of them, the rest burn a whole time slice. After 10,000 turns (some 10
# microseconds) they sleep. On a silent machine that costs nothing that can be measured; 1,000 cost a tenth. It is read
# when the library is loaded, so it stands before every import; other OpenMP libraries ignore it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
