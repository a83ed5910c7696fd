"""PyTensor without what takes a tenth of the time of the tests, and changes nothing."""

import pytensor
from pytensor.graph import basic, utils
from pytensor.link.c.op import ExternalCOp
from pytensor.tensor.variable import TensorConstantSignature

__all__ = ["hasten"]


def hasten():
    """Replace what PyTensor does again and again by what has the same result sooner."""
    _read_c_code_once()
    _compare_numbers_as_numbers()
    _remember_no_lines()


def _read_c_code_once():
    """PyTensor 2 reads the files of C code for each `DimShuffle`."""
    read, known = ExternalCOp.load_c_code, {}

    def load_c_code(operation, files):
        if (key := (type(operation), *files)) not in known:
            read(operation, files)
            known[key] = operation.func_codes, operation.code_sections
        operation.func_codes, operation.code_sections = known[key]

    ExternalCOp.load_c_code = load_c_code


def _compare_numbers_as_numbers():
    """PyTensor compares constants by sums of masked arrays, and has many lengths to compare."""
    compare = TensorConstantSignature.__eq__

    def is_equal(one, other):
        if type(one) is not type(other) or one[1].ndim or other[1].ndim:
            return compare(one, other)
        (kind, number), (other_kind, other_number) = one, other
        both_nan = number != number and other_number != other_number
        return kind == other_kind and bool(number == other_number or both_nan)

    TensorConstantSignature.__eq__ = is_equal


def _remember_no_lines():
    """PyTensor asks its configuration twice for each variable how many lines to remember of it."""
    pytensor.config.traceback__limit = 0

    def forget(thing, user_line=None):
        thing.tag.trace = []
        return thing

    basic.add_tag_trace = utils.add_tag_trace = forget
