"""What the parts of an engine refuse before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.model_sizes import TINY, TOY_TOKENS, toy_spec
from tests.fakes.words import TOKENIZER
from tests.unit.transcription.test_decoder_engine import Rows
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Limits
from whisper_hailo.core.spec import Dimensions, FileRecord
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    TokenLimits,
)
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription import pipeline
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.pipeline import (
    MAX_BATCH,
    USUAL_BATCH,
    Pipeline,
    available_bytes,
    check_batch_size,
    default_batch_size,
)
from whisper_hailo.transcription.transcriber import Transcriber


@pytest.fixture(scope="module")
def micro() -> Transcriber:
    """Not open."""
    return Transcriber.from_model("micro", threads=1)


def suppressing(*ids: int) -> DecodingOptions:
    return DecodingOptions(limits=TokenLimits(suppress=ids))


@pytest.mark.parametrize("beyond", [-1, 0])
def test_unknown_suppress_tokens_are_refused(micro: Transcriber, beyond: int) -> None:
    n_vocab = micro.decoder.spec.dims.n_vocab  # type: ignore[attr-defined]
    wrong = beyond if beyond < 0 else n_vocab + beyond
    micro.check(suppressing(0, n_vocab - 1))
    with pytest.raises(OptionError) as caught:
        micro.check(suppressing(3, wrong))
    assert f"suppress-tokens has {wrong}," in str(caught.value)


class Fixed(Rows):
    """A graph of 100 positions without a cache."""

    @property
    def limits(self) -> Limits:
        return Limits(n_positions=100, free_padding=False, aligns=False)


ENCODER = SimpleNamespace(name="onnx", n_frames=None, spec=toy_spec())


def parts(
    decoder: Any, encoder: Any = ENCODER, tokenizer: Tokenizer = TOKENIZER
) -> Pipeline:
    return Pipeline(
        encoder, decoder, tokenizer, WindowPlan.make(TINY), threads=2, reasons=("why",)
    )


@pytest.mark.parametrize(
    ("decoder", "penalty", "step"),
    [(Rows(), 1.0, 0.4), (Fixed(), 1.5, 0.0)],
)
def test_default_anti_repetition_depends_on_the_decoder(
    decoder: Any, penalty: float, step: float
) -> None:
    """A graph of fixed size is padded already; a try is dear without a cache, or cannot be had."""
    built = parts(decoder)
    assert built.default_fallback == step
    assert built.default_anti_repetition.repetition_penalty == penalty


@pytest.mark.parametrize(
    ("decoder", "language", "hottest"),
    [(Rows(), "auto", 0.8), (Fixed(), "auto", 0.0)],
)
def test_default_options_fit_the_decoder(
    decoder: Any, language: str, hottest: float
) -> None:
    """An engine that hears audio itself detects no language."""
    options = parts(decoder).default_options
    assert options.language == language
    assert options.search.temperatures[-1] == hottest
    assert options.search.temperatures[0] == 0.0
    assert options.anti_repetition == parts(decoder).default_anti_repetition


@pytest.mark.parametrize(
    ("decoder", "writes"),
    [(Rows(), True), (Fixed(), False)],
)
def test_default_timestamps_need_a_cache(decoder: Any, writes: bool) -> None:
    assert parts(decoder).default_options.timestamps is writes
    silent = Tokenizer(TOKENIZER.backend, replace(TOY_TOKENS, timestamp_begin=None))
    assert not parts(decoder, tokenizer=silent).default_options.timestamps, (
        "nor has any model"
    )


def test_default_batch_size_is_one_for_other_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.transcription.pipeline.default_batch_size", lambda _: 3
    )
    assert [
        parts(decoder).resolve_batch_size(None) for decoder in (Rows(), Fixed())
    ] == [3, 1]
    assert parts(Fixed()).resolve_batch_size(256) == 256
    for wrong in (0, 257):
        with pytest.raises(OptionError, match=f"--batch-size is {wrong}"):
            parts(Rows()).resolve_batch_size(wrong)


def test_stages_trim_windows_if_asked() -> None:
    for trims in (False, True):
        stages = parts(Rows()).stages(DecodingOptions(), LongOptions(trim_window=trims))
        assert stages.plan.trim_window is trims


def test_fixed_decoder_refuses_longer_padding() -> None:
    fixed = parts(Fixed())
    fixed.check(DecodingOptions(anti_repetition=AntiRepetition(pad_to=100)))
    with pytest.raises(OptionError, match="pad-to is 101"):
        fixed.check(DecodingOptions(anti_repetition=AntiRepetition(pad_to=101)))
    fixed.check(DecodingOptions(anti_repetition=AntiRepetition()))
    parts(Rows()).check(DecodingOptions(anti_repetition=AntiRepetition(pad_to=101)))
    beyond = DecodingOptions(anti_repetition=AntiRepetition(pad_to=1501))
    with pytest.raises(OptionError, match="pad-to is 1501"):
        parts(Rows()).check(beyond)


def test_check_refuses_unsupported_options() -> None:
    with pytest.raises(OptionError, match="attention"):
        parts(Rows(aligns=False)).check(DecodingOptions(word_timestamps=True))


def test_auto_strategy_overlaps_where_words_align() -> None:
    options = DecodingOptions()
    assert parts(Rows()).resolve_long(options, None).strategy == "overlap"
    assert parts(Fixed()).resolve_long(options, None).strategy == "consecutive"
    asked = LongOptions(strategy="overlap")
    assert parts(Fixed()).resolve_long(options, asked).strategy == "overlap"
    with_times = DecodingOptions(timestamps=True)
    assert parts(Fixed()).resolve_long(with_times, None).strategy == "consecutive"
    assert parts(Rows()).resolve_long(with_times, None).strategy == "overlap"


@pytest.mark.parametrize(
    ("n_frames", "strategy"),
    [(None, "overlap"), (500, "dense"), (1000, "overlap")],
)
def test_auto_strategy_follows_the_encoders_window(
    n_frames: int | None, strategy: str
) -> None:
    encoder = SimpleNamespace(name="hef", n_frames=n_frames, spec=toy_spec())
    options = DecodingOptions()
    own = parts(Rows(), encoder)
    assert own.resolve_long(options, None).strategy == strategy
    without_words = parts(Rows(aligns=False), encoder)
    assert without_words.resolve_long(options, None).strategy == "consecutive"
    asked = LongOptions(strategy="overlap")
    assert own.resolve_long(options, asked).strategy == "overlap"


def test_given_strategy_is_kept() -> None:
    timed = DecodingOptions(timestamps=True, word_timestamps=True)
    built = parts(Rows())
    assert built.resolve_long(timed, None).strategy == "overlap"
    assert built.resolve_long(timed, LongOptions("vad")).strategy == "vad"


def test_trim_window_refuses_fixed_encoders() -> None:
    trim_window = LongOptions(trim_window=True)
    assert parts(Rows()).resolve_long(DecodingOptions(), trim_window).trim_window
    encoder = SimpleNamespace(name="hef", n_frames=1000, spec=toy_spec())
    with pytest.raises(OptionError, match="1000 frames"):
        parts(Rows(), encoder).resolve_long(DecodingOptions(), trim_window)


@pytest.mark.parametrize(
    ("anti_repetition", "trims"),
    [
        (AntiRepetition(), True),
        (AntiRepetition(pad_with="zeros"), False),
        (AntiRepetition(0), False),
        (AntiRepetition(700), False),
    ],
)
def test_trim_window_defaults_to_true_with_silence_keys(
    anti_repetition: AntiRepetition, trims: bool
) -> None:
    """Of the whole context: nothing else costs no words."""
    built = parts(Rows())
    options = DecodingOptions(anti_repetition=anti_repetition)
    assert built.resolve_long(options, None).trim_window is trims
    assert built.settings(options, None, 1).trim_window is trims
    for asked in (True, False):
        assert (
            built.resolve_long(options, LongOptions(trim_window=asked)).trim_window
            is asked
        )


def test_trim_window_defaults_to_false_elsewhere() -> None:
    encoder = SimpleNamespace(name="hef", n_frames=1000, spec=toy_spec())
    for other in (parts(Rows(), encoder), parts(Fixed())):
        for asked in (None, False):
            long = LongOptions(trim_window=asked)
            assert other.resolve_long(DecodingOptions(), long).trim_window is False


def test_timestamps_need_timestamp_tokens() -> None:
    timed = DecodingOptions(timestamps=True)
    parts(Rows()).check(timed)
    silent = Tokenizer(TOKENIZER.backend, replace(TOY_TOKENS, timestamp_begin=None))
    with pytest.raises(OptionError, match="timestamp"):
        parts(Rows(), tokenizer=silent).check(timed)
    parts(Rows(), tokenizer=silent).check(DecodingOptions())


def test_check_refuses_unknown_language() -> None:
    parts(Rows()).check(DecodingOptions(language="auto"))
    with pytest.raises(OptionError, match="en, de"):
        parts(Rows()).check(DecodingOptions(language="fr"))


def test_settings_record_options() -> None:
    options = DecodingOptions(
        anti_repetition=AntiRepetition(700, repetition_penalty=1.1, eot_boost=0.2),
        timestamps=True,
    )
    settings = parts(Rows()).settings(options, LongOptions(trim_window=True), 4)
    assert settings.model == "toy"
    assert settings.encoder == "onnx"
    assert settings.decoder == "rows"
    assert settings.window_s == 20.0
    assert settings.margin_s == 1.0
    assert settings.threads == 2
    assert settings.pad_to == 700
    assert settings.repetition_penalty == 1.1
    assert settings.eot_boost == 0.2
    assert settings.windows == "overlap"
    assert settings.search == "greedy"
    assert settings.timestamps
    assert settings.batch_size == 4
    assert settings.trim_window
    assert settings.reasons == ("why",)
    assert parts(Fixed()).settings(DecodingOptions(), None, 1).pad_to == 100
    bare = DecodingOptions(
        anti_repetition=AntiRepetition(pad_to=0), search=SearchOptions(beam_size=5)
    )
    settings = parts(Rows()).settings(bare, None, 1)
    assert settings.pad_to == 0
    assert settings.search == "beam 5"


def test_default_pipeline_encodes_ahead() -> None:
    built = Pipeline(ENCODER, Rows(), TOKENIZER, WindowPlan.make(TINY))  # type: ignore[arg-type]
    assert built.settings(DecodingOptions(), None, 1).threads == 0
    assert built.encode_ahead


def test_identity_changes_with_what_affects_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever led to these parts; anything that may change the text makes another."""
    built = parts(Rows())
    plain = DecodingOptions()
    same = built.identity(plain, None, 1)
    assert replace(built, reasons=("another",)).identity(plain, None, 1) == same
    assert built.identity(DecodingOptions(), LongOptions(), 1) == same
    renamed = Rows()
    renamed.spec = replace(toy_spec(), int8_safe_without_vnni=True)  # type: ignore[misc]
    others = [
        built.identity(DecodingOptions(max_new_tokens=9), None, 1),
        built.identity(plain, LongOptions(min_silence_s=1.0), 1),
        built.identity(plain, None, 2),
        replace(built, threads=3).identity(plain, None, 1),
        replace(built, plan=WindowPlan.make(TINY, 8)).identity(plain, None, 1),
        parts(renamed).identity(plain, None, 1),
    ]
    monkeypatch.setattr("whisper_hailo.transcription.pipeline.__version__", "0.0.0")
    others.append(built.identity(plain, None, 1))  # another version of this program
    assert len({same, *others}) == 8


