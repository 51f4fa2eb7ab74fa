"""Words that make no sense are refused before any audio is read: one line, exit code 2."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.fakes.settings_file import given
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.process import install_command

DEMO = str(ASSETS / "demo.flac")
MICRO = ("transcribe", "--model", "micro")
READ_ONCE = cache(Tokenizer.from_file)
"""A vocabulary, which takes a tenth of a second every time."""


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The line that a command is refused with."""
    assert run([*words]) == ExitCode.USAGE
    said = capsys.readouterr()
    lines = [
        line for line in said.err.splitlines() if line.startswith("whisper-hailo: ")
    ]
    assert len(lines) == 1, said.err
    assert not said.out
    assert "internal error" not in said.err
    return lines[0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--window 0", "--window is 0, expected"),
        ("--window 31", "expected 0.02 s to 30 s"),
        ("--window 1e-9", "expected 0.02 s to 30 s"),
        ("--window 10 | margin-s = 10", "margin-s is 10 s"),
        ("| pad-to = 1501", "trained on 1500 positions"),
        ("| repetition-penalty = 0.5", "expected 1 (off) to 1000"),
        ("| eot-boost = -1", "expected 0 (off) to 1000"),
        ("--preset bold", "expected one of: conservative"),
        ("--language xx", "unknown language 'xx'"),
        ("--task sing", "--task is 'sing', expected one of: transcribe, translate"),
        ("--quantize int2", "expected one of: auto, none, int8, int4"),
        ("--encoder-quantize int2", "--encoder-quantize is 'int2', expected one of: auto,"),
        ("--format doc", "expected one of: txt, srt, vtt, tsv, json, all"),
        ("--format all", "give --output-dir"),
        ("--threads -1", "--threads"),
        ("--threads 100000", "--threads"),
        ("--no-such-option", "No such option"),
        ("--clip-timestamps 5,2", "an end is not after its start"),
        ("--clip-timestamps=-1,2", "a time is negative"),
        ("--clip-timestamps nan,2", "a time is negative or no number"),
        ("--detect-each-window -l de", "--detect-each-window needs --language auto"),
        ("--beam-size 0", "--beam-size is 0, expected 1 to 64"),
        ("--temperature 5", "--temperature is 5, expected numbers from 0 to 2"),
        ("--highlight-words", "--highlight-words needs --word-timestamps"),
        ("--skip-existing", "--skip-existing needs --output-dir"),
        ("--long seeking", "expected one of: auto, seek, overlap, vad, consecutive"),
        ("| suppress-tokens = 'a'", "suppress-tokens is 'a'"),
        ("--batch-size 0", "--batch-size is 0"),
    ],
)  # fmt: skip
def test_transcribe_wrong_option_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, why: str
) -> None:
    assert why in refusal(capsys, *MICRO, *given(words, tmp_path), DEMO)


@pytest.mark.parametrize(
    ("option", "words", "why"),
    [
        ("--hotwords", " ", "is blank"),
        *(
            (option, words, "gives no plain tokens")
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
    why: str,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.text.tokenizer.read_tokenizer", lambda path: READ_ONCE(str(path))
    )
    line = refusal(capsys, *MICRO, option, words, DEMO)
    assert f"{option} " in line
    assert why in line


def test_transcribe_long_prefix_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = given(f"| prefix = '{'word ' * 200}'", tmp_path)
    assert "prefix has 200 tokens, this model takes 112" in refusal(
        capsys, *MICRO, *words, DEMO
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "give one of"),
        ("--output a.doc DEMO", "ends in .srt, .vtt, .txt"),
        ("--daily DEMO", "--daily goes with --events, --output or --record"),
        ("--rate 8000 DEMO", "--rate goes with -, raw PCM"),
        ("--wait-for-source=-1 DEMO", "--wait-for-source is -1, expected 0 s or more"),
        (
            "--wait-for-source inf DEMO",
            "--wait-for-source is inf, expected 0 s or more",
        ),
        ("--wait-for-source 9 DEMO", "--wait-for-source goes with --mic or a URL"),
        ("--web-port 9 DEMO", "--web-port goes with --web"),
        ("--prefix a DEMO", "No such option '--prefix'"),
        ("--condition-on-previous-text DEMO", "No such option"),
        ("--record a.wav DEMO", "ends in .flac"),
        ("DEMO | max-segment = 31", "max-segment is 31 s"),
        ("--min-silence 0 DEMO", "--min-silence is 0"),
        ("--mic browser", "--mic browser needs --web"),
        ("--mic 0 DEMO", "give one of"),
        ("DEMO | hold-back = -1", "hold-back is -1"),
        ("--moonshine tiny DEMO", "Moonshine cannot honour --model"),
        ("--max-line-width 30 --output a.txt DEMO", "go with --output of .srt"),
        ("DEMO | web-frame = 'http://a.example'", "web-frame goes with --web"),
        ("--web DEMO | web-frame = '*'", "expected the origin of a page"),
        ("--web-token 12345678 DEMO", "--web-token goes with --web"),
        ("--web --web-token short DEMO", "8 to 128"),
        ("--web DEMO | web-cert = 'a.pem'", "--web-cert and --web-key need each other"),
    ],
)
def test_caption_wrong_option_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, why: str
) -> None:
    typed = [DEMO if word == "DEMO" else word for word in given(words, tmp_path)]
    assert why in refusal(capsys, "caption", "--model", "micro", *typed)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--language de", "Moonshine cannot honour"),
        ("| max-segment = 70", "Moonshine takes less"),
        ("--quantize int4", "Moonshine cannot honour --quantize"),
        ("--threads 2", "Moonshine cannot honour --threads"),
        ("| hold-back = 0", "Moonshine cannot honour --hold-back"),
        ("| drafts = false", "Moonshine cannot honour --drafts"),
        ("", install_command("moonshine")),
    ],
)
def test_caption_moonshine_option_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    why: str,
) -> None:
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    assert why in refusal(
        capsys, "caption", "--moonshine", "tiny", *given(words, tmp_path), DEMO
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--http here", "--http is 'here', expected an address and a port"),
        (
            "--wyoming unix:///x",
            "--wyoming is 'unix:///x', expected an address and a port",
        ),
        ("--tls-cert a.pem", "--tls-cert and --tls-key need each other"),
        ("--zeroconf home", "--zeroconf announces Wyoming"),
        ("--language xx --model micro", "xx"),
    ],
)
def test_serve_wrong_option_is_one_line(
    capsys: pytest.CaptureFixture[str], words: str, why: str
) -> None:
    assert why in refusal(capsys, "serve", *words.split())
