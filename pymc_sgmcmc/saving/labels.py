"""Labels of draws (dates, periods, pairs, None, ...) as JSON; reading them runs no code."""

import datetime
import json
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

__all__ = ["label_from_text", "label_to_text"]

AS_TEXT = {cls.__name__: cls for cls in (Decimal, Fraction, UUID)}
ISO = {cls.__name__: cls for cls in (datetime.date, datetime.time, datetime.datetime)}
MISSING = {"NaT": pd.NaT, "NA": pd.NA}


def label_to_text(label: Any) -> str:
    """Return JSON of `label`; raise TypeError if it could not be restored exactly."""
    return json.dumps(_encode(label), separators=(",", ":"))


def label_from_text(text: str) -> Any:
    """Return the label in `text`; raise ValueError if the text is no label."""
    try:
        return _decode(json.loads(text))
    except (KeyError, TypeError, RecursionError, OverflowError, ArithmeticError) as error:
        raise ValueError(f"no label: {text[:80]!r}") from error


def _encode(label: Any) -> Any:
    cls, name = type(label), type(label).__name__
    if label is None or cls in (bool, str):
        return label
    if cls is int:
        return {"int": hex(label)}
    if cls is float:
        return {"float": label.hex()}
    if cls is complex:
        return {"complex": [label.real.hex(), label.imag.hex()]}
    if cls is bytes:
        return {"bytes": label.hex()}
    if cls in (tuple, list):
        return {name: [_encode(item) for item in label]}
    if cls is frozenset:
        return {name: sorted((_encode(item) for item in label), key=repr)}
    for missing, value in MISSING.items():
        if label is value:
            return {"missing": missing}
    if cls in AS_TEXT.values():
        return {name: str(label)}
    if cls is datetime.date:
        return {name: [label.isoformat(), None, 0]}
    if cls in (datetime.time, datetime.datetime) and _zone(label) is not False:
        return {name: [label.replace(tzinfo=None).isoformat(), _zone(label), label.fold]}
    if cls is datetime.timedelta:
        return {name: [label.days, label.seconds, label.microseconds]}
    if cls is pd.Timestamp and _zone(label) is not False:
        return {name: [str(label.asm8.astype(np.int64)), label.unit, _zone(label)]}
    if cls is pd.Timedelta:
        return {name: [str(label.asm8.astype(np.int64)), label.unit]}
    if cls is pd.Period:
        return {name: [label.ordinal, label.freqstr]}
    if cls is pd.Interval:
        return {name: [_encode(label.left), _encode(label.right), label.closed]}
    if isinstance(label, np.generic) and label.dtype.kind in "biufcmMUS":
        return {"scalar": [label.dtype.str, label.tobytes().hex()]}
    raise TypeError(f"a {cls.__module__}.{cls.__qualname__} is not known: {label!r}")


def _zone(moment: Any) -> str | float | bool | None:
    """Return a time zone's name or offset in seconds; None if there is none, False if unknown."""
    zone = getattr(moment, "tzinfo", None)
    if zone is None:
        return None
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    if type(zone).__module__.startswith("pytz") and zone.zone:  # what pandas 2 makes of a name
        return zone.zone
    if type(zone) is datetime.timezone:
        return zone.utcoffset(None).total_seconds()
    return False


def _zone_of(zone: str | float | None) -> datetime.tzinfo | None:
    if zone is None or isinstance(zone, str):
        return None if zone is None else ZoneInfo(zone)
    return datetime.timezone(datetime.timedelta(seconds=zone)) if zone else datetime.UTC


def _decode(data: Any) -> Any:
    if not isinstance(data, dict):
        if isinstance(data, bool | str) or data is None:
            return data
        raise ValueError(f"no label: {data!r}")
    ((kind, content),) = data.items()
    if kind in DECODERS:
        return DECODERS[kind](content)
    raise ValueError(f"this version does not know labels of the kind {kind!r}")


def _moment(cls: Any, content: Any) -> Any:
    text, zone, fold = content
    moment = cls.fromisoformat(text)
    return moment if cls is datetime.date else moment.replace(tzinfo=_zone_of(zone), fold=fold)


def _timestamp(content: Any) -> pd.Timestamp:
    count, unit, zone = content
    moment = pd.Timestamp(np.datetime64(int(count), unit))
    return moment if zone is None else moment.tz_localize("UTC").tz_convert(_zone_of(zone))


def _scalar(content: Any) -> np.generic:
    dtype = np.dtype(content[0])
    if dtype.kind not in "biufcmMUS":
        raise ValueError(f"no label is of type {content[0]!r}")
    return np.frombuffer(bytes.fromhex(content[1]), dtype=dtype)[0]


DECODERS = {
    "int": lambda content: int(content, 16),
    "float": float.fromhex,
    "complex": lambda content: complex(*map(float.fromhex, content)),
    "bytes": bytes.fromhex,
    "tuple": lambda content: tuple(map(_decode, content)),
    "list": lambda content: list(map(_decode, content)),
    "frozenset": lambda content: frozenset(map(_decode, content)),
    "missing": MISSING.__getitem__,
    "timedelta": lambda content: datetime.timedelta(*content),
    "Timestamp": _timestamp,
    "Timedelta": lambda content: pd.Timedelta(np.timedelta64(int(content[0]), content[1])),
    "Period": lambda content: pd.Period(ordinal=content[0], freq=content[1]),
    "Interval": lambda content: pd.Interval(*map(_decode, content[:2]), closed=content[2]),
    "scalar": _scalar,
    **AS_TEXT,
    **{name: partial(_moment, cls) for name, cls in ISO.items()},
}
