"""`whisper-hailo compile`: a Hailo-form graph in, a HEF or a bundle that builds it out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.hailo import ARCHES
from whisper_hailo.core.names import shown

if TYPE_CHECKING:
    from whisper_hailo.hailo_tools.compile import Hef


def compile_hef(
    model_dir: Annotated[
        Path, typer.Argument(help="Model directory made with convert --hailo.", readable=False)
    ],
    arch: Annotated[str, typer.Option(help=f"Chip: {', '.join(ARCHES)}.")],
    part: Annotated[str, typer.Option(help="encoder or decoder.")],
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="From whisper-hailo calibrate.", readable=False),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Model script to use instead of ours.", readable=False),
    ] = None,
    optimization_level: Annotated[
        int | None, typer.Option(metavar="N", help="0 (minutes) to 4. [default: 2]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="[default: MODEL_DIR/hailo/ARCH]", readable=False),
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PYTHON", help="Interpreter that has the compiler.")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="ZIP", help="Only pack the build, to be run elsewhere.", readable=False
        ),
    ] = None,
    built: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Only take over what a bundle built: its out folder.",
            readable=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build a HEF with the Hailo Dataflow Compiler; an interrupted build goes on."""
    from whisper_hailo.hailo_tools.adopt import adopt_hef
    from whisper_hailo.hailo_tools.bundle import write_bundle
    from whisper_hailo.hailo_tools.compile import CompileOptions, compile_part

    if built is not None:
        others = (calibration, script, optimization_level, out, python, bundle)
        if any(other is not None for other in others):
            raise OptionError("--built takes over a finished build; leave out what it was made by")
        _emit(adopt_hef(model_dir, arch, part, built), as_json)
        return
    if calibration is None:
        raise OptionError(
            "--calibration is missing: the compiler quantises by real speech; make a set with: "
            f"whisper-hailo calibrate {shown(model_dir)} --audio DIR --out DIR --part {part}"
        )
    options = CompileOptions(
        arch=arch,
        part=part,
        calibration=calibration,
        script=script,
        optimization_level=optimization_level,
        out=out,
        python=python,
    )
    if bundle is not None:
        write_bundle(model_dir, options, bundle)
        size_mib = bundle.stat().st_size / 2**20
        if as_json:
            emit_json({"bundle": str(bundle), "bytes": bundle.stat().st_size})
        else:
            emit(
                f"{bundle}: {size_mib:.1f} MiB. On an x86-64 machine with the Hailo compiler: "
                f"unzip {bundle.name} -d build && python3 build/build.py; then here, with its "
                f"folder: whisper-hailo compile {model_dir} --arch {arch} --part {part} "
                "--built build/out\n"
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
