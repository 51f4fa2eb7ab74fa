"""Asks the live references what `tests/references` keeps of them.

Run in the parity environment, from the root of the repository, when a case, the bundled model or a
reference changes:

    .venv-parity/bin/python -m tests.parity.record
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import whisper
from transformers import WhisperForConditionalGeneration

from tests.checkpoints import TOY, write_checkpoint
from tests.parity import faster, openai, reference
from tests.references import cases, speech
from whisper_hailo.audio.log_mel import log_mel

FOLDER = Path(cases.__file__).parent
PADS = (None, 70, 150)
LIKELY = 1e-4
"""Languages of less are in an order of their own on every processor."""
EVERY = 25
"""Of the encoder's positions one in so many is kept."""
N_COLUMNS = 200
"""Of the logits' columns so many are kept, the same for every position."""


def openai_whisper() -> dict[str, Any]:
    """Texts, probabilities, segments and words of OpenAI's own program."""
    torch.set_num_threads(1)
    model = openai.load()
    return {
        "windows": {
            name: _decoded(model, case) for name, case in cases.WINDOWS.items()
        },
        "languages": [_languages(model, *clip) for clip in cases.LANGUAGES],
        "minutes": {
            name: _transcribed(model, case) for name, case in cases.MINUTES.items()
        },
    }


def _decoded(model: Any, case: cases.Window) -> dict[str, Any]:
    options = whisper.DecodingOptions(
        language=case.language,
        task=case.task,
        without_timestamps=not case.timestamps,
        fp16=False,
        prompt=case.prompt,
        prefix=case.prefix,
        **cases.SEARCHES[case.search][1],
    )
    result = whisper.decode(model, openai.mel_of(case.audio()), options)
    return {
        "tokens": result.tokens,
        "text": result.text,
        "avg_logprob": result.avg_logprob,
        "no_speech_prob": result.no_speech_prob,
        "compression_ratio": result.compression_ratio,
    }


def _languages(model: Any, folder: str, number: int) -> dict[str, float]:
    _, found = whisper.detect_language(
        model, openai.mel_of(speech.window(folder, number))
    )
    likely = [(code, p) for code, p in found.items() if p >= LIKELY]
    return dict(sorted(likely, key=lambda pair: -pair[1]))


def _transcribed(model: Any, case: cases.Minute) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        openai.hear_as_ours(patch)
        result = whisper.transcribe(
            model,
            case.audio(),
            language="en",
            fp16=False,
            verbose=None,
            temperature=0.0,
            condition_on_previous_text=case.conditioned,
            no_speech_threshold=None,
            logprob_threshold=None,
            compression_ratio_threshold=None,
            word_timestamps=True,
            **cases.SEARCHES[case.search][1],
        )
    return [
        {
            "window_start_s": segment["seek"] / 100,
            "start_s": round(float(segment["start"]), 2),
            "end_s": round(float(segment["end"]), 2),
            "text": segment["text"],
            "words": [
                _word(word["word"], word["start"], word["end"], word["probability"])
                for word in segment["words"]
            ],
        }
        for segment in result["segments"]
        if segment["text"].strip()
    ]


def faster_whisper() -> dict[str, Any]:
    """Texts, segments and words of faster-whisper, in float32."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        model = faster.load(Path(folder))
        faster.hear_as_ours(patch)
        return {
            "windows": {
                name: _said(model, cases.WINDOWS[name], without_timestamps=not times)
                for name in cases.SIMPLE
                for times in [cases.WINDOWS[name].timestamps]
            },
            "minutes": {
                name: _said(model, case, word_timestamps=True)
                for name, case in cases.MINUTES.items()
                if not case.conditioned
            },
        }


def _said(
    model: Any, case: cases.Window | cases.Minute, **options: Any
) -> list[dict[str, Any]]:
    options |= cases.SEARCHES[case.search][1]
    return [
        {
            "start_s": round(segment.start, 2),
            "end_s": round(segment.end, 2),
            "text": segment.text,
            "words": [
                _word(word.word, word.start, word.end, word.probability)
                for word in segment.words or []
            ],
        }
        for segment in faster.said(model, case.audio(), **options)
        if segment.text.strip()
    ]


def _word(text: str, start_s: float, end_s: float, probability: float) -> list[Any]:
    return [
        text,
        round(float(start_s), 2),
        round(float(end_s), 2),
        round(float(probability), 4),
    ]


def transformers() -> dict[str, Any]:
    """Encoder features and logits of Transformers, in places, and the tokens that it generates."""
    model = WhisperForConditionalGeneration.from_pretrained(
        cases.MICRO, attn_implementation="eager", dtype="float32"
    ).eval()
    found: dict[str, Any] = {}
    for number, name in enumerate(cases.GREEDY):
        case = cases.WINDOWS[name]
        mel = log_mel(case.audio())[None]
        new = model.generate(
            torch.from_numpy(mel),
            language=case.language,
            task=case.task,
            return_timestamps=case.timestamps,
        ).numpy()
        tokens = np.concatenate([_prefix(model.generation_config, case), new], axis=1)
        features = reference.encode(model, mel)
        logits = reference.logits(model, tokens, features, None)[0]
        columns = np.random.RandomState(number).choice(
            logits.shape[1], N_COLUMNS, replace=False
        )
        found |= {
            f"{name}: tokens": tokens[0],
            f"{name}: features": features[0, ::EVERY],
            f"{name}: columns": columns,
            f"{name}: logits": logits[:, columns],
            f"{name}: largest": logits.max(axis=-1),
            f"{name}: likeliest": logits.argmax(axis=-1),
        }
    return found


def _prefix(known: Any, case: cases.Window) -> Any:
    """The control tokens before a text, `(1, n)`, which Transformers does not give back."""
    tokens = [known.decoder_start_token_id, known.lang_to_id[f"<|{case.language}|>"]]
    tokens.append(known.task_to_id[case.task])
    return np.array([tokens + [known.no_timestamps_token_id] * (not case.timestamps)])


def graph() -> dict[str, Any]:
    """What Transformers computes for the toy checkpoint of `tests/checkpoints.py`."""
    rng = np.random.RandomState(1)
    mel = rng.standard_normal((1, TOY.n_mels, 100)).astype(np.float32)
    tokens = rng.randint(0, TOY.n_vocab, (1, 40)).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        model = WhisperForConditionalGeneration.from_pretrained(
            write_checkpoint(Path(folder)), attn_implementation="eager", dtype="float32"
        ).eval()
    features = reference.encode(model, mel)
    logits = [reference.logits(model, tokens, features, pad_to)[0] for pad_to in PADS]
    return {
        "mel": mel,
        "tokens": tokens,
        "pads": np.array([pad_to or 0 for pad_to in PADS]),
        "features": features,
        "logits": np.stack(logits),
    }


def main() -> None:
    for ask in (openai_whisper, faster_whisper):
        text = json.dumps(ask(), ensure_ascii=False, indent=1)
        (FOLDER / f"{ask.__name__}.json").write_text(text + "\n", encoding="utf-8")
    for compute in (transformers, graph):
        np.savez_compressed(FOLDER / f"{compute.__name__}.npz", **compute())


if __name__ == "__main__":
    main()
