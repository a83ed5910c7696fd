"""The thread whose chain a step method samples: it has the state of one chain."""

from threading import get_ident
from typing import NoReturn

__all__ = ["Owner"]


class Owner:
    """The thread that has started the chain; no other may draw.

    What draws compares `thread` with its own, before and after it changes the state.

    A chain that is started in another thread takes over: that is right where the first has ended,
    also by an error or an interrupt. Where it has not, its next check finds that it is no longer
    the owner. It may have written to the state of the new chain by then, so that neither goes on.
    """

    def __init__(self) -> None:
        self.thread: int | None = None

    def claim(self) -> None:
        """Make this thread the owner. Call it before the state of the chain is set up."""
        self.thread = get_ident()

    def refuse(self, name: str) -> NoReturn:
        """Raise, as another thread is the owner; its next check fails as well.

        Parameters
        ----------
        name : str
            That of the step method.

        Raises
        ------
        RuntimeError
            Always.
        """
        self.thread = None
        raise RuntimeError(
            f"This step method ({name}) is sampled by two threads at once, and has the state "
            "of one chain: the draws of both are lost. Build a step method for each thread."
        )
