"""Refusals of options before any audio is read: one line, exit code 2."""

from __future__ import annotations

import shlex
import sys
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.fakes.commands import given, missing_data
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.process import install_command

DEMO = str(ASSETS / "demo.flac")
MICRO = ("transcribe", "--model", "micro")
READ_ONCE = cache(Tokenizer.from_file)
"""The vocabulary, read once: reading takes a tenth of a second."""


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line with which a command is refused."""
    assert run([*words]) == ExitCode.USAGE
    output = capsys.readouterr()
    lines = [
        line for line in output.err.splitlines() if line.startswith("whisper-hailo: ")
    ]
    assert len(lines) == 1, output.err
    assert not output.out
    assert "internal error" not in output.err
    return lines[0]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--window 0", "--window 0"),
        ("--window 31", "--window 31 30"),
        ("--window 1e-9", "--window 1e-09"),
        ("| repetition-penalty = 0.5", "--repetition-penalty 0.5"),
        ("| eot-boost = -1", "--eot-boost -1"),
        ("--preset bold", "--preset bold conservative"),
        ("--language klingon", "--language klingon"),
        ("--language germn", "germn German de"),
        ("--language de --model tiny.en", "--language tiny.en '--model tiny'"),
        ("--task translate --model tiny.en", "--task tiny.en '--model tiny'"),
        ("--task sing", "--task sing transcribe translate"),
        ("--quantize int2", "--quantize int2 auto none int8 int4"),
        ("--encoder-quantize int2", "--encoder-quantize int2 auto"),
        ("--format doc", "--format doc txt srt vtt tsv json all"),
        ("--format all", "--format all --output-dir"),
        ("--threads -1", "--threads -1"),
        ("--threads 300", "--threads 300 256"),
        ("--channels three", "--channels three mix split"),
        ("--no-such-option", "--no-such-option"),
        ("--clip-timestamps 5,2", "--clip-timestamps 5,2"),
        ("--clip-timestamps=-1,2", "--clip-timestamps -1,2"),
        ("--clip-timestamps nan,2", "--clip-timestamps nan,2"),
        ("--detect-each-window -l de", "--detect-each-window '--language auto'"),
        ("--beam-size 0", "--beam-size 0 64"),
        ("--temperature 5", "--temperature 5 2"),
        ("--fallback 2", "--fallback 2 1"),
        ("--hotwords=", "--hotwords"),
        ("--highlight-words", "--highlight-words --word-timestamps"),
        ("--skip-existing", "--skip-existing --output-dir"),
        ("--long seeking", "--long seeking auto seek overlap dense vad consecutive"),
        ("| suppress-tokens = 'a'", "--suppress-tokens a"),
        ("| max-initial-timestamp = 'soon'", "--max-initial-timestamp soon"),
        ("--batch-size 0", "--batch-size 0 256"),
        ("-q -v", "--verbose --quiet"),
    ],
)  # fmt: skip
def test_transcribe_wrong_option_is_refused_before_loading(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, data: str
) -> None:
    command = ["transcribe", "--model", "no-such-model", *given(words, tmp_path), DEMO]
    assert not missing_data(refusal(capsys, *command), data)


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--language xx", "xx 99"),
        ("--window 10 | margin-s = 10", "--margin-s 10"),
        ("| pad-to = 1501", "--pad-to 1501 1500"),
    ],
)
def test_transcribe_option_unfit_for_model_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, data: str
) -> None:
    line = refusal(capsys, *MICRO, *given(words, tmp_path), DEMO)
    assert not missing_data(line, data)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--hotwords", " "),
        *(
            (option, words)
            for option in ("--hotwords", "--initial-prompt")
            for words in ("<|endoftext|>", "<|en|>", "caf\udce9")
        ),
    ],
)
def test_transcribe_impossible_prompt_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    words: str,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.text.tokenizer.read_tokenizer", lambda path: READ_ONCE(str(path))
    )
    assert f"{option} " in refusal(capsys, *MICRO, option, words, DEMO)


def test_transcribe_long_prefix_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = given(f"| prefix = '{'word ' * 200}'", tmp_path)
    line = refusal(capsys, *MICRO, *words, DEMO)
    assert not missing_data(line, "--prefix 200 112")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("", "--mic"),
        ("--output a.doc DEMO", "--output .srt .vtt .txt"),
        ("--daily DEMO", "--daily --events --output --record"),
        ("--rate 8000 DEMO", "--rate"),
        ("--wait-for-source=-1 DEMO", "--wait-for-source -1 0"),
        ("--wait-for-source inf DEMO", "--wait-for-source inf 0"),
        ("--wait-for-source 9 DEMO", "--wait-for-source --mic"),
        ("--web-port 9 DEMO", "--web-port --web"),
        ("--web-port 70000", "--web-port 70000 65535"),
        ("--prefix a DEMO", "--prefix"),
        ("--condition-on-previous-text DEMO", "--condition-on-previous-text"),
        ("--record a.wav DEMO", "--record .flac"),
        ("DEMO | settle = 99", "--settle 99 30"),
        ("--min-silence 0 DEMO", "--min-silence 0"),
        ("--mic browser", "'--mic browser' --web"),
        ("--mic 0 DEMO", "--mic"),
        ("DEMO | hold-back = -1", "--hold-back -1"),
        ("--moonshine tiny DEMO", "Moonshine --model"),
        ("--max-line-width 30 --output a.txt DEMO", "--output .srt"),
        ("DEMO | web-frame = 'http://a.example'", "--web-frame --web"),
        ("--web DEMO | web-frame = '*'", "--web-frame *"),
        ("--web-token 12345678 DEMO", "--web-token --web"),
        ("--web --web-token short DEMO", "--web-token 8 128"),
        ("--web DEMO | web-cert = 'a.pem'", "--web-cert --web-key"),
        ("--task listen DEMO", "--task listen transcribe translate"),
        ("--language klingon DEMO", "--language klingon"),
    ],
)
def test_caption_wrong_option_is_refused_before_loading(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, data: str
) -> None:
    typed = [DEMO if word == "DEMO" else word for word in given(words, tmp_path)]
    line = refusal(capsys, "caption", "--model", "no-such-model", *typed)
    assert not missing_data(line, data)


def test_caption_option_unfit_for_model_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = given("| max-segment = 31", tmp_path)
    line = refusal(capsys, "caption", "--model", "micro", *words, DEMO)
    assert not missing_data(line, "--max-segment 31")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--language de", "Moonshine --language"),
        ("| max-segment = 70", "Moonshine --max-segment 70"),
        ("--quantize int4", "Moonshine --quantize"),
        ("--threads 2", "Moonshine --threads"),
        ("| hold-back = 0", "Moonshine --hold-back"),
        ("| drafts = false", "Moonshine --drafts"),
        ("", shlex.quote(install_command("moonshine"))),
    ],
)
def test_caption_moonshine_option_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    data: str,
) -> None:
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    command = ["caption", "--moonshine", "tiny", *given(words, tmp_path), DEMO]
    assert not missing_data(refusal(capsys, *command), data)


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--http here", "--http here"),
        ("--wyoming unix:///x", "--wyoming unix:///x"),
        ("--tls-cert a.pem", "--tls-cert --tls-key"),
        ("--zeroconf home", "--zeroconf Wyoming"),
        ("--language xx --model micro", "xx 99"),
    ],
)
def test_serve_wrong_option_is_one_line(
    capsys: pytest.CaptureFixture[str], words: str, data: str
) -> None:
    line = refusal(capsys, "serve", *words.split())
    assert not missing_data(line, data)
