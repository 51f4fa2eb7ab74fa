"""Captions of the same stream by several recognizers and settings, and by Moonshine."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in
from tests.fakes.model_hub import use_hub
from tests.fakes.scripted_speech import Loudness, Speller, quick, silence, speech
from whisper_hailo.core.errors import HubError, OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import Timings
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.events import Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import MoonshineRecognizer
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.comparison import CaptionSetup, row_of, run_captions
from whisper_hailo_lab.captions.engines import (
    BASE,
    CommonSetup,
    moonshine_setups,
    rows_with_ratios,
)
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.runs.records import ComparisonRecord

STREAM = np.concatenate(
    [silence(0.5), speech(range(8)), silence(0.5), speech(range(8, 12))]
)


class DraftRecorder(Speller):
    """Records the drafts of its buffers."""

    def __init__(self, *, tokens: bool = True) -> None:
        super().__init__(tokens=tokens)
        self.drafts: list[Draft] = []

    def transcribe(self, buffer: PartialBuffer, language: str | None = None) -> Any:
        self.drafts.append(buffer.draft)
        return super().transcribe(buffer, language)


def test_run_captions_without_keeping_gives_no_drafts() -> None:
    keeping = DraftRecorder()
    forgetting = DraftRecorder(tokens=False)
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
        n_partials = sum(isinstance(event, Partial) for event in run.events)
        assert row["partials"] == n_partials > 0
        assert len(run.final_ms) == 2
    assert any(draft.n_fixed for draft in keeping.drafts)
    assert not any(draft.tokens for draft in forgetting.drafts)


def test_rows_with_ratios_compare_the_same_recognizer() -> None:
    class Slow(Speller):
        cost_ms = 6.0

        def transcribe(self, *given: Any, **named: Any) -> Any:
            return replace(
                super().transcribe(*given, **named),
                timings=Timings(decode_ms=self.cost_ms),
            )

    class Dear(Slow):
        cost_ms = 18.0

    slow = Slow()
    dear = Dear()
    options = CaptionOptions()
    setups = [
        CaptionSetup("drafts", slow, options),
        CaptionSetup(BASE, slow, options, keeps=False),
        CaptionSetup(f"{BASE}, dear", dear, options, keeps=False),
        CaptionSetup("drafts, never anew", Slow(), options),
    ]
    runs = run_captions(setups, STREAM, Loudness)
    rows = {
        row["way"]: row["less_decoding"]
        for row in rows_with_ratios(runs, lambda _: None)
    }
    assert rows == pytest.approx(
        {"drafts": 1, BASE: 1, f"{BASE}, dear": 1, "drafts, never anew": None}
    )


def test_captions_table_names_every_setup() -> None:
    runs = run_captions(
        [CaptionSetup("keeps", Speller(), CaptionOptions())], STREAM, Loudness
    )
    rows = tuple(row_of(run, lambda _: None) | {"less_decoding": None} for run in runs)
    table = comparison_table(ComparisonRecord("captions", {}, rows))
    assert [len(row) for row in table.rows] == [len(table.columns)]
    assert "keeps" in table.plain()
    assert "speller" in table.plain()


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    moonshine_stand_in.install(monkeypatch)
    return moonshine_stand_in.write_weights(tmp_path / "tiny-streaming-en")


def test_moonshine_engine_captions_a_stream(weights: Path) -> None:
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


def test_moonshine_without_a_package_is_an_error(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HubError, match="Moonshine tiny"):
        MoonshineRecognizer("tiny").open()
    with pytest.raises(OptionError, match=r"max-segment .*70"):
        MoonshineRecognizer(str(weights), 70.0)
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    with pytest.raises(OptionError, match=re.escape(install_command("moonshine"))):
        MoonshineRecognizer(str(weights)).open()


def test_moonshine_setups_without_weights_log_a_reason(
    weights: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        labels = [
            setup.label
            for setup in moonshine_setups(
                CommonSetup("micro", moonshine=str(weights)), stack
            )
        ]
        assert labels == ["Moonshine"]
        assert list(moonshine_setups(CommonSetup("micro", moonshine=""), stack)) == []
        use_hub("http://127.0.0.1:9", weights, monkeypatch)
        assert (
            list(moonshine_setups(CommonSetup("micro", moonshine="tiny"), stack)) == []
        )
        assert "Moonshine tiny" in caplog.text
        monkeypatch.setitem(sys.modules, "moonshine_voice", None)
        assert list(moonshine_setups(CommonSetup("micro"), stack)) == []
        assert install_command("moonshine") in caplog.text
