"""With this folder on PYTHONPATH every other look at the clock tells a time a month later, in child processes too."""

import itertools
import time

real, looks = time.time, itertools.count()
time.time = lambda: real() + next(looks) % 2 * 31 * 86400
