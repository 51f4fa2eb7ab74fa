"""Options and commands of other Whisper programs, and first commands of their users."""

from __future__ import annotations

import shlex
from operator import attrgetter
from pathlib import Path

import pytest

from tests.fakes.commands import missing_data
from tests.first_hour import FIRST_HOUR
from tests.unit.cli.commands.test_transcribe_options import Listener, recordings
from whisper_hailo.cli.app import run
from whisper_hailo.cli.compat import COMPAT_OPTIONS
from whisper_hailo.cli.transcribe_options import ModelOptions

__all__ = ["recordings"]

TAKEN: list[tuple[str, str, object]] = [
    ("--word_timestamps True", "word_timestamps", True),
    ("--word_timestamps False", "word_timestamps", False),
    ("--condition_on_previous_text False", "prompts.condition_on_previous_text", False),
    ("--condition_on_previous_text True", "prompts.condition_on_previous_text", True),
    ("--initial_prompt hello", "prompts.initial_prompt", "hello"),
    ("--prompt hello", "prompts.initial_prompt", "hello"),
    ("--temperature_increment_on_fallback 0.5", "search.temperatures", (0.0, 0.5, 1.0)),
    ("--temperature_increment_on_fallback None", "search.temperatures", (0.0,)),
    ("--log_prob_threshold -0.5", "thresholds.logprob", -0.5),
    ("--without_timestamps True --format srt", "timestamps", False),
    ("-nt --format srt", "timestamps", False),
    ("--translate", "task", "translate"),
    ("-tr --task transcribe", "task", "transcribe"),
    ("-nf", "search.temperatures", (0.0,)),
    ("-tp 0.2", "search.temperatures", (0.2, 0.4, 0.6, 0.8, 1.0)),
    ("-tpi 0.5", "search.temperatures", (0.0, 0.5, 1.0)),
    ("-lpt -0.5", "thresholds.logprob", -0.5),
    ("-nth 0.5", "thresholds.no_speech", 0.5),
    ("-bs 5", "search.beam_size", 5),
    ("-bo 3", "search.best_of", 3),
    ("-mt 9", "max_new_tokens", 9),
    ("-l de", "language", "de"),
    ("-mc -1", "prompts.condition_on_previous_text", True),
    ("-mc 0", "prompts.condition_on_previous_text", False),
]
MODEL: list[tuple[str, str, object]] = [
    ("--device cpu", "engine.encoder_backend", "onnx"),
    ("--device CPU", "engine.encoder_backend", "onnx"),
    ("--device auto", "engine.encoder_backend", "auto"),
    ("--device hailo", "engine.encoder_backend", "hailo"),
    ("--device cpu --encoder-backend emulator", "engine.encoder_backend", "emulator"),
    ("--no-gpu", "engine.encoder_backend", "onnx"),
    ("--compute_type int8", "convert.quantize", "int8"),
    ("--compute_type float32", "convert.quantize", "none"),
    ("--compute_type int8_float32", "convert.quantize", "int8"),
    ("--compute_type default", "convert.quantize", "auto"),
    ("--compute_type auto", "convert.quantize", "auto"),
    ("--fp16 False", "convert.quantize", "auto"),
    ("--fp16 True", "convert.quantize", "auto"),
    ("--compute_type float16", "convert.quantize", "none"),
    ("--hallucination_silence_threshold 2", "convert.quantize", "auto"),
    ("-m small -t 3", "model", "small"),
    ("-m small -t 3", "threads", 3),
]
LONG: list[tuple[str, str, object]] = [
    ("--vad_filter True", "strategy", "vad"),
    ("--vad_filter False", "strategy", "auto"),
    ("--vad", "strategy", "vad"),
]
BATCHES = [("-p 1", None), ("--batched True", None), ("--batched False", None)]
JOINED = [
    "-ojf",
    "-olrc",
    "-owts",
    "-ocsv",
    "-ot=5",
    "-p=2",
    "-mc=9",
    "-on=3",
    "-oved=CPU",
]
"""Options of whisper.cpp, with a value where they take one."""
COMMANDS = tuple(program for program in FIRST_HOUR if program != "faster-whisper")
TYPED = [
    (typed, result) for program in COMMANDS for _, typed, result in FIRST_HOUR[program]
]
TALKS = ("talk.flac", "talk.ogg")


@pytest.fixture
def loaded_models(monkeypatch: pytest.MonkeyPatch) -> list[ModelOptions]:
    """Options of each model that was loaded."""
    loaded: list[ModelOptions] = []
    listener = Listener()
    monkeypatch.setattr(
        ModelOptions, "transcriber", lambda self: loaded.append(self) or listener
    )
    return loaded


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    recorder = Listener()
    recorder.asked.clear()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: recorder)
    return recorder


