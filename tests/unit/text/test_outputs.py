import json
from dataclasses import replace

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
from whisper_hailo.decoding.text import compression_ratio
from whisper_hailo.text.outputs import machine_json, render, verbose_json

SETTINGS = Settings("toy", "onnx-fp32", "cached-none", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)


def transcript() -> Transcript:
    segments = (
        Segment(0.0, 9.0, "Grüße.", (1, 2), -0.25, 0.01),
        Segment(9.0, 12.5, "All the rest.", (3,), -0.5, 0.02, runaway=True, window_start_s=8.5),
    )
    timings = Timings(load_ms=1.0, mel_ms=2.0, encode_ms=3.0, decode_ms=5.0, total_ms=10.0)
    return Transcript("a.wav", 12.5, "en", "transcribe", segments, timings, SETTINGS)


def test_text_is_one_line() -> None:
    assert render(transcript(), "txt") == "Grüße. All the rest.\n"


def test_json_has_openai_s_verbose_layout() -> None:
    verbose = json.loads(render(transcript(), "json"))
    assert {"task", "language", "duration", "text", "segments"} == set(verbose)
    first, second = verbose["segments"]
    assert (first["id"], first["seek"], first["start"], first["end"]) == (0, 0, 0.0, 9.0)
    assert (second["id"], second["seek"], second["tokens"]) == (1, 850, [3])
    assert set(first) == {
        "id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob",
        "compression_ratio", "no_speech_prob",
    }  # fmt: skip


@pytest.mark.parametrize(("language", "blank"), [("en", " "), ("ja", "")])
def test_texts_of_segments_put_together_are_the_text(language: str, blank: str) -> None:
    verbose = verbose_json(replace(transcript(), language=language))
    joined = "".join(segment["text"] for segment in verbose["segments"])
    assert joined == blank + verbose["text"]
    assert verbose["text"] == f"Grüße.{blank}All the rest."


def test_machine_json_has_stage_times_and_settings() -> None:
    machine = machine_json(transcript())
    assert list(machine) == [
        "audio", "duration_s", "text", "language", "segments", "timings_ms", "settings",
        "language_probs", "near_ties",
    ]  # fmt: skip
    assert list(machine["timings_ms"]) == ["load", "mel", "encode", "cross_kv", "decode", "total"]
    assert machine["timings_ms"]["decode"] == 5.0
    assert machine["settings"]["pad_to"] == 1500
    assert machine["segments"][1]["runaway"] is True
    json.dumps(machine)


def test_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="expected one of: txt, srt, vtt, tsv, json, all"):
        render(transcript(), "docx")


def test_compression_ratio_tells_repetition() -> None:
    assert compression_ratio("and then " * 40) > 2.4
    assert compression_ratio("Every word here differs from the next.") < 1.5
    assert compression_ratio("") == 0.0
