"""Strict JSON from untrusted files: size, depth, numbers and types are checked first.

Everything that describes a model comes through here: `model.json`, the configs and tokenizers of
checkpoints, headers of their arrays, and records of graphs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.read_files import read_regular_file

T = TypeVar("T")

LARGEST_BYTES: Final = 1 << 24
"""Four times the largest tokenizer of a Whisper."""
MOST_CONTAINERS: Final = 1 << 20
"""Lists and objects in one file: each takes twenty times its size on disk."""
DEEPEST: Final = 64
LARGEST_NUMBER: Final = 2**63 - 1

_PLAIN: Final = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_OTHER: Final = {dict: "an object", list: "a list", NoneType: "null"}


class MismatchError(ValueError):
    """A value has another type than expected; says where, what is there, what is expected."""


def read_json_object(path: Path, kind: type[ModelError] = ModelError) -> dict[str, Any]:
    """Read a JSON object from a file; raises `kind`."""
    try:
        raw = parse_json(read_bounded(path, kind))
    except MismatchError as error:
        raise kind(f"{display_path(path)}: {error}; fetch the file again") from error
    if not isinstance(raw, dict):
        raise kind(f"{display_path(path)} holds a {type(raw).__name__}, expected a JSON object")
    return raw


def read_bounded(path: Path, kind: type[ModelError] = ModelError) -> bytes:
    """Read a regular file of at most 16 MiB; raises `kind`."""
    try:
        return read_regular_file(path, LARGEST_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise kind(
            f"{display_path(path)} cannot be read ({reason}); fetch the file again"
        ) from error


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Parse JSON text in UTF-8.

    Raises:
        MismatchError: not UTF-8, not JSON, NaN or infinite numbers, too many lists and objects, or
            nested too deeply.
    """
    try:
        if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
            raise ValueError(f"more than {MOST_CONTAINERS} lists and objects")
        value = json.loads(
            raw.decode("utf-8"), parse_constant=_parse_finite, parse_float=_parse_finite
        )
        if _is_deep(value):
            raise RecursionError
    except RecursionError as error:
        raise MismatchError(f"not readable JSON (over {DEEPEST} levels deep)") from error
    except ValueError as error:
        raise MismatchError(f"not readable JSON ({error})") from error
    return value


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a message, without half surrogates."""
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise MismatchError("no JSON object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        raise MismatchError("not readable JSON (half a character is in it)") from None
    return value


def escape_surrogates(text: str) -> str:
    """Escape half surrogates, which file names may have, so that a file can hold them."""
    return text.encode(errors="backslashreplace").decode()


def decode(wanted: type[T], value: Any, where: str = "") -> T:  # noqa: ANN401 - any JSON
    """Convert a JSON value to a type: dataclasses, tuples, dicts, plain values.

    Args:
        wanted: the type; dataclass fields without a default are required, unknown keys ignored.
        value: from `parse_json`.
        where: name of the value, for messages.
    """
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    result: Any = value
    if origin in _PLAIN:
        result = _decode_plain(wanted, value, where)
    elif origin is tuple:
        result = tuple(_decode_items(inner, value, where))
    elif origin is list:
        result = _decode_items((*inner, ...), value, where)
    elif origin is dict:
        _require_type(dict, value, where)
        if not _all_are(inner[1], value.values()):
            result = {key: decode(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    elif is_dataclass(origin):
        result = _decode_dataclass(origin, value, where)
    elif origin is UnionType and not (value is None and NoneType in inner):
        result = _decode_union([kind for kind in inner if kind is not NoneType], value, where)
    return result  # type: ignore[no-any-return]


def _decode_plain(wanted: type, value: object, where: str) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int) and is_number and abs(value) > LARGEST_NUMBER:
        raise MismatchError(f"{where} is a number of {value.bit_length()} bits, expected 63")
    if wanted is float and isinstance(value, int) and is_number:
        return float(value)
    if wanted is int and not is_number:
        raise _mismatch(wanted, value, where)
    return _require_type(wanted, value, where)


def _all_are(wanted: type, values: Collection[Any]) -> bool:
    """Return whether values are all plain ones of a type, quickly: vocabularies are large."""
    if wanted not in (int, str) or not {*map(type, values)} <= {wanted}:
        return False
    return (
        wanted is str
        or -LARGEST_NUMBER <= min(values, default=0) <= max(values, default=0) <= LARGEST_NUMBER
    )


def _decode_items(kinds: tuple[Any, ...], items: Any, where: str) -> list[Any]:  # noqa: ANN401
    _require_type(list, items, where)
    if kinds[-1] is Ellipsis:
        if _all_are(kinds[0], items):
            return list(items)
        kinds = kinds[:1] * len(items)
    if len(items) != len(kinds):
        raise MismatchError(f"{where} has {len(items)} values, expected {len(kinds)}")
    pairs = enumerate(zip(kinds, items, strict=True))
    return [decode(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs]


def _decode_union(kinds: list[Any], value: object, where: str) -> object:
    """Return the value as the first type that fits; errors are about the first, the usual one."""
    errors = []
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except MismatchError as error:
            errors.append(error)
    raise errors[0]


def _decode_dataclass(kind: Any, value: Any, where: str) -> object:  # noqa: ANN401
    _require_type(dict, value, where)
    prefix, given = f"{where}." if where else "", {}
    for field, hint in _typed_fields(kind):
        if field.name in value:
            given[field.name] = decode(hint, value[field.name], prefix + field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise MismatchError(f"{prefix}{field.name} is missing")
    return kind(**given)


@cache
def _typed_fields(kind: type) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return [(field, hints[field.name]) for field in fields(kind)]


def _require_type(wanted: type, value: object, where: str) -> object:
    if not isinstance(value, wanted):
        raise _mismatch(wanted, value, where)
    return value


def _mismatch(wanted: type, value: object, where: str) -> MismatchError:
    given = _OTHER.get(type(value)) or repr(value)[:60]
    return MismatchError(f"{where or 'it'} is {given}, expected {(_PLAIN | _OTHER)[wanted]}")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _is_deep(value: object) -> bool:
    """Return whether lists and objects are nested deeper than any model file needs."""
    level: list[Iterable[Any]] = [[value]]
    for _ in range(DEEPEST + 1):
        level = [
            item.values() if isinstance(item, dict) else item
            for items in level
            if {dict, list} & {*map(type, items)}  # vocabularies are large and flat
            for item in items
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True