@pytest.mark.parametrize(("words", "path", "expected"), TAKEN)
def test_compat_decoding_alias_sets_option(
    listener: Listener, words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    # For one recording: no value was taken for a second.
    ((options, _, _),) = listener.asked
    assert attrgetter(path)(options) == expected


@pytest.mark.parametrize(("words", "path", "expected"), MODEL)
def test_compat_model_alias_sets_option(
    loaded_models: list[ModelOptions], words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    assert attrgetter(path)(loaded_models[0]) == expected


@pytest.mark.parametrize(("words", "name", "expected"), LONG)
def test_compat_vad_alias_sets_strategy(
    listener: Listener, words: str, name: str, expected: object
) -> None:
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    assert getattr(listener.asked[0][1], name) == expected


@pytest.mark.parametrize(("words", "expected"), BATCHES)
def test_compat_batching_alias_sets_batch_size(
    listener: Listener, words: str, expected: int | None
) -> None:
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    assert listener.asked[0][2] == expected


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("-osrt", ["a.srt"]),
        ("-otxt -osrt -oj", ["a.json", "a.srt", "a.txt"]),
        ("-ovtt -o out", ["out/a.vtt"]),
        ("-osrt -f txt", ["a.srt", "a.txt"]),
    ],
)
def test_compat_whisper_cpp_outputs_are_files(
    listener: Listener, words: str, names: list[str]
) -> None:
    before = set(Path().rglob("a.*"))
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    assert len(listener.asked) == 1
    assert sorted(map(str, set(Path().rglob("a.*")) - before)) == names


@pytest.mark.parametrize(
    "words",
    [
        "-f -",
        "-f srt -f -",
        "-f a.wav",
        "-f ./a.wav",
        "--file a.wav",
        "-f a.wav -f srt",
    ],
)
def test_compat_f_before_recording_names_it(listener: Listener, words: str) -> None:
    assert run(["transcribe", *words.split()]) == 0
    assert len(listener.asked) == 1


def test_compat_f_format_beats_file_of_that_name(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("srt", "all"):
        Path(name).write_text("some sound")
    assert run(["transcribe", "-f", "srt", "a.wav"]) == 0
    assert "-->" in capsys.readouterr().out
    assert run(["transcribe", "-f", "all", "a.wav", "-o", "out"]) == 0
    assert len(listener.asked) == 2


def test_compat_f_accepts_file_without_suffix(
    listener: Listener,
) -> None:
    Path("talk").write_text("some sound")
    assert run(["transcribe", "-f", "talk"]) == 0
    assert len(listener.asked) == 1


def test_compat_f_missing_recording_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["transcribe", "-f", "nosuch.wav"]) == 3
    assert "nosuch.wav" in capsys.readouterr().err


@pytest.mark.usefixtures("listener")
def test_compat_ml_sets_line_width(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["transcribe", "a.wav", "-f", "vtt", "-ml", "12"]) == 0
    cues = capsys.readouterr().out.split("\n\n")
    assert [cue.partition("\n")[2] for cue in cues[1:4]] == [
        "Good morning",
        "to all of",
        "you.",
    ]


def test_compat_options_without_effect_are_accepted(listener: Listener) -> None:
    typed = [
        "-sow",
        "-pp",
        "-fa",
        "-wt",
        "0.01",
        "-vm",
        "ggml-silero.bin",
        "-fth",
        "0.3",
    ]
    assert run(["transcribe", "a.wav", *typed]) == 0
    assert len(listener.asked) == 1


@pytest.mark.usefixtures("listener")
def test_compat_output_format_writes_file() -> None:
    assert run(["transcribe", "a.wav", "--output_format", "srt"]) == 0
    assert Path("a.srt").is_file()
    assert (
        run(["transcribe", "a.wav", "--output_format", "vtt", "--output_dir", "out"])
        == 0
    )
    assert Path("out/a.vtt").is_file()


def test_compat_missing_command_is_suggested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["-m", "base", "-f", "a.wav"]) == 2
    assert "whisper-hailo transcribe -m base -f a.wav" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (
            "--device cuda",
            "'--device cuda'",
        ),
        (
            "--compute_type int4",
            "'--compute-type int4'",
        ),
        ("--model_dir /models", "WHISPER_HAILO_CACHE"),
        ("--live_transcribe True", "'whisper-hailo caption --mic default'"),
        ("-ocsv", "-ocsv txt srt vtt tsv json"),
        ("-f mp3", "--format mp3 txt srt vtt tsv json all"),
        (
            "-ot 5000",
            "'-ot 5000' --clip-timestamps",
        ),
    ],
)
def test_compat_missing_option_names_replacement(
    words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "-m", "no-model", *words.split()]) == 2
    error = capsys.readouterr().err
    assert not missing_data(error, data)
    assert error.count("\n") == 1


def test_compat_options_have_alias_or_advice() -> None:
    for option in COMPAT_OPTIONS:
        has_words = option.alias is not None or "true" in option.values
        assert has_words or option.advice, option.names