PARTS = "whisper_hailo.transcription.transcriber"


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("given", [None, Path("elsewhere/tokenizer.json")])
def test_from_model_passes_tokenizer_and_threads(
    monkeypatch: pytest.MonkeyPatch, given: Path | None, *, is_listed: bool
) -> None:
    """With a tokenizer of one's own, and so many threads; the model's is checked if listed."""
    spec = toy_spec()
    if is_listed:
        spec = replace(spec, files={"tokenizer.json": FileRecord(1, "ab")})
    asked: list[Any] = []
    loaded: list[Path] = []

    def find(model: str, convert: ConvertOptions | None, **how: Any) -> Any:
        asked.append((model, convert, how))
        return Path("found"), spec

    def load(path: Path, _: object) -> Any:
        loaded.append(path)
        return TOKENIZER

    monkeypatch.setattr(f"{PARTS}.find_model", find)
    chosen = SimpleNamespace(encoder=ENCODER, decoder=Rows(), reasons=("why",))
    monkeypatch.setattr(f"{PARTS}.select", lambda *_: chosen)
    monkeypatch.setattr(f"{PARTS}.engine_window_s", lambda *_: 5.0)
    monkeypatch.setattr(f"{PARTS}.Tokenizer", SimpleNamespace(load=load))
    convert = ConvertOptions("int8")
    monkeypatch.setattr(f"{PARTS}.model_file", lambda *_: Path("compared"))
    transcriber = Transcriber.from_model(
        revision="v1",
        convert=convert,
        margin_s=0.5,
        threads=3,
        engine=EngineOptions(tokenizer=given),
    )
    assert asked == [("tiny", convert, {"revision": "v1", "tokenizer": given})]
    assert loaded == [
        given or Path("compared" if is_listed else "found/tokenizer.json")
    ]
    assert transcriber.plan.window_s == 5.0
    assert transcriber.plan.margin_s == 0.5
    assert transcriber.reasons == ("why",)
    assert transcriber.settings(DecodingOptions(), None, 1).threads == 3


