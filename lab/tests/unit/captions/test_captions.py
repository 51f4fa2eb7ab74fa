"""Captions of the same stream by several engines and settings; Moonshine as an engine."""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import soundfile

from tests import moonshine_stand_in
from tests.unit.checkpoint.small_hub import use_hub
from tests.unit.decoding.search.hashed_decoder import HashedDecoder
from tests.unit.live.scripted import Loudness, Speller, quick, silence, speech
from tests.unit.shapes import TOY_TOKENS
from whisper_hailo.core.errors import DeviceError, HubError, OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import Timings
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.events import Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import MoonshineRecognizer
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.beside.programs import OurEvents, Shown, Utterance, latency
from whisper_hailo_lab.captions.comparison import CaptionSetup, row_of, run_captions
from whisper_hailo_lab.captions.cost import ForcedDecoder
from whisper_hailo_lab.captions.engines import BASE, CommonSetup, moonshine_setup, with_ratios
from whisper_hailo_lab.captions.soak.room import Diary, Fault, Played, SoundServer
from whisper_hailo_lab.captions.soak.service import HeldMemory, Service
from whisper_hailo_lab.captions.stream import conversation, reading
from whisper_hailo_lab.documents.captions import PARTS, RESULT
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.runs.records import ComparisonRecord

STREAM = np.concatenate([silence(0.5), speech(range(8)), silence(0.5), speech(range(8, 12))])


def test_setups_hear_the_same_stream_and_keep_what_they_may() -> None:
    keeping, forgetting = Speller(), Speller(tokens=False)
    setups = [
        CaptionSetup("keeps", keeping, quick()),
        CaptionSetup("anew", forgetting, quick(), keeps=False),
    ]
    runs = run_captions(setups, STREAM, Loudness)
    for run in runs:
        assert run.text == " ".join(f"w{index}" for index in range(12))
        row = row_of(run, lambda text: float(text.count("w")))
        assert row["violations"] == []
        assert row["wer"] == 12.0
        told = sum(isinstance(event, Partial) for event in run.events)
        assert row["partials"] == told == len(run.partials) > 0
        assert len(run.final_ms) == 2
    kept, anew = runs
    assert any(call.draft.n_fixed for call in kept.partials)
    assert not any(call.draft.tokens for call in anew.partials)


def test_ratios_are_to_the_same_engine_decoding_anew() -> None:
    class Slow(Speller):
        cost_ms = 6.0

        def transcribe(self, *given: Any, **named: Any) -> Any:
            return replace(
                super().transcribe(*given, **named), timings=Timings(decode_ms=self.cost_ms)
            )

    class Dear(Slow):
        cost_ms = 18.0

    slow, dear, options = Slow(), Dear(), CaptionOptions()
    setups = [
        CaptionSetup("drafts", slow, options),
        CaptionSetup(BASE, slow, options, keeps=False),
        CaptionSetup(f"{BASE}, dear", dear, options, keeps=False),
        CaptionSetup("drafts, never anew", Slow(), options),
    ]
    runs = run_captions(setups, STREAM, Loudness)
    rows = {row["way"]: row["less_decoding"] for row in with_ratios(runs, lambda _: None)}
    assert rows == pytest.approx(
        {"drafts": 1, BASE: 1, f"{BASE}, dear": 1, "drafts, never anew": None}
    )


def test_the_table_names_every_setup() -> None:
    runs = run_captions([CaptionSetup("keeps", Speller(), CaptionOptions())], STREAM, Loudness)
    rows = tuple(row_of(run, lambda _: None) | {"less_decoding": None} for run in runs)
    table = comparison_table(ComparisonRecord("captions", {}, rows))
    assert [len(row) for row in table.rows] == [len(table.columns)]
    assert "keeps" in table.plain()
    assert "speller" in table.plain()


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    moonshine_stand_in.install(monkeypatch)
    return moonshine_stand_in.write_weights(tmp_path / "tiny-streaming-en")


def test_moonshine_captions_like_any_engine(weights: Path) -> None:
    with MoonshineRecognizer(str(weights)) as engine:
        (run,) = run_captions(
            [CaptionSetup("Moonshine", engine, CaptionOptions())], STREAM, Loudness
        )
        short = engine.transcribe(PartialBuffer(np.ones(800, np.float32), Draft()))
    row = row_of(run, lambda _: None)
    assert row["violations"] == []
    assert row["passes_per_partial"] == 0
    assert run.text.startswith("t0 t1")
    assert short.words


def test_moonshine_says_what_is_missing(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HubError, match="Moonshine tiny"):
        MoonshineRecognizer("tiny").open()
    with pytest.raises(OptionError, match="max-segment is 70"):
        MoonshineRecognizer(str(weights), 70.0)
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    with pytest.raises(OptionError, match=re.escape(install_command("moonshine"))):
        MoonshineRecognizer(str(weights)).open()


