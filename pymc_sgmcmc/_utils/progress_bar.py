"""A progress bar for loops that take long."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.progress import Progress

__all__ = ["with_bar"]

PATIENCE = 2.0
"""Expected duration in seconds above which a progress bar appears."""


def with_bar(items: Sequence[Any], text: str, progressbar: bool) -> Iterator[Any]:
    """Yield the items, with a progress bar once it is clear that they take long."""
    start, bar = time.monotonic(), None
    try:
        for number, item in enumerate(items):
            yield item
            elapsed = time.monotonic() - start
            if bar is None and progressbar and elapsed > PATIENCE / 4:
                if elapsed * len(items) / (number + 1) > PATIENCE:
                    bar = Progress()
                    task = bar.add_task(text, total=len(items))
                    bar.start()
            if bar is not None:
                bar.update(task, completed=number + 1)
    finally:
        if bar is not None:
            bar.stop()
