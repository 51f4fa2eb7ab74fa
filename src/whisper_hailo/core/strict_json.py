"""Strict JSON from untrusted files: size, depth, numbers and types are checked first.

Everything that describes a model comes through here: `model.json`, the configs and tokenizers of
checkpoints, headers of their arrays, and records of graphs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import read_regular_file

T = TypeVar("T")

LARGEST_BYTES: Final = 1 << 24
"""Four times the largest tokenizer of a Whisper."""
MOST_CONTAINERS: Final = 1 << 20
"""Lists and objects in one file: each takes twenty times its size on disk."""
DEEPEST: Final = 64
LARGEST_NUMBER: Final = 2**63 - 1

_NAMES: Final = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class MismatchError(ValueError):
    """A value has another type than expected; says where, what is there, what is expected."""


def read_json(path: Path, kind: type[ModelError] = ModelError) -> Any:  # noqa: ANN401 - any JSON
    """Read a JSON file.

    Raises:
        ModelError: (or `kind`) unreadable, or see `parse_json`.
    """
    try:
        return parse_json(read_bounded(path, kind))
    except MismatchError as error:
        raise kind(f"{display_path(path)}: {error}; fetch the file again") from error


def read_json_object(path: Path, kind: type[ModelError] = ModelError) -> dict[str, Any]:
    """Read a JSON object from a file."""
    raw = read_json(path, kind)
    if not isinstance(raw, dict):
        raise kind(f"{display_path(path)} holds a {type(raw).__name__}, expected a JSON object")
    return raw


def read_bounded(path: Path, kind: type[ModelError] = ModelError) -> bytes:
    """Read a file of at most 16 MiB.

    Raises:
        ModelError: (or `kind`) not a regular file, unreadable, or too large.
    """
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


def decode(wanted: type[T], value: object, where: str = "") -> T:
    """Convert a JSON value to a type: dataclasses, tuples, dicts, plain values.

    Args:
        wanted: the type; dataclass fields without a default are required, unknown keys ignored.
        value: from `parse_json`.
        where: name of the value, for messages.
    """
    result: T = _decode_any(wanted, value, where)
    return result


def _decode_any(wanted: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - any type, any JSON
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if origin in _NAMES:
        result = _decode_plain(wanted, value, where)
    elif origin is tuple:
        result = _decode_tuple(inner, value, where)
    elif origin is list:
        result = [*_decode_tuple((*inner, ...), value, where)]
    elif origin is dict:
        result = _decode_dict(inner[1], value, where)
    elif is_dataclass(origin):
        result = _decode_dataclass(origin, value, where)
    elif origin is UnionType:
        result = _decode_union(inner, value, where)
    else:
        result = value
    return result


def _decode_dict(inner: Any, value: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 - any type
    items = _require_type(dict, "an object", value, where)
    if _all_are(inner, items.values()):
        return items
    return {key: _decode_any(inner, item, f"{where}.{key}") for key, item in items.items()}


def _decode_plain(wanted: type, value: object, where: str) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int) and is_number and abs(value) > LARGEST_NUMBER:
        raise MismatchError(f"{where} is a number of {value.bit_length()} bits, expected 63")
    if wanted is float and isinstance(value, int) and is_number:
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and not is_number):
        raise MismatchError(_describe_mismatch(where, value, _NAMES[wanted]))
    return value


def _all_are(wanted: type, values: Collection[Any]) -> bool:
    """Return whether values are all plain ones of a type, quickly: vocabularies are large."""
    if wanted not in (int, str) or not {*map(type, values)} <= {wanted}:
        return False
    return (
        wanted is str
        or -LARGEST_NUMBER <= min(values, default=0) <= max(values, default=0) <= LARGEST_NUMBER
    )


def _decode_tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:  # noqa: ANN401
    items = _require_type(list, "a list", value, where)
    if inner[-1] is Ellipsis and _all_are(inner[0], items):
        return tuple(items)
    kinds = repeat(inner[0], len(items)) if inner[-1] is Ellipsis else inner
    if inner[-1] is not Ellipsis and len(items) != len(inner):
        raise MismatchError(f"{where} has {len(items)} values, expected {len(inner)}")
    pairs = enumerate(zip(kinds, items, strict=True))
    return tuple(_decode_any(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:  # noqa: ANN401
    """Return the value as the first type that fits; errors are about the first, the usual one."""
    if value is None and NoneType in kinds:
        return None
    first: MismatchError | None = None
    for kind in kinds:
        if kind is NoneType:
            continue
        try:
            return _decode_any(kind, value, where)
        except MismatchError as error:
            first = first or error
    raise first or MismatchError(_describe_mismatch(where, value, "null"))


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    raw = _require_type(dict, "an object", value, where)
    hints, prefix = _field_types(kind), f"{where}." if where else ""
    for field in fields(kind):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if is_needed and field.name not in raw:
            raise MismatchError(f"{prefix}{field.name} is missing")
    given = {name: kind for name, kind in hints.items() if name in raw}
    return kind(**{n: _decode_any(wanted, raw[n], f"{prefix}{n}") for n, wanted in given.items()})


@cache
def _field_types(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _require_type(wanted: type[T], name: str, value: object, where: str) -> T:
    if not isinstance(value, wanted):
        raise MismatchError(_describe_mismatch(where, value, name))
    return value


def _describe_mismatch(where: str, value: object, expected: str) -> str:
    named: dict[type, str] = {dict: "an object", list: "a list", NoneType: "null"}
    described = named.get(type(value)) or repr(value)[:60]
    return f"{where or 'it'} is {described}, expected {expected}"


def _parse_finite(text: str) -> float:
    """Parse a number, which must be finite."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _is_deep(value: object) -> bool:
    """Return whether lists and objects are nested deeper than any model file needs."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _find_containers(outer)]
        if not level:
            return False
    return True


def _find_containers(value: object) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not {dict, list} & {*map(type, inner)}:  # vocabularies are large and flat
        return []
    return [item for item in inner if isinstance(item, dict | list)]
