"""Transcripts as JSON."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from jsonschema import Draft202012Validator

from tests.fakes.results import transcript
from whisper_hailo.core.types import Segment, Settings, Timings, Word
from whisper_hailo.text.formats import render
from whisper_hailo.text.transcript_json import (
    as_json,
    failure_json,
    json_schema,
    timings_json,
)


def test_as_json_extends_verbose_json() -> None:
    text = render(transcript(), "json")
    assert text.startswith('{\n  "task": "transcribe",\n')
    verbose = json.loads(text)
    assert verbose == json.loads(json.dumps(as_json(transcript())))
    assert list(verbose)[:5] == ["task", "language", "duration", "text", "segments"]
    first, second = verbose["segments"]
    assert first["id"] == 0
    assert first["seek"] == 0
    assert first["start"] == 0.0
    assert first["end"] == 9.0
    assert second["id"] == 1
    assert second["seek"] == 850
    assert second["tokens"] == [3]
    assert second["runaway"]
    assert verbose["version"] == 1
    assert verbose["audio"] == "a.wav"
    assert verbose["settings"]["pad_to"] == 1500


@pytest.mark.parametrize(
    ("language", "blank"),
    [(code, " ") for code in ("en", "ko")]
    # As in OpenAI Whisper.
    + [(code, "") for code in ("zh", "ja", "th", "lo", "my", "yue")],
)
def test_as_json_joined_segments_are_the_text(language: str, blank: str) -> None:
    verbose = as_json(replace(transcript(), language=language))
    joined = "".join(segment["text"] for segment in verbose["segments"])
    assert joined == blank + verbose["text"]
    assert verbose["text"] == f"Grüße.{blank}All the rest."


WORD = Word(1.0, 1.5, " a", 0.5)


SEGMENT = Segment(
    0.5,
    2.0,
    "a",
    (7, 8),
    -0.25,
    0.125,
    temperature=0.4,
    compression_ratio=1.5,
    words=(WORD,),
    language="de",
    speaker=1,
    window_start_s=0.29,  # times 100 a hair less than 29
)


def test_as_json_segment_with_words_has_all_fields() -> None:
    assert as_json(replace(transcript(), segments=(SEGMENT,)))["segments"] == [
        {
            "id": 0,
            "seek": 29,
            "start": 0.5,
            "end": 2.0,
            "text": " a",
            "tokens": [7, 8],
            "temperature": 0.4,
            "avg_logprob": -0.25,
            "compression_ratio": 1.5,
            "no_speech_prob": 0.125,
            "language": "de",
            "runaway": False,
            "words": [{"word": " a", "start": 1.0, "end": 1.5, "probability": 0.5}],
            "speaker": 1,
        }
    ]


def test_as_json_rounds_durations() -> None:
    timings = Timings(load_ms=1.23456, total_ms=2.0)
    rounded = replace(transcript(), timings=timings, duration_s=12.34567)
    assert as_json(rounded)["duration"] == 12.3457
    timings_fields = timings_json(rounded)["timings_ms"]
    assert list(timings_fields) == [
        "load",
        "mel",
        "encode",
        "cross_kv",
        "decode",
        "total",
    ]
    assert timings_fields["load"] == 1.235


def test_as_json_matches_schema() -> None:
    valid = Draft202012Validator(json_schema())
    valid.check_schema(json_schema())
    probs = {"de": 0.75, "en": 0.25}
    whole = as_json(replace(transcript(), segments=(SEGMENT,), language_probs=probs))
    timed = whole | timings_json(transcript())
    for instance in (
        whole,
        timed,
        as_json(transcript()),
        failure_json("a.wav", "it is empty", 3),
    ):
        assert not list(valid.iter_errors(json.loads(json.dumps(instance))))
    for path in ("text", "version", "settings"):
        assert not valid.is_valid(
            {key: value for key, value in whole.items() if key != path}
        )
    assert not valid.is_valid(whole | {"more": 1})


def test_json_schema_has_all_settings_and_timings() -> None:
    """A field that is added to the settings or timings is added to the schema, too."""
    properties = json_schema()["$defs"]["transcript"]["properties"]
    assert set(properties["settings"]["properties"]) == {
        one.name for one in fields(Settings)
    }
    assert set(properties["timings_ms"]["properties"]) == {
        one.name.removesuffix("_ms") for one in fields(Timings)
    }
