"""`whisper-hailo doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

from whisper_hailo.cli.doctor_hailo import BROKEN, Check, finding
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.process import install_command, read_cpu_flags

_DOT_PRODUCTS: Final = ("avx512_vnni", "avx_vnni", "asimddp", "i8mm")
_CPU_FEATURES: Final = ("avx2", *_DOT_PRODUCTS, "asimd", "asimdhp")
_NEEDED_CACHE_GIB: Final = 1.0


def doctor(
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
    chip: Annotated[
        bool, Flag("Test the Hailo chip for two minutes: results, speed, sharing.")
    ] = False,
    model: Annotated[str, Flag("For --chip: model to try.")] = "tiny",
    encoder: Annotated[
        Path | None, Flag("For --chip: encoder HEF.", metavar="FILE")
    ] = None,
    decoder: Annotated[
        Path | None, Flag("For --chip: decoder HEF.", metavar="FILE")
    ] = None,
    decoder_assets: Annotated[
        Path | None, Flag("For --chip: arrays for the host.", metavar="DIR")
    ] = None,
) -> int:
    """Check Python, runtime, processor, audio, accelerator and cache; suggest fixes."""
    if chip:
        return _try_chip(as_json, (model, encoder, decoder, decoder_assets))
    from whisper_hailo.cli.doctor_hailo import hailo_checks

    checks = [
        check_python(),
        check_runtime(),
        check_processor(),
        check_int8(),
        check_audio(),
        check_media(),
        *hailo_checks(),
        check_cache(),
    ]
    if as_json:
        emit_json({"checks": [asdict(check) for check in checks]}, indent=2)
    else:
        _print_checks(checks)
    return _exit_code(checks)


def _print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        emit(f"{check.status:>6}  {check.name}: {check.found}\n")
        if check.advice:
            emit(f"        -> {check.advice}\n")


def _exit_code(checks: Sequence[Check]) -> ExitCode:
    broken = any(check.status == BROKEN for check in checks)
    return ExitCode.INTERNAL if broken else ExitCode.OK


def _try_chip(
    as_json: bool, what: tuple[str, Path | None, Path | None, Path | None]
) -> ExitCode:
    """Try the chip and print what it does; exit code 6 if a trial failed."""
    from whisper_hailo.cli.doctor_chip import ChipTrialOptions, try_chip

    report = try_chip(ChipTrialOptions(*what))
    if as_json:
        emit_json(report.to_dict(), indent=2)
    else:
        _print_checks(report.checks)
    failed = _exit_code(report.checks) != ExitCode.OK
    return ExitCode.DEVICE if failed else ExitCode.OK


def check_python() -> Check:
    """Report the version and path of Python."""
    version = f"{platform.python_version()} on {platform.machine()} ({sys.executable})"
    return finding("Python", version)


def check_runtime() -> Check:
    """Check that ONNX Runtime is there and new enough."""
    from whisper_hailo.backends.session import OLDEST_RUNTIME, is_old_runtime

    name = "ONNX Runtime"
    try:
        import onnxruntime
    except ImportError as error:
        advice = "pip install --force-reinstall onnxruntime"
        return finding(name, str(error), advice, broken=True)
    version = onnxruntime.__version__
    if not is_old_runtime(version):
        return finding(name, version)
    problem = f"{version}, {OLDEST_RUNTIME} or newer is needed"
    return finding(name, problem, "pip install -U onnxruntime", broken=True)


def check_processor() -> Check:
    """Check for the vector instructions that decoding wants."""
    features = read_cpu_flags() & set(_CPU_FEATURES)
    n_cores = len(os.sched_getaffinity(0))
    extensions = ", ".join(sorted(features)) or "no known vector extension"
    advice = ""
    if not features & {"avx2", "asimddp"}:
        advice = (
            "expect slow decoding: the 8-bit kernels need AVX2 or the Arm dot product"
        )
    return finding("processor", f"{n_cores} cores, {extensions}", advice)


def check_int8() -> Check:
    """Check which arithmetic quantised models use on this processor."""
    from whisper_hailo.backends.session import saturates
    from whisper_hailo.core.process import has_float16_kernels

    name = "8-bit models"
    try:
        is_saturating = saturates()
    except ImportError as error:
        return finding(name, f"no ONNX Runtime to run them ({error})", broken=True)
    kernels = sorted(read_cpu_flags() & set(_DOT_PRODUCTS))
    if is_saturating:  # it adds products in pairs, in 16 bits
        method = "no VNNI: weights keep one bit of headroom; graphs of other programs are slower"
    elif kernels:
        method = f"with {', '.join(kernels)}"
    else:
        method = "slower, without dot products"
    rest = "float16" if has_float16_kernels() else "float32"
    return finding(name, f"exact on this processor ({method}); the rest in {rest}")


def check_audio() -> Check:
    """Check the libraries that read and resample audio."""
    try:
        import soundfile
        import soxr
    except (ImportError, OSError) as error:
        advice = "pip install --force-reinstall soundfile soxr"
        return finding("audio", str(error), advice, broken=True)
    versions = f"libsndfile {soundfile.__libsndfile_version__}, soxr {soxr.__version__}"
    return finding("audio", versions)


def check_media() -> Check:
    """Check for the library that reads video files."""
    if find_spec("av") is not None:
        return finding("video and m4a", f"PyAV {metadata.version('av')}")
    advice = f"for m4a, mp4 and webm: {install_command('media')}"
    return finding("video and m4a", "PyAV is not installed", advice)


def check_cache() -> Check:
    """Check that models have a writable folder with room."""
    from whisper_hailo.core.paths import cache_root

    name = "model cache"
    advice = "set WHISPER_HAILO_CACHE to a writable folder"
    root = cache_root()
    candidates = (root, *root.parents)
    existing = next(path for path in candidates if os.path.lexists(path))
    if not os.path.isdir(existing):
        return finding(
            name, f"{root}, but {existing} is not a folder", advice, broken=True
        )
    free_gib = shutil.disk_usage(existing).free / 2**30
    space = f"{root}, {free_gib:.1f} GiB free"
    if not os.access(existing, os.W_OK):
        return finding(name, f"{space}, not writable", advice, broken=True)
    if free_gib < _NEEDED_CACHE_GIB:
        return finding(name, space, f"free {_NEEDED_CACHE_GIB:g} GiB for models")
    return finding(name, space)
