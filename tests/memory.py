"""Garbage is collected between tests, once it takes much of the machine's memory."""

import gc
import os
from pathlib import Path

STATM = Path("/proc/self/statm")
# Objects that one test may leave: 130 bytes each, and the data that they hold. A worker runs quick
# tests, of which none leaves many; a process by itself runs the statistics.
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
THRESHOLDS = (40_000_000 if IS_WORKER else 10_000_000, 20, 50)
SHARE = 1 / 3  # of the memory, for at least two processes: CI runs two jobs, and compilers, at once


def can_measure():
    """Say whether the system tells the memory that a process holds: Linux does."""
    return STATM.exists()


def resident_bytes():
    """Return the memory that this process holds, in bytes."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Growth:
    """The memory of this process since garbage was last collected.

    A count of objects says too little: models in cycles hold their data, of many megabytes in few
    objects. Where memory is not returned to the system, it is used again, and the process does not
    grow: so what is limited is the growth.
    """

    def __init__(self):
        self.limit = None
        if can_measure():
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
            self.limit, self.before = memory * SHARE / max(2, workers), resident_bytes()

    def collect_where_large(self):
        """Collect garbage if the process has grown by its share."""
        if self.limit and resident_bytes() > self.before + self.limit:
            gc.collect()
            self.before = resident_bytes()
