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
def test_what_is_no_json_of_a_model_is_refused(raw: bytes) -> None:
    with pytest.raises(MismatchError, match="JSON"):
        parse_json(raw)


def test_more_lists_than_any_model_has_are_not_even_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strict_json, "MOST_CONTAINERS", 100)
    assert len(parse_json(b"[" + b"[]," * 98 + b"[]]")) == 99
    with pytest.raises(MismatchError, match="more than 100"):
        parse_json(b"[" + b"[]," * 99 + b"[]]")
    with pytest.raises(MismatchError, match="more than 100"):
        parse_json(b"[" + b"{}," * 99 + b"{}]")


def test_depth_ends_where_it_says() -> None:
    assert [parse_json(raw) for raw in (b"3", b"true", b"null", b'"a"')] == [
        3,
        True,
        None,
        "a",
    ]
    assert parse_json(b"[" * 64 + b"]" * 64)
    assert parse_json(b'{"a":' * 64 + b"1" + b"}" * 64)
    mixed, ends = b'[1,{"b":2,"a":' * 32, b"}]" * 32
    assert parse_json(mixed + b"1" + ends)
    for raw in (b"[" * 65 + b"]" * 65, mixed + b"[]" + ends):
        with pytest.raises(MismatchError, match="64 levels"):
            parse_json(raw)


def test_half_characters_are_kept_since_file_names_have_them() -> None:
    assert parse_json(rb'"\udcff"') == os.fsdecode(b"\xff")


def test_files_are_plain_small_and_hold_objects(
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


def test_values_become_what_the_annotations_say() -> None:
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
    ("change", "told"),
    [
        ({"number": True}, "number is True"),
        ({"number": 1.0}, r"number is 1\.0"),
        ({"number": 2**63}, "number is a number of 64 bits"),
        ({"number": None}, "number is null"),
        ({"share": "much"}, "share is 'much'"),
        ({"share": True}, "share is True"),
        ({"name": ["x" * 999]}, "name is a list"),
        ({"flag": 1}, "flag is 1"),
        ({"inner": []}, "inner is a list"),
        ({"inner": {}}, r"inner\.pair is missing"),
        ({"inner": {"pair": [1]}}, r"inner\.pair has 1 values"),
        ({"ids": {"0": 1}}, "ids is an object"),
        ({"ids": [1, "2"]}, r"ids\[1\] is '2'"),
        ({"ids": [1, 2**70]}, r"ids\[1\] is a number of 71 bits"),
        ({"table": {"a": {}}}, r"table\.a is an object"),
        ({"either": "x"}, "either is 'x'"),
        ({"rows": [{"pair": [1, None]}]}, r"rows\[0\]\.pair\[1\] is null"),
    ],
)
def test_other_values_are_refused_with_their_place(
    change: dict[str, object], told: str
) -> None:
    with pytest.raises(MismatchError, match=told) as caught:
        decode(Outer, GOOD | change)
    assert len(str(caught.value)) < 200


MOST = 9_223_372_036_854_775_807
"""Of 63 bits."""


@pytest.mark.parametrize("number", [MOST, -MOST, 0])
def test_whole_numbers_have_63_bits(number: int) -> None:
    assert decode(int, number) == number
    assert decode(tuple[int, ...], [1, number]) == (1, number)
    assert decode(dict[str, int], {"a": number, "b": -1}) == {"a": number, "b": -1}
    assert decode(float, number) == float(number)


@pytest.mark.parametrize("number", [MOST + 1, -MOST - 1])
def test_and_no_more(number: int) -> None:
    kind: Any
    for kind, value in (
        (int, number), (float, number), (tuple[int, ...], [1, number]), (list[int], [number]),
        (dict[str, int], {"a": number, "b": 1}),
    ):  # fmt: skip
        with pytest.raises(MismatchError, match="64 bits"):
            decode(kind, value, "x")


def test_kinds_within_kinds() -> None:
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
    ("kind", "value", "told"),
    [
        (int, "x", r"^it is 'x'"),
        (Inner, {}, r"^pair is missing$"),
        (tuple[int, str], ["a", 1], r"^\[0\] is 'a'"),
        (tuple[int, int, int], [1, 2], r"has 2 values"),
        (tuple[int, ...], [1, True], r"\[1\] is True"),
        (tuple[str, ...], ["a", 1], r"\[1\] is 1"),
        (tuple[int, ...], ["a", "b"], r"\[0\] is 'a'"),
        (dict[str, int], {"a": True}, r"\.a is True"),
        (dict[str, str], {"a": 1}, r"\.a is 1"),
        (dict[str, Inner], {"a": {}}, r"\.a\.pair is missing$"),
        (list[int], {}, r"is an object"),
        (int | str, None, r"is null"),
        (int | str, 1.5, r"is 1\.5"),
        (str, 1, r"is 1"),
        (bool, 0, r"is 0"),
        (float, True, r"is True"),
    ],
)
def test_what_is_of_another_kind_is_told_where_it_is(
    kind: Any, value: object, told: str
) -> None:
    with pytest.raises(MismatchError, match=told):
        decode(kind, value)


def test_place_is_named_from_where_it_was_read() -> None:
    for change, told in (
        ({"number": None}, r"^model\.json\.number is null"),
        ({"inner": {}}, r"^model\.json\.inner\.pair is missing$"),
    ):
        with pytest.raises(MismatchError, match=told):
            decode(Outer, GOOD | change, "model.json")


def test_half_characters_are_written_as_json_writes_them() -> None:
    assert strict_json.escape_surrogates('{"ä": "\udcff"}') == r'{"ä": "\udcff"}'
    assert parse_json(strict_json.escape_surrogates('"\udcff"').encode()) == "\udcff"
