"""Attacks on a server: rows, and what counts as damage."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import asdict

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from whisper_hailo_lab.documents.server import describe_attacks
from whisper_hailo_lab.experiments.attacked_server import (
    BrokenPromiseError,
    wait_until_closed,
)
from whisper_hailo_lab.experiments.attacks import ATTACKS
from whisper_hailo_lab.experiments.server_attacks import AttackRow, merge_rows


def row(attack: str, failure: str = "") -> dict[str, object]:
    made = AttackRow(attack, "promise", "figures", failure, 1.4, 0.1, 120, (100, 101))
    return asdict(made)


def test_merge_rows_keeps_the_order_of_the_attacks() -> None:
    first, second, *_ = (attack.name for attack in ATTACKS)
    merged = merge_rows([row(second), row("gone")], [row(first), row(second, "broken")])
    assert [(one["attack"], one["failure"]) for one in merged] == [
        (first, ""),
        (second, "broken"),
    ]


def test_attacks_have_names_of_their_own() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_describe_attacks_says_why_a_promise_was_broken() -> None:
    text = describe_attacks({"machine": "here", "rows": [row("a"), row("b", "stuck")]})
    held, broken = text.splitlines()[-2:]
    assert "| yes |" in held
    assert "| stuck |" in broken
    assert "| 100, 120, 101 |" in held


def test_wait_until_closed_returns_when_the_other_end_closes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x")
        closing = threading.Timer(0.2, theirs.close)
        closing.start()
        begin_s = time.monotonic()
        assert 0 < wait_until_closed(ours) <= time.monotonic() - begin_s
        closing.join()


def test_wait_until_closed_open_connection_is_a_broken_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo_lab.experiments.attacked_server.PATIENCE_S", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(BrokenPromiseError):
        wait_until_closed(ours)
