"""`whisper-hailo compile`: a Hailo-form graph in, a HEF or a bundle that builds it out."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo_tools.options import CompileOptions

if TYPE_CHECKING:
    from whisper_hailo_tools.compile import Hef


def compile_hef(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    given: PartialOptions[CompileOptions],
    bundle: Annotated[
        Path | None, Flag("Only pack the build, to be run elsewhere.", metavar="ZIP")
    ] = None,
    built: Annotated[
        Path | None, Flag("Only take over what a bundle built: its out folder.", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Build a HEF with the Hailo Dataflow Compiler; an interrupted build goes on."""
    from whisper_hailo_tools.compile import adopt_hef, compile_part, write_bundle

    if built is not None:
        if bundle is not None or given.typed.keys() - {"arch", "part"}:
            raise OptionError("--built takes over a finished build; leave out what it was made by")
        options = replace(given, typed={**given.typed, "calibration": built}).on()
        _emit(adopt_hef(model_dir, options.arch, options.part, built), as_json)
        return
    if "calibration" not in given.typed:
        raise OptionError(
            "--calibration is missing: the compiler quantises by real speech; make a set with: "
            f"whisper-hailo calibrate {display_path(model_dir)} --audio DIR --out DIR "
            f"--part {given.typed.get('part', 'PART')}"
        )
    options = given.on()
    if bundle is not None:
        write_bundle(model_dir, options, bundle)
        size_mib = bundle.stat().st_size / 2**20
        if as_json:
            emit_json({"bundle": str(bundle), "bytes": bundle.stat().st_size})
        else:
            emit(
                f"{bundle}: {size_mib:.1f} MiB. On an x86-64 machine with the Hailo compiler: "
                f"unzip {bundle.name} -d build && python3 build/build.py; then here, with its "
                f"folder: whisper-hailo compile {model_dir} --arch {options.arch} "
                f"--part {options.part} --built build/out\n"
            )
        return
    _emit(compile_part(model_dir, options), as_json)


def _emit(hef: Hef, as_json: bool) -> None:
    if as_json:
        emit_json({"path": str(hef.path), "recorded": hef.recorded, **asdict(hef.record)})
    else:
        emit(_describe(hef) + "\n")


def _describe(hef: Hef) -> str:
    record = hef.record
    snr = "".join(f", {name} SNR {value:g} dB" for name, value in record.snr_db.items())
    contexts = f", {record.contexts} contexts" if record.contexts else ""
    where = "" if hef.recorded else "; it lies outside the model directory, model.json is as it was"
    return (
        f"{hef.path}: {record.bytes / 2**20:.1f} MiB for {record.arch}, compiler "
        f"{record.compiler_version}{contexts}{snr}{where}"
    )
