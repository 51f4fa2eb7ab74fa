import json
from dataclasses import fields, replace

import pytest
from jsonschema import Draft202012Validator

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
from whisper_hailo.decoding.decoded import compression_ratio
from whisper_hailo.text.outputs import (
    TextWriter,
    as_json,
    failure_json,
    json_schema,
    render,
    timings_json,
)
from whisper_hailo.text.subtitles import Layout

SETTINGS = Settings("toy", "onnx-fp32", "cached-none", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)


def transcript() -> Transcript:
    segments = (
        Segment(0.0, 9.0, "Grüße.", (1, 2), -0.25, 0.01),
        Segment(9.0, 12.5, "All the rest.", (3,), -0.5, 0.02, runaway=True, window_start_s=8.5),
    )
    timings = Timings(load_ms=1.0, mel_ms=2.0, encode_ms=3.0, decode_ms=5.0, total_ms=10.0)
    return Transcript("a.wav", 12.5, "en", "transcribe", segments, timings, SETTINGS)


def test_text_has_a_line_for_each_segment() -> None:
    assert render(transcript(), "txt") == "Grüße.\nAll the rest.\n"
    assert render(replace(transcript(), segments=()), "txt") == "\n"


def test_lines_may_have_their_times() -> None:
    segment = Segment(59.9, 3661.25, "So long.", (), 0.0, 0.0)
    texts = [
        "".join(TextWriter("txt", Layout(), timed=timed).write(segment)) for timed in (False, True)
    ]
    assert texts == ["So long.\n", "[00:59.900 --> 01:01:01.250]  So long.\n"]
    writer = TextWriter("txt", Layout(), timed=True)
    timed = "".join(part for segment in transcript().segments for part in writer.write(segment))
    assert timed.splitlines()[0] == "[00:00.000 --> 00:09.000]  Grüße."


def test_json_has_openai_s_verbose_layout_and_what_it_lacks() -> None:
    text = render(transcript(), "json")
    assert text.startswith('{\n  "task": "transcribe",\n')
    verbose = json.loads(text)
    assert verbose == json.loads(json.dumps(as_json(transcript())))
    assert list(verbose)[:5] == ["task", "language", "duration", "text", "segments"]
    first, second = verbose["segments"]
    assert (first["id"], first["seek"], first["start"], first["end"]) == (0, 0, 0.0, 9.0)
    assert (second["id"], second["seek"], second["tokens"]) == (1, 850, [3])
    assert second["runaway"]
    assert (verbose["version"], verbose["audio"]) == (1, "a.wav")
    assert verbose["settings"]["pad_to"] == 1500


@pytest.mark.parametrize(
    ("language", "blank"),
    [(code, " ") for code in ("en", "ko")]
    + [(code, "") for code in ("zh", "ja", "th", "lo", "my", "yue")],  # as OpenAI Whisper has it
)
def test_texts_of_segments_put_together_are_the_text(language: str, blank: str) -> None:
    verbose = as_json(replace(transcript(), language=language))
    joined = "".join(segment["text"] for segment in verbose["segments"])
    assert joined == blank + verbose["text"]
    assert verbose["text"] == f"Grüße.{blank}All the rest."


WORD = Word(1.0, 1.5, " a", 0.5)
SAID = Segment(
    0.5, 2.0, "a", (7, 8), -0.25, 0.125, temperature=0.4, compression_ratio=1.5, words=(WORD,),
    language="de", speaker=1, window_start_s=0.29,  # times 100 a hair less than 29
)  # fmt: skip


def test_json_says_all_that_is_known_of_a_segment_and_its_words() -> None:
    assert as_json(replace(transcript(), segments=(SAID,)))["segments"] == [{
        "id": 0, "seek": 29, "start": 0.5, "end": 2.0, "text": " a", "tokens": [7, 8],
        "temperature": 0.4, "avg_logprob": -0.25, "compression_ratio": 1.5, "no_speech_prob": 0.125,
        "language": "de", "runaway": False,
        "words": [{"word": " a", "start": 1.0, "end": 1.5, "probability": 0.5}], "speaker": 1,
    }]  # fmt: skip


def test_json_has_letters_of_any_script_as_they_are() -> None:
    assert '"text": "Grüße.' in render(transcript(), "json")


def test_json_of_a_name_that_is_no_text_can_be_written() -> None:
    """As of a file whose name is no UTF-8."""
    said = render(replace(transcript(), audio="\udcff.wav"), "json")
    assert json.loads(said.encode())["audio"] == "\udcff.wav"


def test_json_keeps_times_to_their_last_useful_digit() -> None:
    timings = Timings(load_ms=1.23456, total_ms=2.0)
    found = replace(transcript(), timings=timings, duration_s=12.34567)
    assert as_json(found)["duration"] == 12.3457
    told = timings_json(found)["timings_ms"]
    assert list(told) == ["load", "mel", "encode", "cross_kv", "decode", "total"]
    assert told["load"] == 1.235


def test_json_is_what_its_schema_says() -> None:
    valid = Draft202012Validator(json_schema())
    valid.check_schema(json_schema())
    probs = {"de": 0.75, "en": 0.25}
    whole = as_json(replace(transcript(), segments=(SAID,), language_probs=probs))
    timed = whole | timings_json(transcript())
    for instance in (whole, timed, as_json(transcript()), failure_json("a.wav", "it is empty", 3)):
        assert not list(valid.iter_errors(json.loads(json.dumps(instance))))
    for path in ("text", "version", "settings"):
        assert not valid.is_valid({key: value for key, value in whole.items() if key != path})
    assert not valid.is_valid(whole | {"more": 1})


def test_the_schema_names_all_that_there_is() -> None:
    """A field that is added to the settings or timings is added to the schema, too."""
    known = json_schema()["$defs"]["transcript"]["properties"]
    assert set(known["settings"]["properties"]) == {one.name for one in fields(Settings)}
    assert set(known["timings_ms"]["properties"]) == {
        one.name.removesuffix("_ms") for one in fields(Timings)
    }


def test_subtitles_follow_the_layout() -> None:
    layout = Layout(max_words_per_line=1)
    for fmt, n_cues in (("srt", 4), ("vtt", 4)):
        assert render(transcript(), fmt, layout).count("-->") == n_cues
        assert render(transcript(), fmt).count("-->") == 2


def test_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="txt, srt, vtt, tsv, json, all"):
        render(transcript(), "docx")


def test_compression_ratio_tells_repetition() -> None:
    assert compression_ratio("and then " * 40) > 2.4
    assert compression_ratio("Every word here differs from the next.") < 1.5
    assert compression_ratio("") == 0.0
