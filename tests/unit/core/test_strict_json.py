"""JSON from strangers: what is refused, in one line, and what comes through."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core import strict_json
from whisper_hailo.core.errors import ModelError, TokenizerError
from whisper_hailo.core.strict_json import (
    MismatchError,
    decode,
    parse_json,
    read_json_object,
)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": "\xff"}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 100 + b"]" * 100,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"{",
        b"",
        b"\xef\xbb\xbf{}",
        b"1 2",
    ],
)
def test_parse_json_unsafe_document_is_refused(raw: bytes) -> None:
    with pytest.raises(MismatchError, match="JSON"):
        parse_json(raw)


def test_parse_json_too_many_containers_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strict_json, "MOST_CONTAINERS", 100)
    assert len(parse_json(b"[" + b"[]," * 98 + b"[]]")) == 99
    with pytest.raises(MismatchError, match="more than 100"):
        parse_json(b"[" + b"[]," * 99 + b"[]]")
    with pytest.raises(MismatchError, match="more than 100"):
        parse_json(b"[" + b"{}," * 99 + b"{}]")


def test_parse_json_deeper_than_64_levels_is_refused() -> None:
    assert [parse_json(raw) for raw in (b"3", b"true", b"null", b'"a"')] == [
        3,
        True,
        None,
        "a",
    ]
    assert parse_json(b"[" * 64 + b"]" * 64)
    assert parse_json(b'{"a":' * 64 + b"1" + b"}" * 64)
    mixed = b'[1,{"b":2,"a":' * 32
    ends = b"}]" * 32
    assert parse_json(mixed + b"1" + ends)
    for raw in (b"[" * 65 + b"]" * 65, mixed + b"[]" + ends):
        with pytest.raises(MismatchError, match="64 levels"):
            parse_json(raw)


def test_parse_json_lone_surrogate_is_kept() -> None:
    assert parse_json(rb'"\udcff"') == os.fsdecode(b"\xff")


def test_read_json_object_bad_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        read_json_object(path, TokenizerError)
    os.mkfifo(path)
    with pytest.raises(TokenizerError, match="regular file"):
        read_json_object(path, TokenizerError)
    path.unlink()
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(TokenizerError, match="list"):
        read_json_object(path, TokenizerError)
    monkeypatch.setattr(strict_json, "LARGEST_BYTES", 1)
    with pytest.raises(ModelError, match="more than"):
        read_json_object(path)


@dataclass(frozen=True, slots=True)
class Inner:
    pair: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Outer:
    number: int
    share: float
    name: str
    flag: bool
    inner: Inner
    ids: tuple[int, ...] = ()
    table: dict[str, int] | None = None
    either: int | tuple[int, ...] | None = None
    rows: tuple[Inner, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    table: dict[str, int] = field(default_factory=dict)
    number: int = 3


GOOD = {"number": 1, "share": 2, "name": "n", "flag": True, "inner": {"pair": [1, 2]}}


def test_decode_converts_to_annotated_types() -> None:
    given = {
        "ids": [3],
        "table": {"a": 1},
        "either": [4, 5],
        "rows": [{"pair": [6, 7]}],
    }
    assert decode(Outer, GOOD | given | {"foreign": 1}) == Outer(
        1, 2.0, "n", True, Inner((1, 2)), (3,), {"a": 1}, (4, 5), (Inner((6, 7)),)
    )
    assert decode(Outer, GOOD | {"either": 3}).either == 3
    assert decode(Outer, GOOD | {"either": None}).either is None


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"number": True}, r"number\b.*True"),
        ({"number": 1.0}, r"number\b.*1\.0"),
        ({"number": 2**63}, r"number\b.*a number of 64 bits"),
        ({"number": None}, r"number\b.*null"),
        ({"share": "much"}, r"share\b.*'much'"),
        ({"share": True}, r"share\b.*True"),
        ({"name": ["x" * 999]}, r"name\b.*a list"),
        ({"flag": 1}, r"^flag \w+ 1\b"),
        ({"inner": []}, r"inner\b.*a list"),
        ({"inner": {}}, r"inner\.pair\b.*missing"),
        ({"inner": {"pair": [1]}}, r"inner\.pair\b.*1 values"),
        ({"ids": {"0": 1}}, r"ids\b.*an object"),
        ({"ids": [1, "2"]}, r"ids\[1\].*'2'"),
        ({"ids": [1, 2**70]}, r"ids\[1\].*a number of 71 bits"),
        ({"table": {"a": {}}}, r"table\.a\b.*an object"),
        ({"either": "x"}, r"either\b.*'x'"),
        ({"rows": [{"pair": [1, None]}]}, r"rows\[0\]\.pair\[1\].*null"),
    ],
)
def test_decode_wrong_field_names_its_path(
    change: dict[str, object], pattern: str
) -> None:
    with pytest.raises(MismatchError, match=pattern) as caught:
        decode(Outer, GOOD | change)
    assert len(str(caught.value)) < 200


MOST = 9_223_372_036_854_775_807
"""Largest integer of 63 bits."""


@pytest.mark.parametrize("number", [MOST, -MOST, 0])
def test_decode_63_bit_integer_is_accepted(number: int) -> None:
    assert decode(int, number) == number
    assert decode(tuple[int, ...], [1, number]) == (1, number)
    assert decode(dict[str, int], {"a": number, "b": -1}) == {"a": number, "b": -1}
    assert decode(float, number) == float(number)


@pytest.mark.parametrize("number", [MOST + 1, -MOST - 1])
def test_decode_64_bit_integer_is_refused(number: int) -> None:
    kind: Any
    for kind, value in (
        (int, number), (float, number), (tuple[int, ...], [1, number]), (list[int], [number]),
        (dict[str, int], {"a": number, "b": 1}),
    ):  # fmt: skip
        with pytest.raises(MismatchError, match="64 bits"):
            decode(kind, value, "x")


def test_decode_nested_types_are_converted() -> None:
    for kind in (tuple[int, ...], tuple[str, ...], tuple[Inner, ...]):
        assert decode(kind, []) == ()
    assert decode(list[int], []) == []
    assert decode(list[Inner], [{"pair": [1, 2]}]) == [Inner((1, 2))]
    assert decode(dict[str, int], {}) == {}
    assert decode(dict[str, Inner], {"a": {"pair": [1, 2]}}) == {"a": Inner((1, 2))}
    assert decode(dict[str, str], {"a": "b"}) == {"a": "b"}
    assert decode(dict[str, object], {"a": [1, None]}) == {"a": [1, None]}
    assert decode(tuple[str, ...], ["a", "b"]) == ("a", "b")
    assert decode(tuple[int, str, float], [1, "a", 2]) == (1, "a", 2.0)
    assert decode(tuple[int], [1]) == (1,)
    assert decode(Made, {}) == Made({}, 3)
    assert decode(tuple[tuple[int, int], ...], [[1, 2], [3, 4], [5, 6]]) == (
        (1, 2),
        (3, 4),
        (5, 6),
    )
    assert decode(bool, False) is False
    assert decode(tuple[bool, ...], [True]) == (True,)
    assert isinstance(decode(float, 1), float)
    either: Any
    for either, value in ((None | int, 3), (int | str, "a"), (int | None, None)):
        assert decode(either, value) == value


@pytest.mark.parametrize(
    ("kind", "value", "pattern"),
    [
        (int, "x", r"^it\b.*'x'"),
        (Inner, {}, r"^pair\b.*missing$"),
        (tuple[int, str], ["a", 1], r"^\[0\].*'a'"),
        (tuple[int, int, int], [1, 2], r"2 values"),
        (tuple[int, ...], [1, True], r"\[1\].*True"),
        (tuple[str, ...], ["a", 1], r"^\[1\] \w+ 1\b"),
        (tuple[int, ...], ["a", "b"], r"\[0\].*'a'"),
        (dict[str, int], {"a": True}, r"\.a\b.*True"),
        (dict[str, str], {"a": 1}, r"\.a\b.*1"),
        (dict[str, Inner], {"a": {}}, r"\.a\.pair\b.*missing$"),
        (list[int], {}, r"an object"),
        (int | str, None, r"null"),
        (int | str, 1.5, r"1\.5"),
        (str, 1, r"^\w+ \w+ 1\b"),
        (bool, 0, r"^\w+ \w+ 0\b"),
        (float, True, r"True"),
    ],
)
def test_decode_wrong_type_names_its_path(
    kind: Any, value: object, pattern: str
) -> None:
    with pytest.raises(MismatchError, match=pattern):
        decode(kind, value)


def test_decode_error_path_begins_with_source() -> None:
    for change, pattern in (
        ({"number": None}, r"^model\.json\.number\b.*null"),
        ({"inner": {}}, r"^model\.json\.inner\.pair\b.*missing$"),
    ):
        with pytest.raises(MismatchError, match=pattern):
            decode(Outer, GOOD | change, "model.json")


def test_escape_surrogates_round_trips() -> None:
    assert strict_json.escape_surrogates('{"ä": "\udcff"}') == r'{"ä": "\udcff"}'
    assert parse_json(strict_json.escape_surrogates('"\udcff"').encode()) == "\udcff"
