"""Long recordings, batches, trees, channels and prompts; windows decoded together."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_LINES, DEMO_TEXT, Command, one_line
from tests.near_ties import NEAR_TIE, counted_near_ties
from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.clip_archives import unpack_clips

SEEN = unpack_clips() / "seen"
MICRO = ("transcribe", "--model", "micro", "--threads", 1)
DATA = unpack_clips()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders with clips."""
    root = tmp_path_factory.mktemp("tree")
    for index, clip in enumerate(sorted(SEEN.glob("*.ogg"))[:6]):
        folder = root / ("a" if index < 3 else "b/c")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, folder)
    return root


def texts(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*.txt"))
    }


def test_transcribe_batches_equal_single_windows_and_resume(
    whisper_hailo: Command, tree: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    together = tmp_path / "together"
    assert whisper_hailo(*MICRO, "--output-dir", alone, tree).returncode == 0
    assert (
        whisper_hailo(
            *MICRO, "--output-dir", together, "--batch-size", 4, tree
        ).returncode
        == 0
    )
    straight = texts(alone)
    assert len(straight) == 6
    assert any(name.startswith("b/c/") for name in straight)
    assert texts(together) == straight
    for name in list(straight)[::2]:
        (alone / name).unlink()
    result = whisper_hailo(*MICRO, "--output-dir", alone, "--skip-existing", tree)
    assert "3 of 6" in result.stderr
    assert texts(alone) == straight


def test_transcribe_reads_standard_input(whisper_hailo: Command) -> None:
    with DEMO.open("rb") as file:
        result = whisper_hailo(*MICRO, "-", stdin=file)
    assert result.stdout.strip() == DEMO_LINES
    piped = whisper_hailo(*MICRO, "--json", "-", text=False, input=DEMO.read_bytes())
    assert json.loads(piped.stdout)["audio"] == "stdin"
    assert json.loads(piped.stdout)["text"] == DEMO_TEXT


def test_transcribe_split_channels_are_speakers(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    first, second = (
        soundfile.read(p, dtype="float32")[0] for p in sorted(SEEN.glob("*.ogg"))[:2]
    )
    both = np.zeros((first.size + second.size, 2), np.float32)
    both[: first.size, 0] = first
    both[first.size :, 1] = second
    soundfile.write(tmp_path / "call.wav", both, 16_000)
    result = whisper_hailo(
        *MICRO, "--channels", "split", "--json", tmp_path / "call.wav"
    )
    segments = json.loads(result.stdout)["segments"]
    assert {segment["speaker"] for segment in segments} == {0, 1}
    starts = [segment["start"] for segment in segments]
    assert starts == sorted(starts)
    mono = whisper_hailo(*MICRO, "--channels", "split", DEMO)
    assert mono.returncode == 3
    assert "--channels split" in one_line(mono)


def test_transcribe_word_times_rise_within_the_recording(
    whisper_hailo: Command,
) -> None:
    printed = json.loads(
        whisper_hailo(*MICRO, "--word-timestamps", "--json", DEMO).stdout
    )
    words = [word for segment in printed["segments"] for word in segment["words"]]
    assert "".join(word["word"] for word in words).split() == printed["text"].split()
    assert all(
        0 <= word["start"] <= word["end"] <= printed["duration"] for word in words
    )
    assert all(0 <= word["probability"] <= 1 for word in words)


def test_transcribe_clips_behind_the_end_are_warned_of(whisper_hailo: Command) -> None:
    result = whisper_hailo(*MICRO, "--clip-timestamps", "0,2,500,510", DEMO)
    assert result.returncode == 0
    assert result.stdout.strip()
    assert re.search(r"--clip-timestamps .* 500 s", result.stderr)


@pytest.mark.parametrize("kind", ["blink", "silence", "clipped", "offset"])
def test_transcribe_odd_sounds_have_their_whole_duration(
    whisper_hailo: Command, tmp_path: Path, kind: str
) -> None:
    speech = soundfile.read(DEMO, dtype="float32")[0]
    audio = {
        "blink": speech[:160],
        "silence": np.zeros(40 * 16_000, np.float32),
        "clipped": np.clip(30 * speech, -1, 1),
        "offset": speech * 0.5 + 0.4,
    }[kind]
    soundfile.write(tmp_path / "odd.wav", audio, 16_000)
    result = whisper_hailo(*MICRO, "--fallback", 0.5, "--json", tmp_path / "odd.wav")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["duration"] == pytest.approx(audio.size / 16_000)


def test_compare_padding_grid_has_a_row_for_each_setting(
    whisper_hailo: Command,
) -> None:
    result = whisper_hailo(
        "compare", "padding", SEEN, "--grid", "--model", "micro", "--limit", 2,
        "--pad-to", "0,1500", "--repetition-penalty", "1", "--eot-boost", "0",
        "--zero-rows", "1500", "--json",
    )  # fmt: skip
    rows = json.loads(result.stdout)["rows"]
    assert rows[0]["value"] == "conservative"
    by_name = {row["value"]: row for row in rows}
    real = by_name["real zeros to 1500"]
    free = by_name["pad 1500, penalty 1, boost 0"]
    assert real["wer"] == free["wer"]


@pytest.fixture(scope="module")
def transcriber() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", quantize="none", threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def clips() -> list[FloatArray]:
    """Voices of all kinds, one of them longer than a window."""
    names = [
        p
        for folder in ("noisy", "german")
        for p in sorted((DATA / folder).glob("*.ogg"))[:4]
    ]
    names += sorted((DATA / "long").glob("*.ogg"))[:1]
    return [soundfile.read(path, dtype="float32")[0] for path in names]


@pytest.mark.parametrize(
    "search",
    [
        SearchOptions(),
        SearchOptions(beam_size=3),
        SearchOptions(temperatures=(0.4,), best_of=2),
    ],
    ids=["greedy", "beam", "sampled"],
)
def test_transcribe_many_in_float32_gives_the_same_text(
    transcriber: Transcriber, clips: list[FloatArray], search: SearchOptions
) -> None:
    options = DecodingOptions(search=search)
    transcripts = list(transcriber.transcribe_many(clips, options, batch_size=5))
    for audio, batched in zip(clips, transcripts, strict=True):
        assert isinstance(batched, Transcript)
        assert batched.text == transcriber.transcribe(audio, options).text
    assert (
        sum(
            len(transcript.text.split())
            for transcript in transcripts
            if isinstance(transcript, Transcript)
        )
        > 40
    )


@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_transcribe_running_drafts_differ_only_at_near_ties(
    clips: list[FloatArray], quantize: str
) -> None:
    options = DecodingOptions()
    n_words = 0
    convert = ConvertOptions(quantize, "none")
    with Transcriber.from_model("micro", threads=1, convert=convert) as transcriber:
        for audio in clips:
            with counted_near_ties(quantize) as ties:
                plain = transcriber.transcribe_running(
                    PartialBuffer(audio[:144_000]), options
                )
                # The right draft without one of its tokens.
                draft = plain.tokens[:3] + plain.tokens[4:]
                drafted = transcriber.transcribe_running(
                    PartialBuffer(audio[:144_000], Draft(draft)), options
                )
            assert drafted.tokens == plain.tokens or ties
            assert drafted.passes < plain.passes
            n_words += 0 if ties else len(plain.text.split())
    assert n_words > 40, "of texts without a near-tie"


def test_decoder_batch_rounding_is_below_the_tolerance(
    transcriber: Transcriber, clips: list[FloatArray]
) -> None:
    encoder = transcriber.encoder
    decoder = transcriber.decoder
    assert encoder is not None
    assert isinstance(decoder, CachedDecoder)
    mel = np.stack([log_mel(pad_or_trim(audio, 160_000), 80) for audio in clips])
    prefix = transcriber.tokenizer.prefix("en", "transcribe")
    tokens = np.array([[*prefix, 264, 257, 13]] * len(clips), dtype=np.int64)
    positions = np.arange(len(prefix) - 1, tokens.shape[1], dtype=np.int64)

    def logits(rows: slice) -> FloatArray:
        features = encoder.encode(mel[rows])
        state = decoder.start(features, (Padding(1500),) * len(features))
        logprobs: FloatArray = decoder.step(tokens[rows], state, positions)[0].logits
        return logprobs

    batch = logits(slice(None))
    alone = np.concatenate([logits(slice(row, row + 1)) for row in range(len(clips))])
    # Two logits may move towards each other.
    assert 2 * np.abs(batch - alone).max() < NEAR_TIE["none"]


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_decoder_sums_of_a_beam_move_below_the_tolerance(
    clips: list[FloatArray], quantize: str
) -> None:
    """The distance of two sums, each of the likely text of a clip."""
    convert = ConvertOptions(quantize, "none")
    with Transcriber.from_model("micro", threads=1, convert=convert) as transcriber:
        encoder = transcriber.encoder
        decoder = transcriber.decoder
        assert encoder is not None
        assert isinstance(decoder, CachedDecoder)
        texts = [
            transcriber.transcribe_running(
                PartialBuffer(audio[:144_000]), DecodingOptions()
            ).tokens
            for audio in clips
        ]
        is_text = np.array(
            [[row < len(text) for text in texts] for row in range(max(map(len, texts)))]
        )
        forced = np.zeros(is_text.T.shape, np.int64)
        forced[is_text.T] = np.concatenate(texts)
        mel = np.stack([log_mel(pad_or_trim(audio, 160_000), 80) for audio in clips])
        features = np.concatenate(
            [encoder.encode(window_mel[np.newaxis]) for window_mel in mel]
        )
        prefix = transcriber.tokenizer.prefix("en", "transcribe")

        def sums(rows: list[int]) -> FloatArray:
            state = decoder.start(features[rows], (Padding(1500),) * len(rows))
            tokens = np.array([prefix] * len(rows), np.int64)
            positions = np.array([len(prefix) - 1])
            logprobs = []
            for column in forced[rows].T:
                output, state = decoder.step(tokens, state, positions)
                logits = output.logits[np.arange(len(rows)), -1, column]
                logprobs.append(logits - output.logsumexp[:, -1])
                tokens = column[:, np.newaxis]
                positions = np.zeros(1, np.int64)
            return np.cumsum(np.array(logprobs) * is_text[:, rows], axis=0)

        alone = np.concatenate([sums([row]) for row in range(len(clips))], axis=1)
        moved = sums([*range(len(clips))]) - alone
    assert is_text.sum() > 100
    assert np.ptp(moved, axis=1).max() < NEAR_TIE[quantize]
