"""openai-whisper's log-mel in torch, on one thread."""

from __future__ import annotations

import torch
import whisper

from whisper_hailo_lab.compare.mel_worker import LogMel, serve_mel


def make() -> LogMel:
    torch.set_num_threads(1)
    return lambda audio: whisper.log_mel_spectrogram(audio).numpy()


if __name__ == "__main__":
    serve_mel(make)
