"""Transformers' log-mel in numpy, as it computes without torch."""

from __future__ import annotations

from transformers import WhisperFeatureExtractor

from whisper_hailo_lab.compare.mel_worker import LogMel, serve_mel


def make() -> LogMel:
    extractor = WhisperFeatureExtractor()
    return lambda audio: extractor._np_extract_fbank_features(audio[None], "cpu")[0]


if __name__ == "__main__":
    serve_mel(make)
