from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.tests.unit.runs.test_outcomes import make_line
from whisper_hailo_lab.accuracy.__main__ import parse_option
from whisper_hailo_lab.accuracy.emulated import PLANS
from whisper_hailo_lab.accuracy.plan import make_plan, study_setups
from whisper_hailo_lab.accuracy.results import keep_peers, make_result
from whisper_hailo_lab.accuracy.tables import KINDS, kind_of
from whisper_hailo_lab.documents.accuracy import make_tables
from whisper_hailo_lab.report.study import LIBRISPEECH
from whisper_hailo_lab.repository import ROOT
from whisper_hailo_lab.runs.transcripts import TranscriptLine

OURS: dict[str, Any] = {"quantize": "int8", "window": "default", "timestamps": False}
PEER: dict[str, Any] = {"compute": "int8", "beam": 5, "timestamps": True}


def make_lines(system: str, text: str, options: dict[str, Any]) -> list[TranscriptLine]:
    common: dict[str, Any] = {
        "system": system,
        "options": {"language": "detected", **options},
    }
    return [
        make_line("red blue", text, id="1", **common),
        make_line(
            "rot blau", text, id="2", language="de", language_found="de", **common
        ),
        make_line("", text, id="3", language="none", **common),
        make_line("red blue", text, set="joined", id="4", **common),
    ]


def make_measured_result() -> dict[str, Any]:
    ours = {"a-default": make_lines("whisper-hailo", "red blue", OURS)}
    exact = {"a-w30": make_lines("whisper-hailo", "red", OURS | {"window": "30"})}
    study = {f"x-detected-text-{LIBRISPEECH[0].name}": ours["a-default"], **exact}
    peers = {
        "peer": make_lines("openai-whisper", "red green", PEER),
        "short": make_lines("faster-whisper", "red", PEER)[:1],
    }
    parts = {"peers": ours, "windows": ours | exact, "study": study}
    return json.loads(json.dumps(make_result(parts, peers)))  # type: ignore[no-any-return]


def test_kind_of_divides_lines() -> None:
    assert [kind_of(line) for line in make_lines("x", "", {})] == list(KINDS)


def test_make_result_counts_every_group() -> None:
    measured_tables = make_measured_result()["tables"]
    assert measured_tables["left_out"] == ["short: 1 of 4 recordings"]
    rows = {(row["row"], row["group"]): row for row in measured_tables["peers"]}
    assert len(rows) == 8
    assert rows["peer", "English"]["substitutions"] == 1
    assert rows["a-default", "English"]["hits"] == 2
    assert rows["peer", "no speech"]["invented"] == 2
    assert {row["group"] for row in measured_tables["languages"]} == {
        "en",
        "de",
        "none",
    }
    first, second = measured_tables["study"]
    assert first["simple_wer"] < second["simple_wer"]
    assert first["more_than_first"] == [0.0, 0.0]


def test_keep_peers_keeps_rows_not_measured_again() -> None:
    def row(system: str, errors: int, seconds: float = 60.0) -> dict[str, Any]:
        options = {"beam": 1}
        fixed = {
            "system": system,
            "model": "base",
            "group": "English",
            "options": options,
        }
        return {**fixed, "seconds": seconds, "insertions": errors}

    earlier = [row("whisper-hailo", 9), row("faster-whisper", 8), row("whisper-cpp", 7)]
    earlier.append(row("openai-whisper", 6, seconds=50.0))
    now = [row("whisper-hailo", 3), row("faster-whisper", 4)]
    kept = keep_peers(now, earlier)
    assert [(kept_row["system"], kept_row["insertions"]) for kept_row in kept] == [
        ("whisper-hailo", 3),
        ("faster-whisper", 4),
        ("whisper-cpp", 7),
    ]


def test_make_tables_has_the_counts() -> None:
    made_tables = make_tables(make_measured_result())
    peers = made_tables["accuracy-peers"]
    assert (
        "| OpenAI Whisper, base, int8, beam 5, timestamps | English | 1 | 50.0 % |"
        in peers
    )
    assert (
        "| whisper-hailo, base, int8, default window, text only | English | 1 | 0.0 % |"
        in peers
    )
    assert "Left out, not complete: short: 1 of 4 recordings." in peers
    assert "| 1 of 1 | 2 | 0 |" in made_tables["accuracy-silence"]
    assert "| 2 of 3 |" not in made_tables["accuracy-languages"]
    assert f"| {LIBRISPEECH[0].name} | 34.5 % |" in made_tables["accuracy-study"]
    assert "timestamps | English | 2 | " in made_tables["accuracy-time"]
    assert "Not measured" in made_tables["accuracy-captions"]


def test_pages_have_a_marker_for_every_table() -> None:
    pages = (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    names = set(re.findall(r"<!-- table: (accuracy[a-z0-9-]*) -->", text))
    assert names == make_tables(make_measured_result()).keys()


def test_make_plan_has_every_configuration_of_the_study() -> None:
    with_chip = study_setups(Path("/models/tiny.en-emulated"))
    assert {s.label for s in with_chip} >= {row.name for row in LIBRISPEECH[:5]}
    assert all("HEF" not in s.label for s in study_setups(None))
    names = {part.name for part in make_plan({("base", "script"): Path("x")})}
    assert names == {"peers", "windows", "prompts", "captions", "study", "emulated"}


def test_make_plan_has_unique_names() -> None:
    forms = [(model, bits) for model in ("base", "tiny.en") for bits in PLANS]
    plan = make_plan({form: Path("-emulated-".join(form)) for form in forms})
    emulated = [s.name for part in plan if part.name == "emulated" for s in part.setups]
    assert len(emulated) == len(set(emulated)) == 2 * len(PLANS) * 2
    windows = [s.name for part in plan if part.name == "windows" for s in part.setups]
    assert len(windows) == len(set(windows)) == 2 * 2 * 5 * 2


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=5", ("a", 5)), ("a=[0, 0.2]", ("a", [0, 0.2])), ("a=vad", ("a", "vad"))],
)
def test_parse_option_accepts_json_or_text(text: str, value: tuple[str, Any]) -> None:
    assert parse_option(text) == value