def test_moonshine_is_left_out_with_a_reason_if_missing(
    weights: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        found = [
            setup.label
            for setup in moonshine_setup(CommonSetup("micro", moonshine=str(weights)), stack)
        ]
        assert found == ["Moonshine"]
        assert list(moonshine_setup(CommonSetup("micro", moonshine=""), stack)) == []
        use_hub("http://127.0.0.1:9", weights, monkeypatch)
        assert list(moonshine_setup(CommonSetup("micro", moonshine="tiny"), stack)) == []
        assert "cannot fetch Moonshine tiny" in caplog.text
        monkeypatch.setitem(sys.modules, "moonshine_voice", None)
        assert list(moonshine_setup(CommonSetup("micro"), stack)) == []
        assert install_command("moonshine") in caplog.text


def test_a_conversation_is_the_same_each_time(tmp_path: Path) -> None:
    first = conversation(tmp_path / "a.flac", 0.1)
    again = conversation(tmp_path / "b.flac", 0.1)
    assert first.read_bytes() == again.read_bytes()
    audio, rate_hz = soundfile.read(first)
    assert rate_hz == 16_000
    assert audio.size >= 6 * 16_000
    assert np.abs(audio[:4000]).max() > 0, "there is noise where nobody speaks"
    assert first.with_suffix(".txt").read_text().strip()


def test_reader_pauses_between_recordings_only_for_a_moment(tmp_path: Path) -> None:
    first = reading(tmp_path / "a.flac", 0.5)
    assert first.read_bytes() == reading(tmp_path / "b.flac", 0.5).read_bytes()
    audio, rate_hz = soundfile.read(first)
    assert audio.size >= 30 * rate_hz
    loud = np.flatnonzero(np.abs(audio) > 0.1)
    assert np.diff(loud).max() < 2 * rate_hz
    texts = first.with_suffix(".txt").read_text()
    assert texts.startswith("Is that Mister Patterson")
    assert "Jungle Portuguese" in texts


@pytest.mark.parametrize("stream", ["paired", "reading"])
def test_drafts_changed_no_text_of_streams_that_were_measured(stream: str) -> None:
    part: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))[stream]
    assert part["same_text"]
    assert not any(row["violations"] for row in part["rows"])


def test_the_result_file_has_tables_and_no_violations() -> None:
    result: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    assert set(result) <= set(PARTS)
    assert not any(part.get("violations") for part in result.values())


def test_live_text_is_as_good_as_offline_text() -> None:
    live: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["live"]
    assert live["words"] > 500
    assert live["wer_live"] <= min(live["wer_offline"], live["wer_offline_vad"]) + 1.0


def test_the_memory_of_an_hour_does_not_grow_once_it_is_warm() -> None:
    """From the middle to the end by less than a fiftieth, which is some 14 kB for each segment."""
    tenths = json.loads(RESULT.read_text(encoding="utf-8"))["hour"]["memory_tenths_mib"]
    middle, end = median(tenths[4:7]), median(tenths[7:])
    assert end < 1.02 * middle


class State(tuple[int, ...]):
    """The oracle's history, with its length as our decoder's state has it."""

    @property
    def n_tokens(self) -> int:
        return len(self)


class CountingOracle(HashedDecoder):
    def step(self, tokens: Any, state: Any, positions: Any, **named: Any) -> Any:
        output, history = super().step(tokens, state, positions, **named)
        return output, State(history)

    def rewind(self, state: Any, n_tokens: int) -> Any:
        return State(super().rewind(state, n_tokens))


def test_a_forced_decoder_says_what_it_is_told() -> None:
    prefix, text = (11, 12, 14, 19), (1, 5, 3, 3, 8)
    forced = ForcedDecoder(CountingOracle(3), [*text, TOY_TOKENS.eot], len(prefix))  # type: ignore[arg-type]
    for draft in ((), text, (1, 5, 9), (2,)):
        loop = DecodingLoop(forced, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
        (decoded,) = loop.run(State(), [DecodingTask(prefix, draft=Draft(draft))])
        assert decoded.tokens == text


SAID = (Utterance("Open the window.", 1.0, 2.0), Utterance("It is late.", 4.0, 5.0))


def test_first_text_is_a_shown_word_and_final_the_last_settled() -> None:
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


def test_words_settled_at_the_end_are_late_and_unheard_counted() -> None:
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
    assert rows["WhisperLiveKit, LocalAgreement"][1:5] == ("1", "2.00, 1.00", "0.40, 0.50", "0.40")


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose program is a shell script."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))
    return Service("micro", folder, {}, 1)


def test_a_program_that_ends_at_once_is_told_by_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo converting >&2; echo 'whisper-hailo: no PortAudio here' >&2; exit 6"
    service = program(tmp_path, script, monkeypatch)
    with pytest.raises(DeviceError, match=r"code is 6.*PortAudio"):
        service.open()


def test_a_program_that_ends_without_a_word_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="code is 3"):
        program(tmp_path, "exit 3", monkeypatch).open()


def test_a_program_that_listens_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo micro, listening to default >&2; exec sleep 1000"
    with program(tmp_path, script, monkeypatch) as service:
        assert service.n_starts == 1
        assert service.process.poll() is None


def test_all_that_the_sound_server_needs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    packages = "pulseaudio pulseaudio-utils libportaudio2 libasound2-plugins"
    with pytest.raises(DeviceError, match=packages):
        SoundServer(tmp_path).open()
