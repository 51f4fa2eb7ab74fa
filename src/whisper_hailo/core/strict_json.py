"""Strict JSON from untrusted files: size, depth, numbers and types are checked first.

Everything that describes a model comes through here: `model.json`, the configs and tokenizers of
checkpoints, headers of their arrays, and records of graphs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.read_files import read_regular_file

T = TypeVar("T")

LARGEST_BYTES: Final = 1 << 24
"""Four times the largest tokenizer of a Whisper model."""

MOST_CONTAINERS: Final = 1 << 20
"""Lists and objects in one file: in memory each takes twenty times its size on disk."""

DEEPEST: Final = 64
"""Levels of lists and objects in each other; Python's own limit depends on the caller's depth."""

LARGEST_NUMBER: Final = 2**63 - 1
"""What NumPy and ONNX hold."""

_PLAIN: Final = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
}
_CONTAINERS: Final = {dict: "an object", list: "a list", NoneType: "null"}


class MismatchError(ValueError):
    """A value has another type than expected; the message names the value and both types."""


def read_json_object(path: Path, kind: type[ModelError] = ModelError) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        ModelError: of the given kind; the file cannot be read, or holds something else.
    """
    try:
        raw = parse_json(read_bounded(path, kind))
    except MismatchError as error:
        raise kind(f"{display_path(path)}: {error}; fetch the file again") from error
    if not isinstance(raw, dict):
        actual = type(raw).__name__
        raise kind(f"{display_path(path)} holds a {actual}, expected a JSON object")
    return raw


def read_bounded(path: Path, kind: type[ModelError] = ModelError) -> bytes:
    """Read a regular file of at most 16 MiB.

    Raises:
        ModelError: of the given kind.
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
        text = raw.decode("utf-8")
        value = json.loads(
            text, parse_constant=_parse_finite, parse_float=_parse_finite
        )
        if _is_deep(value):
            raise RecursionError
    except RecursionError as error:
        raise MismatchError(
            f"not readable JSON (over {DEEPEST} levels deep)"
        ) from error
    except ValueError as error:
        raise MismatchError(f"not readable JSON ({error})") from error
    return value


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a message.

    Raises:
        MismatchError: as `parse_json`, no object, or half surrogates, which cannot be sent on.
    """
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise MismatchError("no JSON object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        raise MismatchError(
            "not readable JSON (it contains half a surrogate pair)"
        ) from None
    return value


def escape_surrogates(text: str) -> str:
    """Escape half surrogates, which file names may have, so that a file can hold them."""
    return text.encode(errors="backslashreplace").decode()


def decode(kind: type[T], value: Any, where: str = "") -> T:  # noqa: ANN401 - any JSON
    """Convert a JSON value to a type: dataclasses, tuples, dicts, plain values.

    Args:
        kind: the type; dataclass fields without a default are required, unknown keys ignored.
        value: from `parse_json`.
        where: name of the value, for messages.

    Raises:
        MismatchError: the value has another type.
    """
    origin = get_origin(kind) or kind
    inner = get_args(kind)
    result: Any = value
    if origin in _PLAIN:
        result = _decode_plain(kind, value, where)
    elif origin is tuple:
        result = tuple(_decode_items(inner, value, where))
    elif origin is list:
        result = _decode_items((*inner, ...), value, where)
    elif origin is dict:
        result = _decode_dict(inner[1], value, where)
    elif is_dataclass(origin):
        result = _decode_dataclass(origin, value, where)
    elif origin is UnionType and not (value is None and NoneType in inner):
        kinds = [member for member in inner if member is not NoneType]
        result = _decode_union(kinds, value, where)
    return result  # type: ignore[no-any-return]


def _decode_plain(kind: type, value: object, where: str) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > LARGEST_NUMBER:
            raise MismatchError(
                f"{where} is a number of {value.bit_length()} bits, expected 63 at most"
            )
        if kind is float:
            return float(value)
    elif kind is int:
        # `True` is an `int` in Python, but not in JSON.
        raise _mismatch(kind, value, where)
    return _require_type(kind, value, where)


def _are_plain(kind: type, values: Collection[Any]) -> bool:
    """Return whether all values are texts, or numbers in range, and so need no decoding.

    This is quick, where `decode` is called for each value: vocabularies are large.
    """
    types = set(map(type, values))
    if kind not in (int, str) or not types <= {kind}:
        return False
    if kind is str or not values:
        return True
    smallest: int = min(values)
    largest: int = max(values)
    return smallest >= -LARGEST_NUMBER and largest <= LARGEST_NUMBER


def _decode_items(kinds: tuple[Any, ...], items: Any, where: str) -> list[Any]:  # noqa: ANN401
    _require_type(list, items, where)
    if kinds[-1] is Ellipsis:
        if _are_plain(kinds[0], items):
            return list(items)
        kinds = kinds[:1] * len(items)
    if len(items) != len(kinds):
        raise MismatchError(f"{where} has {len(items)} values, expected {len(kinds)}")
    return [
        decode(kind, item, f"{where}[{index}]")
        for index, (kind, item) in enumerate(zip(kinds, items, strict=True))
    ]


def _decode_dict(kind: Any, value: Any, where: str) -> dict[str, Any]:  # noqa: ANN401
    _require_type(dict, value, where)
    if _are_plain(kind, value.values()):
        return dict(value)
    return {key: decode(kind, item, f"{where}.{key}") for key, item in value.items()}


def _decode_union(kinds: list[Any], value: object, where: str) -> object:
    """Return the value as the first type that fits; an error is about the first, the usual one."""
    errors = []
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except MismatchError as error:
            errors.append(error)
    raise errors[0]


def _decode_dataclass(kind: Any, value: Any, where: str) -> object:  # noqa: ANN401
    _require_type(dict, value, where)
    prefix = f"{where}." if where else ""
    values = {}
    for field, hint in _typed_fields(kind):
        name = field.name
        if name in value:
            values[name] = decode(hint, value[name], prefix + name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise MismatchError(f"{prefix}{name} is missing")
    return kind(**values)


@cache
def _typed_fields(kind: type) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return [(field, hints[field.name]) for field in fields(kind)]


def _require_type(kind: type, value: object, where: str) -> object:
    if not isinstance(value, kind):
        raise _mismatch(kind, value, where)
    return value


def _mismatch(kind: type, value: object, where: str) -> MismatchError:
    subject = where or "it"
    actual = _CONTAINERS.get(type(value)) or repr(value)[:60]
    expected = _PLAIN.get(kind) or _CONTAINERS[kind]
    return MismatchError(f"{subject} is {actual}, expected {expected}")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _is_deep(value: object) -> bool:
    """Return whether lists and objects are nested deeper than any model file needs.

    It goes through them level by level: recursion could run into Python's own limit.
    """
    level = _containers_among([value])
    for _ in range(DEEPEST):
        next_level: list[_Container] = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            next_level += _containers_among(items)
        level = next_level
    return bool(level)


_Container: TypeAlias = dict[str, Any] | list[Any]


def _containers_among(items: Collection[Any]) -> list[_Container]:
    """Return the lists and objects among the items of one."""
    types = set(map(type, items))  # made in C: vocabularies are large and hold none
    if dict not in types and list not in types:
        return []
    return [item for item in items if isinstance(item, dict | list)]
