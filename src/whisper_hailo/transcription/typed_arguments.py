"""Keyword arguments of `Transcriber`, typed; written by scripts/typed-arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from whisper_hailo.backends.options import ChipOptions, ChipPriority
from whisper_hailo.decoding.options import (
    AntiRepetition,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import LongOptions


class ModelKwargs(TypedDict, total=False):
    """Keyword arguments of `Transcriber.from_model`."""

    encoder: Path | str | None
    decoder: Path | str | None
    encoder_backend: str
    decoder_backend: str
    decoder_assets: Path | str | None
    tokenizer: Path | str | None
    hailo: ChipOptions
    share: bool
    priority: ChipPriority
    timeout_s: float
    device_timeout: float
    open_timeout_s: float
    quantize: str
    encoder_quantize: str
    half: bool | None
    compute_type: str
    device: str
    cpu_threads: int


class TranscribeKwargs(TypedDict, total=False):
    """Keyword arguments of `Transcriber.transcribe`."""

    language: str | None
    task: str
    anti_repetition: AntiRepetition | str
    preset: AntiRepetition | str
    pad_to: int | None
    pad_with: str
    repetition_penalty: float
    eot_boost: float
    max_new_tokens: int | None
    timestamps: bool
    max_initial_timestamp_s: float | None
    max_initial_timestamp: float | None
    detect_each_window: bool
    search: SearchOptions
    temperatures: float | Sequence[float]
    beam_size: int
    retry_beam_size: int
    patience: float
    length_penalty: float | None
    best_of: int
    seed: int
    thresholds: Thresholds
    no_speech: float | None
    no_speech_threshold: float | None
    logprob: float | None
    logprob_threshold: float | None
    log_prob_threshold: float | None
    compression_ratio: float | None
    compression_ratio_threshold: float | None
    limits: TokenLimits
    suppress: Sequence[int] | str | None
    suppress_tokens: Sequence[int] | str | None
    suppress_blank: bool
    no_repeat_ngram: int
    no_repeat_ngram_size: int
    max_per_second: float | None
    max_tokens_per_second: float | None
    prompts: PromptOptions
    initial_prompt: str | None
    prompt: str | None
    prefix: str | None
    hotwords: str | Sequence[str] | None
    hotword_bonus: float
    condition_on_previous_text: bool
    carry_initial_prompt: bool
    word_timestamps: bool
    strategy: str
    long: LongOptions | str | None
    overlap_s: float | None
    overlap: float | None
    clips: Sequence[float] | str
    clip_timestamps: Sequence[float] | str
    skip_silence: bool
    vad_threshold: float
    min_silence_s: float
    vad_min_silence: float
    speech_pad_s: float
    vad_speech_pad: float
    trim_window: bool | None
    speakers: SpeakerOptions | int | str | bool | None
    speaker_names: Sequence[str] | str
    speaker_models: Path | str | None
    batch_size: int | None
    sample_rate: int | None
    temperature: float | Sequence[float]
    vad_filter: bool
    vad_parameters: Mapping[str, float] | None
    multilingual: bool
    hallucination_silence_threshold: float | None
    without_timestamps: bool
    log_progress: bool