TINY_SPEC = Dimensions(80, 1500, 384, 4, 6, 4, 6, 448, 51865)
LARGE = Dimensions(128, 1500, 1280, 32, 20, 32, 20, 448, 51866)


@pytest.fixture
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "MEMINFO", tmp_path / "meminfo")
    return tmp_path / "meminfo"


def tell(file: Path, mib: int) -> None:
    file.write_text(
        f"MemTotal: 9999999 kB\nMemAvailable:  {mib * 1024} kB\nBuffers: 1 kB\n"
    )


@pytest.mark.parametrize(
    ("dims", "mib", "expected"),
    [
        (TINY_SPEC, 4000, USUAL_BATCH),
        (TINY_SPEC, 600, 2),
        (TINY_SPEC, 10, 1),
        # A window: 4 * 384 * (4 * 2 * (1500 + 1 + 448) + 16 * 1500) bytes.
        (TINY_SPEC, 463, 1),
        (TINY_SPEC, 464, 2),
        (LARGE, 4000, 1),
        (LARGE, 16_000, 4),
    ],
)
def test_default_batch_size_fits_free_memory(
    free: Path, dims: Dimensions, mib: int, expected: int
) -> None:
    tell(free, mib)
    assert default_batch_size(dims) == expected


@pytest.mark.parametrize(
    "content", [None, "", "MemAvailable:", "MemAvailable: many kB"]
)
def test_default_batch_size_without_meminfo_is_one(
    free: Path, content: str | None
) -> None:
    if content is not None:
        free.write_text(content)
    assert pipeline.available_bytes() is None
    assert default_batch_size(TINY_SPEC) == 1


