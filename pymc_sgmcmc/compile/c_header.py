"""Operations whose C code is in a header of this folder."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from pymc_sgmcmc.compile.additions import is_plain
from pymc_sgmcmc.compile.pytensor_internals import COp

__all__ = ["HEADERS", "HeaderOp"]

HEADERS = Path(__file__).parent
"""The folder of the headers."""


class HeaderOp(COp):
    """An operation whose C code calls functions of a header.

    PyTensor stores compiled code under a key of versions and not of code. A hash of the header is
    in this key; `version` is to be raised when what is written in Python changes.

    Attributes
    ----------
    header : str
        The name of a file in `HEADERS`.
    version : int
    """

    header: ClassVar[str]
    version: ClassVar[int] = 1

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        impl = "py" if is_plain() else impl
        return super().make_thunk(node, storage_map, compute_map, no_recycling, impl)

    def c_headers(self, **kwargs):
        return [f'"{self.header}"']

    def c_header_dirs(self, **kwargs):
        return [str(HEADERS)]

    def c_code_cache_version(self):
        return (self.version, _hash_of(self.header))


@cache
def _hash_of(header: str) -> str:
    return sha256((HEADERS / header).read_bytes()).hexdigest()
