"""What PyMC's live table shows of a chain."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rich.progress import TextColumn
from rich.table import Column

__all__ = ["COLUMNS", "progress_columns", "progress_updates"]

COLUMNS = {
    "divergences": ("Divergences", "{task.fields[divergences]}", 0),
    "step_size": ("Step size", "{task.fields[step_size]:0.3g}", 0.0),
    "kinetic_temperature": ("Temperature", "{task.fields[kinetic_temperature]:0.3f}", 0.0),
}


def progress_columns(
    names: Collection[str], n_chains: int
) -> tuple[list[TextColumn], dict[str, list[float]]]:
    """Columns of the stats `names`, and their values before the first draw."""
    shown = {name: COLUMNS[name] for name in COLUMNS if name in names}
    columns = [
        TextColumn(text, table_column=Column(header, ratio=1)) for header, text, _ in shown.values()
    ]
    return columns, {name: [start] * n_chains for name, (_, _, start) in shown.items()}


def progress_updates(
    names: Collection[str],
) -> tuple[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """Functions that pick the shown stats out of those of a draw."""

    def update(stats: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: stats[name] for name in COLUMNS if name in names}
        return shown | {"failing": stats["divergences"] > 0}

    return (update,)
