"""Windows decoded together have the text that each has alone; near-ties are counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import soundfile

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

DATA = unpack_clips()


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
