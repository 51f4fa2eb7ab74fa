import json
from dataclasses import replace

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
from whisper_hailo.decoding.text import compression_ratio
from whisper_hailo.text.outputs import machine_json, render, verbose_json
from whisper_hailo.text.subtitles import Layout

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
    text = render(transcript(), "json")
    assert text.startswith('{\n  "task": "transcribe",\n')
    verbose = json.loads(text)
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


def test_json_says_all_that_is_known_of_a_segment_and_its_words() -> None:
    word = Word(1.0, 1.5, " a", 0.5)
    said = Segment(
        0.5, 2.0, "a", (7, 8), -0.25, 0.125, temperature=0.4, compression_ratio=1.5,
        words=(word,), speaker=1, window_start_s=0.3,
    )  # fmt: skip
    verbose = verbose_json(replace(transcript(), segments=(said,), duration_s=12.34567))
    assert verbose["duration"] == 12.3457
    assert verbose["segments"] == [{
        "id": 0, "seek": 30, "start": 0.5, "end": 2.0, "text": " a", "tokens": [7, 8],
        "temperature": 0.4, "avg_logprob": -0.25, "compression_ratio": 1.5, "no_speech_prob": 0.125,
        "words": [{"word": " a", "start": 1.0, "end": 1.5, "probability": 0.5}], "speaker": 1,
    }]  # fmt: skip


def test_machine_json_keeps_times_to_their_last_useful_digit() -> None:
    timings = Timings(load_ms=1.23456, total_ms=2.0)
    machine = machine_json(replace(transcript(), timings=timings, duration_s=12.34567, near_ties=2))
    assert machine["timings_ms"]["load"] == 1.235
    assert (machine["duration_s"], machine["near_ties"]) == (12.3457, 2)
    assert (machine["audio"], machine["language"]) == ("a.wav", "en")
    assert machine["text"] == "Grüße. All the rest."


def test_subtitles_follow_the_layout() -> None:
    layout = Layout(max_words_per_line=1)
    for fmt, n_cues in (("srt", 4), ("vtt", 4)):
        assert render(transcript(), fmt, layout).count("-->") == n_cues
        assert render(transcript(), fmt).count("-->") == 2


def test_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="expected one of: txt, srt, vtt, tsv, json, all"):
        render(transcript(), "docx")


def test_compression_ratio_tells_repetition() -> None:
    assert compression_ratio("and then " * 40) > 2.4
    assert compression_ratio("Every word here differs from the next.") < 1.5
    assert compression_ratio("") == 0.0
