"""JSON from strangers: what is refused, in one line, and what comes through."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from whisper_hailo.core import strict_json
from whisper_hailo.core.errors import ModelError, TokenizerError
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json, read_json_object


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
    with pytest.raises(MismatchError, match="not readable JSON"):
        parse_json(raw)


def test_more_lists_than_any_model_has_are_not_even_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strict_json, "MOST_CONTAINERS", 100)
    assert len(parse_json(b"[" + b"[]," * 98 + b"[]]")) == 99
    with pytest.raises(MismatchError, match="more than 100 lists and objects"):
        parse_json(b"[" + b"[]," * 99 + b"[]]")


def test_depth_ends_where_it_says() -> None:
    deepest = strict_json.DEEPEST
    assert parse_json(b"[" * deepest + b"]" * deepest)
    with pytest.raises(MismatchError, match=f"over {deepest} levels deep"):
        parse_json(b"[" * (deepest + 1) + b"]" * (deepest + 1))


def test_half_characters_are_kept_since_file_names_have_them() -> None:
    assert parse_json(rb'"\udcff"') == os.fsdecode(b"\xff")


def test_files_are_plain_small_and_hold_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match=r"tokenizer\.json cannot be read \(No such file"):
        read_json_object(path, TokenizerError)
    os.mkfifo(path)
    with pytest.raises(TokenizerError, match="no plain file"):
        read_json_object(path, TokenizerError)
    path.unlink()
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(TokenizerError, match="holds a list, expected a JSON object"):
        read_json_object(path, TokenizerError)
    monkeypatch.setattr(strict_json, "LARGEST_BYTES", 1)
    with pytest.raises(ModelError, match="more than any of its kind"):
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


GOOD = {"number": 1, "share": 2, "name": "n", "flag": True, "inner": {"pair": [1, 2]}}


def test_values_become_what_the_annotations_say() -> None:
    given = {"ids": [3], "table": {"a": 1}, "either": [4, 5], "rows": [{"pair": [6, 7]}]}
    assert decode(Outer, GOOD | given | {"foreign": 1}) == Outer(
        1, 2.0, "n", True, Inner((1, 2)), (3,), {"a": 1}, (4, 5), (Inner((6, 7)),)
    )
    assert decode(Outer, GOOD | {"either": 3}).either == 3
    assert decode(Outer, GOOD | {"either": None}).either is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"number": True}, "number is True, expected a whole number"),
        ({"number": 1.0}, r"number is 1\.0, expected a whole number"),
        ({"number": 2**63}, "number is a number of 64 bits, expected 63"),
        ({"number": None}, "number is null, expected a whole number"),
        ({"share": "much"}, "share is 'much', expected a number"),
        ({"share": True}, "share is True, expected a number"),
        ({"name": ["x" * 999]}, "name is a list, expected a text"),
        ({"flag": 1}, "flag is 1, expected true or false"),
        ({"inner": []}, "inner is a list, expected an object"),
        ({"inner": {}}, r"inner\.pair is missing"),
        ({"inner": {"pair": [1]}}, r"inner\.pair has 1 values, expected 2"),
        ({"ids": {"0": 1}}, "ids is an object, expected a list"),
        ({"ids": [1, "2"]}, r"ids\[1\] is '2', expected a whole number"),
        ({"ids": [1, 2**70]}, r"ids\[1\] is a number of 71 bits"),
        ({"table": {"a": {}}}, r"table\.a is an object, expected a whole number"),
        ({"either": "x"}, "either is 'x', expected a whole number"),
        ({"rows": [{"pair": [1, None]}]}, r"rows\[0\]\.pair\[1\] is null"),
    ],
)
def test_other_values_are_refused_with_their_place(change: dict[str, object], told: str) -> None:
    with pytest.raises(MismatchError, match=told) as caught:
        decode(Outer, GOOD | change)
    assert len(str(caught.value)) < 200