@pytest.mark.parametrize("asked", [0, -1, MAX_BATCH + 1])
def test_check_batch_size_refuses_impossible_numbers(asked: int) -> None:
    with pytest.raises(OptionError, match=f"--batch-size is {asked}"):
        check_batch_size(asked)


def test_given_batch_size_is_recorded(free: Path) -> None:
    tell(free, 4000)
    micro = Transcriber.from_model("micro", threads=1)
    assert micro.settings(micro.default_options).batch_size == USUAL_BATCH
    assert micro.settings(micro.default_options, batch_size=7).batch_size == 7


@pytest.mark.parametrize(
    ("content", "n_bytes"),
    [
        ("MemTotal:  9 kB\nMemAvailable:    1234 kB\nMemFree: 7 kB\n", 1234 * 1024),
        ("NotMemAvailable: 5 kB\n", None),
        ("MemTotal:  9 kB\n", None),
        ("MemAvailable:\n", None),
        ("MemAvailable: 3", 3072),
        ("MemAvailable: much kB\n", None),
        ("Odd: \xff\nMemAvailable: 2 kB\n", 2048),
        ("", None),
        (None, None),
    ],
)
def test_available_bytes_reads_meminfo(
    content: str | None,
    n_bytes: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if content is not None:
        (tmp_path / "meminfo").write_text(content, encoding="latin-1")
    monkeypatch.setattr(pipeline, "MEMINFO", tmp_path / "meminfo")
    assert available_bytes() == n_bytes
