"""Keys under which PyTensor stores what Numba has compiled of this package."""

import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

__all__ = ["numba_key", "version_of"]


def numba_key(module: str, *what: object) -> str:
    """Return a key for code that is written in the module of this name, and made for `what`.

    Stored code imports the module by its name. With the name in the key, code that an earlier
    release has stored is not found by one whose modules have moved.
    """
    return "-".join(map(str, (module, *what, version_of(module))))


@cache
def version_of(module: str) -> int:
    """Return a version of the module of this name: a hash of its name and file.

    It is one that nobody forgets to raise.
    """
    text = Path(str(sys.modules[module].__file__)).read_bytes()
    return int(sha256(module.encode() + text).hexdigest()[:15], 16)
