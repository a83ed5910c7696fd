"""Files with a checksum, and the error for files that are damaged."""

import hashlib
import os
from pathlib import Path

__all__ = ["DamagedRun", "StoredFile", "digest_of"]


class DamagedRun(ValueError):
    """Error for a file of a saved run that is missing, torn, altered, or of another run.

    The message names the file.
    """


class StoredFile:
    """A file that is written once.

    Parameters
    ----------
    path : Path
    digest : str
        The file's SHA-256.
    """

    def __init__(self, path: Path, digest: str):
        self.path, self.digest = path, digest
        self._checked: tuple[int, ...] | None = None

    def check(self) -> Path:
        """Return the path of the file; raise DamagedRun if its content has changed.

        The file is read again only if its size, time or inode have changed since the last check.
        """
        try:
            about = os.stat(self.path)
            seen = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            if seen != self._checked:
                if digest_of(self.path) != self.digest:
                    raise self.damaged("is torn or altered")
                self._checked = seen
        except OSError as error:
            raise self.damaged(f"is missing or cannot be read ({error})") from error
        return self.path

    def damaged(self, why: str) -> DamagedRun:
        """Return an error that names the file and says `why` it is damaged."""
        return DamagedRun(
            f"{str(self.path.parent)!r} cannot be read: {self.path.name} {why}. The segments "
            "before it are not affected: move this one and those after it away to go on from there."
        )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
