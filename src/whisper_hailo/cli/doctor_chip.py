"""`whisper-hailo doctor --chip`: what a chip does, in two minutes, one screen and one JSON."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.hailo.binding import load_binding
from whisper_hailo.backends.hailo.chip_trial import (
    CAPTION_INTERVAL_S,
    call_signatures,
    describe_encoder,
    measure_runs,
    recover_after_kill,
    share_with_process,
)
from whisper_hailo.backends.hailo.decoder_positions import compare_positions
from whisper_hailo.backends.hailo.hef_catalog import find_known, needed_hef
from whisper_hailo.backends.hailo.hef_download import fetch
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.hailo.isolated_probe import chips
from whisper_hailo.backends.hailo.known_answer import ask, first_window
from whisper_hailo.backends.hailo.known_windows import TINY
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.options import ChipOptions, EngineOptions
from whisper_hailo.backends.silence import CLIPS, bundled_clips
from whisper_hailo.cli.doctor_hailo import BROKEN, Check, finding, hailo_checks
from whisper_hailo.convert.model_cache import find_model
from whisper_hailo.core.errors import ModelError, WhisperHailoError
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND
from whisper_hailo.core.version import __version__
from whisper_hailo.transcription.transcriber import Transcriber

_STUDY_MS: Final = 30.7
_STUDY_DIFFERENCE: Final = 0.189
_STUDY_STD: Final = (1.354, 1.365)
"""The study's tiny encoder on a Hailo-8L: ms of a window, mean difference of its features from the
ONNX graph's, and standard deviation of both."""

_MUCH_SLOWER: Final = 2.0
_FEWEST_EQUAL_WORDS: Final = 0.8
"""Rounding changes a word or two of a sentence."""


@dataclass(frozen=True, slots=True)
class ChipTrialOptions:
    """What is tried; files that are not given are the vendor's, fetched if they are missing."""

    model: str = "tiny"
    encoder: Path | None = None
    decoder: Path | None = None
    decoder_assets: Path | None = None


@dataclass(slots=True)
class ChipReport:
    """The findings about a chip, and all figures behind them."""

    checks: list[Check] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "whisper_hailo": __version__,
            "checks": [asdict(check) for check in self.checks],
            "figures": self.figures,
        }

    def add(self, name: str, text: str, problem: str = "") -> None:
        """Add a verdict: well, unless there is a problem."""
        self.checks.append(finding(name, text, problem))

    def attempt(self, name: str, trial: Callable[[], None]) -> None:
        """Make a trial; its error is a finding, and the next one goes on."""
        try:
            trial()
        except WhisperHailoError as error:
            problem, _, advice = str(error).rpartition("; ")
            self.checks.append(Check(name, BROKEN, problem or str(error), advice))


def try_chip(options: ChipTrialOptions) -> ChipReport:
    """Try the chip of this machine; each trial that fails becomes a finding."""
    report = ChipReport()
    report.figures["board"] = _board()
    report.figures["python"] = platform.python_version()
    report.add("board", f"{_board()}, Python {platform.python_version()}")
    report.checks += [
        check
        for check in hailo_checks()
        if check.name not in ("HEF files", "throttling")
    ]
    report.attempt("chip", lambda: _try_files(report, options))
    return report


def _board() -> str:
    """Return the board's name, as Linux has it from the device tree."""
    try:
        text = Path("/proc/device-tree/model").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    return text.strip("\0\n ")


def _try_files(report: ChipReport, options: ChipTrialOptions) -> None:
    directory, spec = find_model(options.model)
    encoder_path = options.encoder or _locate(directory, spec, options.model, "encoder")
    encoder = HefEncoder(encoder_path, spec)
    trial = _EncoderTrial(report, directory, spec, encoder)
    trial.describe_file()
    report.attempt("known answer", trial.compare_features)
    report.attempt("known text", trial.compare_text)
    report.attempt("time", trial.measure)
    report.attempt("sharing", trial.share)
    report.attempt("recovery", trial.recover)
    decoder_path = options.decoder
    if decoder_path is None and options.encoder is None:
        decoder_path = _locate(directory, spec, options.model, "decoder")
    if decoder_path is not None:
        assets = options.decoder_assets or decoder_path.parent
        if options.decoder is not None and options.decoder_assets is None:
            assets = directory
        runner = HefRunner(decoder_path, spec, assets)
        report.attempt("decoder", lambda: _try_decoder(report, directory, spec, runner))


def _locate(directory: Path, spec: ModelSpec, model: str, part: str) -> Path:
    """Return a HEF of the model, the vendor's where there is no other."""
    try:
        return needed_hef(directory, spec, part)
    except ModelError:
        known = find_known(chips()[0].arch, model)
        if known is None:
            raise
        fetch(known, known.place)
        return needed_hef(directory, spec, part)


