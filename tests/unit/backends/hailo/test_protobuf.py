"""Protobuf messages read field by field."""

from __future__ import annotations

import itertools

import pytest

from whisper_hailo.backends.hailo.protobuf import Message
from whisper_hailo.core.errors import HefError


def message_of(data: bytes) -> Message:
    return Message(memoryview(data), iter(range(1000)))


def test_message_number_is_the_last_of_its_field() -> None:
    message = message_of(b"\x08\x01\x08\xac\x02")
    assert (message.number(1), message.count(1)) == (300, 2)
    assert (message.number(2), message.count(2)) == (0, 0)


def test_message_texts_and_messages_keep_their_order() -> None:
    message = message_of(b"\x12\x01a\x12\x02\xc3\xa4\x1a\x02\x08\x05\x1a\x02\x08\x07")
    assert message.texts(2) == ["a", "ä"]
    assert message.text(2) == "ä"
    assert [inner.number(1) for inner in message.messages(3)] == [5, 7]
    assert message.message(3).number(1) == 7


def test_message_of_missing_field_is_empty() -> None:
    message = message_of(b"")
    assert (message.text(1), message.texts(1), message.messages(1)) == ("", [], [])
    assert message.message(1).number(1) == 0


def test_message_skips_fields_of_fixed_width() -> None:
    message = message_of(b"\x0d" + bytes(4) + b"\x11" + bytes(8) + b"\x18\x05")
    assert message.number(3) == 5


def test_message_number_of_bytes_is_refused() -> None:
    with pytest.raises(HefError, match="number"):
        message_of(b"\x0a\x00").number(1)


@pytest.mark.parametrize(("n_bytes", "is_read"), [(4096, True), (4097, False)])
def test_message_limits_the_length_of_texts(n_bytes: int, is_read: bool) -> None:
    length = bytes([n_bytes & 0x7F | 0x80, n_bytes >> 7])
    message = message_of(b"\x0a" + length + b"x" * n_bytes)
    if is_read:
        assert message.text(1) == "x" * n_bytes
    else:
        with pytest.raises(HefError, match=f" {n_bytes} "):
            message.text(1)


def test_message_over_the_field_budget_is_refused() -> None:
    data = memoryview(b"\x08\x01" * 1000)
    with pytest.raises(HefError, match="fields"):
        Message(data, iter(range(999)))
    assert Message(data, iter(range(1000))).count(1) == 1000


def test_message_shares_its_budget_with_inner_messages() -> None:
    budget = itertools.repeat(0, 3)
    message = Message(memoryview(b"\x0a\x04\x08\x01\x08\x02"), budget)
    assert message.message(1).count(1) == 2
    with pytest.raises(HefError, match="fields"):
        message.message(1)
