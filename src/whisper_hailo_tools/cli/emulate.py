"""`whisper-hailo emulate`: what the chip's 8 and 16 bits will cost, before hours of compiling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.flags import Flag
from whisper_hailo_tools.options import EmulateOptions

if TYPE_CHECKING:
    from whisper_hailo_tools.emulate.make import Emulation
    from whisper_hailo_tools.emulate.noise import LayerNoise

N_NOISIEST = 5


def emulate(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    options: EmulateOptions,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Write a graph that computes with the chip's 8 and 16 bits, and say what that costs."""
    from whisper_hailo_tools.emulate.make import emulate_part

    result = emulate_part(model_dir, options)
    if as_json:
        emit_json(_facts(result))
    else:
        emit("\n".join(_lines(result, options.scales)) + "\n")


def _facts(result: Emulation) -> dict[str, object]:
    from whisper_hailo_tools.emulate.make import noise_entry

    return {
        "path": str(result.path),
        "record": str(result.record),
        "plan": result.plan.name,
        "windows": result.n_windows,
        "noise_windows": result.noise.n_windows,
        "held_out": result.held_out,
        "outputs": [noise_entry(entry) for entry in result.noise.outputs],
        "layers": [noise_entry(entry) for entry in result.noise.layers],
    }


def _lines(result: Emulation, scales: str) -> list[str]:
    n_noise = result.noise.n_windows
    where = f"{n_noise} other windows" if result.held_out else "the same window"
    lines = [
        f"{result.path}: plan {result.plan.name}, {scales} scales from {result.n_windows} windows; "
        f"noise measured on {where}"
    ]
    lines += [_line(entry) for entry in result.noise.outputs]
    noisiest = sorted(result.noise.layers, key=lambda entry: entry.snr_db)[:N_NOISIEST]
    lines.append("noisiest layers, noise of those before them included:")
    lines += [_line(entry) for entry in noisiest]
    lines.append(f"every layer: {result.record}")
    ignored = dict.fromkeys(command.split("(")[0] for command in result.plan.ignored)
    if ignored:
        lines.append(f"commands of the script that are not emulated: {', '.join(ignored)}")
    return lines


def _line(entry: LayerNoise) -> str:
    return f"  {entry.layer} ({entry.tensor}): SNR {entry.snr_db:.1f} dB, cosine {entry.cosine:.4f}"
