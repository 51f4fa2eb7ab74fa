"""Cheap disturbances of clean speech: gain, coloured noise, rooms, band limits, clipping, codec."""

import io
from dataclasses import dataclass

import numpy as np
import soundfile

SAMPLE_RATE_HZ = 16_000
_BANK_S = 60
_SLOPES = (0.0, -0.5, -1.0, -1.5, 0.5)
"""Exponents of frequency in amplitude: white, between, pink-brown, brown, blue."""


class NoiseBank:
    """A minute of noise of each colour, and hum, made once; crops of it are free.

    Args:
        seed: seed of the noise itself.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        n = _BANK_S * SAMPLE_RATE_HZ
        hz = np.fft.rfftfreq(n, 1 / SAMPLE_RATE_HZ)
        shaped = np.maximum(hz, 20.0)
        bank = []
        for slope in _SLOPES:
            spectrum = np.fft.rfft(rng.standard_normal(n)) * shaped**slope
            bank.append(np.fft.irfft(spectrum, n))
        time_s = np.arange(n) / SAMPLE_RATE_HZ
        hum = sum(np.sin(2 * np.pi * 50 * k * time_s) / k for k in (1, 2, 3, 5))
        bank.append(hum + 0.1 * rng.standard_normal(n))
        self._bank = [(noise / noise.std()).astype(np.float32) for noise in bank]

    def crop(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Returns `(n_samples,)` float32 of noise of unit power and random colour."""
        noise = self._bank[rng.integers(len(self._bank))]
        start = rng.integers(noise.size - n_samples)
        return np.asarray(noise[start : start + n_samples])


def level(audio: np.ndarray) -> float:
    """Returns the root mean square of the louder half of `audio` `(n_samples,)`: speech's level."""
    n_blocks = max(1, audio.size // 320)
    power = np.square(audio[: n_blocks * 320]).reshape(n_blocks, -1).mean(axis=1)
    return float(np.sqrt(np.sort(power)[n_blocks // 2 :].mean()))


def band_limited(audio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Filters with a short random low-pass (2.8 to 7 kHz), half of the time also a high-pass."""
    taps = np.arange(-15, 16)
    cutoff = rng.uniform(2800, 7000) / SAMPLE_RATE_HZ
    kernel = 2 * cutoff * np.sinc(2 * cutoff * taps) * np.hamming(taps.size)
    filtered = np.convolve(audio, kernel, "same")
    if rng.random() < 0.5:
        filtered = filtered - rng.uniform(0.4, 0.95) * np.roll(filtered, 1)
    return np.asarray(filtered, np.float32)


@dataclass(frozen=True, slots=True)
class Shares:
    """How often each disturbance of speech occurs; the defaults are those of the first run.

    Attributes:
        band: band limits.
        room: reverberation.
        noise: noise, `noise_db` (lowest, highest) under the speech.
        clipping: overdriven before the gain.
        offset: a constant added to all samples.
        codec: coded as Opus, as most speech that is kept or sent.
    """

    band: float = 0.2
    room: float = 0.0
    noise: float = 0.5
    noise_db: tuple[float, float] = (4.0, 40.0)
    clipping: float = 0.0
    offset: float = 0.0
    codec: float = 0.0


FIRST_RUN = Shares()
ALL_DISTURBANCES = Shares(0.2, 0.2, 0.85, (3.0, 18.0), 0.08, 0.1, 0.06)


def reverberant(audio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `audio` `(n_samples,)` as in a room: its sound, and a tail of decaying noise.

    The tail falls by 60 dB in 0.1 to 0.6 s and starts a few milliseconds late; the direct sound
    stays where it was, so times stay true.
    """
    decay_s = rng.uniform(0.1, 0.6)
    late = int(rng.uniform(0.002, 0.02) * SAMPLE_RATE_HZ)
    time_s = np.arange(int(decay_s * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    tail = rng.standard_normal(time_s.size) * 10 ** (-3 * time_s / decay_s)
    response = np.zeros(late + tail.size)
    response[0] = 1.0
    response[late:] += tail * rng.uniform(0.1, 0.7) / np.sqrt(np.square(tail).sum())
    size = 1 << (audio.size + response.size - 1).bit_length()
    wet = np.fft.irfft(np.fft.rfft(audio, size) * np.fft.rfft(response, size), size)
    return np.asarray(wet[: audio.size], np.float32)


def clipped(audio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `audio` `(n_samples,)` cut at a random 15 to 60 % of its peak."""
    limit = np.float32(rng.uniform(0.15, 0.6) * np.abs(audio).max(initial=0.0))
    return np.asarray(np.clip(audio, -limit, limit))


def coded(audio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `audio` `(n_samples,)` as Opus leaves it at a random rate, from good to poor.

    Of noisy speech a codec keeps less than of clean. It takes 0.1 s for 6 s, so some 6 % of the
    windows are what a step of one second on one core can afford.
    """
    file = io.BytesIO()
    compression = float(rng.uniform(0.5, 0.97))
    soundfile.write(
        file,
        audio,
        SAMPLE_RATE_HZ,
        format="OGG",
        subtype="OPUS",
        compression_level=compression,
    )
    file.seek(0)
    decoded = soundfile.read(file, dtype="float32", frames=audio.size)[0]
    return np.asarray(np.pad(decoded, (0, audio.size - decoded.size)), np.float32)


def disturbed(
    audio: np.ndarray,
    bank: NoiseBank,
    rng: np.random.Generator,
    shares: Shares = FIRST_RUN,
) -> np.ndarray:
    """Returns `audio` `(n_samples,)` float32 after random disturbances, within full scale.

    Noise covers the whole of `audio`, its pauses too: add silence around speech before.
    """
    if shares.room and rng.random() < shares.room:
        audio = reverberant(audio, rng)
    if shares.clipping and rng.random() < shares.clipping:
        audio = clipped(audio, rng)
    if rng.random() < shares.band:
        audio = band_limited(audio, rng)
    if rng.random() < shares.noise:
        snr_db = rng.uniform(*shares.noise_db)
        gain = level(audio) * 10 ** (-snr_db / 20)
        audio = audio + gain * bank.crop(audio.size, rng)
    audio = audio * np.float32(10 ** rng.uniform(-1.3, 0.25))
    if shares.offset and rng.random() < shares.offset:
        audio = audio + np.float32(rng.uniform(-0.05, 0.05))
    audio = np.asarray(np.clip(audio, -1.0, 1.0))
    return coded(audio, rng) if shares.codec and rng.random() < shares.codec else audio


def without_speech(
    n_samples: int, bank: NoiseBank, rng: np.random.Generator
) -> np.ndarray:
    """Returns `(n_samples,)` float32 that holds no speech: zeros, noise, hum, or clicks."""
    kind = rng.integers(4)
    audio = np.zeros(n_samples, np.float32)
    if kind > 0:
        audio += np.float32(10 ** rng.uniform(-4, -0.7)) * bank.crop(n_samples, rng)
    if kind == 3:
        for start in rng.integers(0, n_samples - 200, rng.integers(1, 12)):
            audio[start : start + 200] += np.float32(rng.uniform(0.05, 0.6)) * np.exp(
                -np.arange(200, dtype=np.float32) / rng.uniform(5, 60)
            )
    return np.clip(audio, -1.0, 1.0)