@pytest.mark.parametrize("typed", JOINED)
def test_compat_joined_option_is_refused_in_one_line(
    typed: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = {*Path().iterdir()}
    name, _, value = typed.partition("=")
    assert run(["transcribe", "a.wav", name, *filter(None, [value])]) == 2
    error = capsys.readouterr().err
    assert name in error
    assert error.count("\n") == 1
    assert {*Path().iterdir()} == before


def test_compat_option_value_is_not_parsed(listener: Listener) -> None:
    assert run(["transcribe", "a.wav", "--initial-prompt", "-tr", "-t4"]) == 0
    ((options, _, _),) = listener.asked
    assert (options.prompts.initial_prompt, options.task) == ("-tr", "transcribe")


@pytest.mark.parametrize("command", ["transcribe", "batch"])
def test_transcribe_output_dir_dash_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "a.wav", "-o", "-"]) == 2
    assert "-o" in capsys.readouterr().err
    assert not Path("-").exists()


def test_compat_recording_as_command_suggests_transcribe(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(tmp_path), "-f", "srt"]) == 2
    message = capsys.readouterr().err
    typed = shlex.join(["whisper-hailo", "transcribe", str(tmp_path), "-f", "srt"])
    assert typed in message


@pytest.mark.parametrize("name", ["-dash.flac", "-xylophone.flac"])
def test_transcribe_name_with_hyphen_needs_double_hyphen(
    name: str, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text("some sound")
    assert run(["transcribe", name]) == 2
    message = capsys.readouterr().err
    assert not missing_data(message, "--")
    assert message.count("\n") == 1
    assert run(["transcribe", "--", name]) == 0
    assert len(listener.asked) == 1


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--beam-size five", "--beam-size five"),
        ("--beam_size five", "--beam-size five"),
        (
            "-bs 2.5",
            "--beam-size 2.5 -bs",
        ),
        ("--temperature=hot", "--temperature hot"),
    ],
)
def test_compat_wrong_number_names_typed_option(
    words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("whisper-hailo: ")
    assert not missing_data(line, data)


@pytest.mark.parametrize(
    "words", [["help"], ["help", "transcribe"], ["help", "models", "list"]]
)
def test_compat_help_is_a_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 0
    text = capsys.readouterr().out
    assert run([*words[1:2], "--help"]) == 0
    assert capsys.readouterr().out == text


def test_transcribe_without_recording_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["transcribe"]) == 2
    assert not missing_data(capsys.readouterr().err, "-")


@pytest.mark.parametrize(
    "words",
    ["-l de -l en", "--language de --language=en", "-l de,en", "--language de -l en"],
)
def test_transcribe_repeated_languages_are_joined(
    listener: Listener, words: str
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    ((options, _, _),) = listener.asked
    assert options.language == "de,en"


def test_compat_options_without_effect_warn(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["transcribe", "a.wav", "--hallucination_silence_threshold"]
    assert run([*command, "None"]) == 0
    assert "no effect" not in capsys.readouterr().err
    assert run([*command, "2"]) == 0
    assert "no effect" in capsys.readouterr().err
    assert len(listener.asked) == 2


@pytest.mark.parametrize(
    "words", ["-osrt", "-nf", "-mc -1", "-tp 0.2", "-tpi 1", "-bs 5", "-bo 2"]
)
def test_compat_caption_refuses_aliases_of_transcribe(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.wav", "--model", "no-model", *words.split()]) == 2
    assert words.split(maxsplit=1)[0] in capsys.readouterr().err


def test_compat_serve_refuses_ml(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["serve", "-ml", "40"]) == 2
    assert "-ml" in capsys.readouterr().err


def test_compat_serve_address_option_names_replacement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["serve", "--uri", "udp://0.0.0.0:10300"]) == 2
    assert "--wyoming" in capsys.readouterr().err
    assert run(["serve", "--host", "192.0.2.1"]) == 2
    assert "--http HOST:PORT" in capsys.readouterr().err


def test_compat_caption_accepts_its_aliases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--device cuda` is answered as elsewhere; `-tr` is `--task translate`."""
    assert run(["caption", "a.wav", "--device", "cuda"]) == 2
    assert "--device cuda" in capsys.readouterr().err
    assert run(["caption", "a.wav", "-m", "tiny.en", "-tr"]) == 2
    assert not missing_data(capsys.readouterr().err, "--task translate tiny.en")


@pytest.mark.parametrize(
    "words", ["--translate False", "--vad-filter False", "-nf False"]
)
def test_compat_switch_false_is_off(listener: Listener, words: str) -> None:
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    options, long, _ = listener.asked[0]
    assert (options.task, long.strategy) == ("transcribe", "auto")
    assert options.search.temperatures == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def test_first_hour_has_twenty_tasks_per_program() -> None:
    assert [len(tasks) for tasks in FIRST_HOUR.values()] == [20] * 4


@pytest.mark.parametrize(("typed", "result"), TYPED)
def test_first_hour_command_gives_expected_result(
    typed: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: Listener(asked=[]))
    monkeypatch.chdir(tmp_path)
    for name in TALKS:
        (tmp_path / name).write_text("some sound")
    code = run(["transcribe", "--model", "micro", *shlex.split(typed)])
    output = capsys.readouterr()
    assert code == 0, output.err
    if result.startswith("writes "):
        place = tmp_path / "out" if (tmp_path / "out").exists() else tmp_path
        written = sorted({path.name for path in place.iterdir()} - set(TALKS))
        assert ", ".join(written) == result.removeprefix("writes ")
    else:
        assert output.out
