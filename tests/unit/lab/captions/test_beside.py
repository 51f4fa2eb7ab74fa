"""How soon programs show what was said; what is kept of a soak."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo_lab.captions.beside.programs import OurEvents, Shown, Utterance, latency
from whisper_hailo_lab.captions.soak.room import Diary, Fault, Played
from whisper_hailo_lab.captions.soak.service import HeldMemory
from whisper_hailo_lab.documents.captions import PARTS

SAID = (Utterance("Open the window.", 1.0, 2.0), Utterance("It is late.", 4.0, 5.0))


def test_first_text_is_a_word_on_the_screen_and_final_text_the_last_word_that_stays() -> None:
    shown = [
        Shown(1.5, "", "Open"),
        Shown(2.4, "Open the", "widow"),
        Shown(3.0, "Open the window.", ""),
        Shown(4.5, "Open the window.", "It is"),
        Shown(6.0, "Open the window. It is late.", ""),
    ]
    found = latency(SAID, shown)
    assert found.first_s == pytest.approx((0.5, 0.5))
    assert found.final_s == pytest.approx((1.0, 1.0))
    assert found.n_unheard == 0


def test_what_is_settled_at_the_end_only_is_late_and_what_nobody_recognised_is_counted() -> None:
    shown = [Shown(2.5, "", "Open a widow"), Shown(9.0, "Open a widow", "")]
    found = latency(SAID, shown)
    assert found.first_s == pytest.approx((1.5,))
    assert found.final_s == pytest.approx((7.0,))
    assert found.n_unheard == 1


def test_text_of_before_is_no_first_text() -> None:
    """More words were shown for a moment than were said by then."""
    shown = [Shown(2.0, "", "Open the big window"), Shown(4.4, "Open the window. It is late.", "")]
    assert latency(SAID, shown).first_s == pytest.approx((1.0, 0.4))


def test_our_events_are_settled_and_running_text() -> None:
    read = OurEvents()
    partial = {"event": "partial", "committed_text": "Open the", "tentative": [{"text": " widow"}]}
    assert read({"event": "started"}) == ("", "")
    assert read(partial) == ("Open the", " widow")
    assert read({"event": "completed", "text": "Open the window."}) == ("Open the window. ", "")


def test_a_diary_gives_back_what_was_noted(tmp_path: Path) -> None:
    entries = [
        Fault("killed", 1.0, 2.0),
        Played("a.ogg", "Hello.", 3.0, 4.0, whole=True),
        HeldMemory(10.0, 1, 170.5, 100.25, 18, 6),
    ]
    diary = Diary(tmp_path)
    for entry in entries:
        diary.note(entry)
    assert list(Diary(tmp_path).entries()) == entries


def test_the_table_has_medians_of_the_turns() -> None:
    turn = {
        "stream_s": 100.0, "utterances": 30, "unheard": 0, "first_s_median": 0.5,
        "first_s_p95": 1.0, "final_s_median": 0.4, "final_s_p95": 0.5, "processor_s": 10.0,
        "peak_mib": 150.0, "wer": 8.0,
    }  # fmt: skip
    slow = turn | {"first_s_median": 2.0, "processor_s": 40.0}
    table = PARTS["beside"]({"turns": [["ours", turn], ["whisperlivekit", slow], ["ours", turn]]})
    rows = {row[0]: row for row in table.rows}
    assert rows["whisper-hailo"][1:5] == ("2", "0.50, 1.00", "0.40, 0.50", "0.10")
    assert rows["WhisperLiveKit"][1:5] == ("1", "2.00, 1.00", "0.40, 0.50", "0.40")