@dataclass(slots=True)
class _EncoderTrial:
    """The trials of one encoder."""

    report: ChipReport
    directory: Path
    spec: ModelSpec
    encoder: HefEncoder

    def describe_file(self) -> None:
        """Report hash, networks, formats and contexts of the file."""
        path = self.encoder.path
        hef = read_hef(path, verify=False)
        digest = sha256(path)
        contexts = ", ".join(
            f"{group.name} in {group.contexts} contexts" for group in hef.groups
        )
        self.report.figures["hef"] = {
            "file": path.name,
            "sha256": digest,
            "arch": hef.arch,
            "compiler": hef.compiler_version,
            "groups": [asdict(group) for group in hef.groups],
        }
        self.report.add(
            "HEF",
            f"{path.name}, SHA-256 {digest[:12]}, for {hef.arch}, compiler "
            f"{hef.compiler_version}, {contexts}; {describe_encoder(self.encoder.shape)}",
        )

    def compare_features(self) -> None:
        """Report how the chip's features compare with the CPU's."""
        with self.encoder:
            configured, *_ = self.encoder.lease.chip.configured_models()
            self.report.figures["calls"] = call_signatures(load_binding(), configured)
            answer = ask(self.encoder, self.directory, self.spec)
            mel = first_window(bundled_clips()[0], self.encoder.n_frames, self.spec)
            features = self.encoder.encode(mel[np.newaxis])[0]
        with OnnxEncoder(self.directory, self.spec) as cpu:
            reference = cpu.encode(mel[np.newaxis])[0]
        difference = float(np.abs(features - reference).mean())
        spread = (float(features.std()), float(reference.std()))
        self.report.figures["answer"] = {
            **asdict(answer.match),
            "problem": answer.problem,
            "mean_difference": difference,
            "std": spread[0],
            "std_cpu": spread[1],
        }
        text = (
            f"{answer.describe()}; mean difference {difference:.3f}, std {spread[0]:.3f} and "
            f"{spread[1]:.3f} on the CPU"
        )
        if self.spec.dims.d_model == TINY:
            text += (
                f" (the study: {_STUDY_DIFFERENCE}, {_STUDY_STD[0]}, {_STUDY_STD[1]})"
            )
        broken = bool(answer.problem)
        self.report.checks.append(finding("known answer", text, broken=broken))

    def compare_text(self) -> None:
        """Report the text of a recording with the chip's encoder and with the CPU's."""
        window_s = self.encoder.n_frames / FRAMES_PER_SECOND
        texts = {}
        for name, engine in (
            ("chip", EngineOptions(encoder=self.encoder.path)),
            ("cpu", EngineOptions(encoder_backend="onnx")),
        ):
            with Transcriber.from_model(
                str(self.directory), window_s=window_s, engine=engine
            ) as transcriber:
                texts[name] = transcriber.transcribe(CLIPS / "english.flac").text
        self.report.figures["texts"] = texts
        if texts["chip"] == texts["cpu"]:
            self.report.add("known text", f"identical on both: {texts['chip']}")
            return
        matcher = SequenceMatcher(None, texts["chip"].split(), texts["cpu"].split())
        problem = ""
        if matcher.ratio() < _FEWEST_EQUAL_WORDS:
            problem = "the HEF is too noisy for this model's words; use the CPU"
        self.report.add(
            "known text",
            f"{100 * matcher.ratio():.0f} % of words equal; chip: {texts['chip']} | CPU: "
            f"{texts['cpu']}",
            problem,
        )

    def measure(self) -> None:
        """Report times of windows one after the other, and in the rhythm of captions."""
        mel = first_window(bundled_clips()[0], self.encoder.n_frames, self.spec)
        with self.encoder:
            alone = measure_runs(self.encoder, mel)
            paced = measure_runs(self.encoder, mel, CAPTION_INTERVAL_S)
        self.report.figures["times"] = {
            "alone": asdict(alone),
            "every_half_second": asdict(paced),
        }
        problem = ""
        text = alone.describe()
        if self.spec.dims.d_model == TINY:
            text += f"; the study: {_STUDY_MS} ms of tiny on an 8L"
            if alone.mean_ms > _MUCH_SLOWER * _STUDY_MS:
                problem = "slow: check link speed and width, cooling, other programs"
        self.report.add("time", text, problem)
        self.report.add("time, captions", paced.describe())

    def share(self) -> None:
        """Report whether two processes can use the chip at once."""
        path = self.encoder.path
        shared = HefEncoder(path, self.spec, ChipOptions(share=True))
        mel = first_window(bundled_clips()[0], self.encoder.n_frames, self.spec)
        with shared, ThreadPoolExecutor(1) as pool:
            other = pool.submit(share_with_process, path)
            ours = measure_runs(shared, mel)
            while not other.done():  # it takes a moment to start
                ours = measure_runs(shared, mel)
            other_ms = other.result()
        self.report.figures["sharing"] = {
            "other_ms": other_ms,
            "this_ms": ours.mean_ms,
        }
        self.report.add(
            "sharing",
            f"two processes at once: {other_ms:.1f} ms a window there, {ours.mean_ms:.1f} here",
        )

    def recover(self) -> None:
        """Report how soon the chip runs again after a process on it was killed."""
        recovery_s = recover_after_kill(self.encoder.path)
        self.report.figures["recovery_s"] = recovery_s
        self.report.add(
            "recovery",
            f"runs again {recovery_s:.1f} s after a process on it was killed",
        )


def _try_decoder(
    report: ChipReport, directory: Path, spec: ModelSpec, runner: HefRunner
) -> None:
    """Report how likely the CPU's words are with position rows from either side."""
    logprobs = compare_positions(runner, directory, spec)
    report.figures["decoder"] = {"file": runner.path.name, "logprobs": logprobs}
    expected = runner.shape.positions
    best = max(logprobs, key=lambda side: logprobs[side])
    problem = ""
    if best != expected:
        problem = f"it takes its position rows from the {best}"
    texts = [f"{value:.2f} from the {side}" for side, value in logprobs.items()]
    report.add(
        "decoder",
        f"{runner.path.name}: log-probability of known words with position rows "
        f"{', '.join(texts)}",
        problem,
    )
