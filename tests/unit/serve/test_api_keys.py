"""Keys of the API."""

from __future__ import annotations

import pytest

from whisper_hailo.serve.api_keys import is_one_of


@pytest.mark.parametrize(
    ("given", "known"),
    [("one", True), ("two", True), ("three", False), ("on", False), ("", False), ("öne", False),
     ("\ud800", False)],
)  # fmt: skip
def test_a_key_is_known_wherever_it_stands_among_the_others(given: str, known: bool) -> None:
    assert is_one_of(given, ("one", "two")) is known
    assert is_one_of(given, ("two", "one")) is known
    assert not is_one_of(given, ())
