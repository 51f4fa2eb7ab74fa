"""The commands for building HEFs, which `whisper-hailo` finds by their entry points.

`check` predicts what the Hailo compiler will refuse, `calibrate` makes the set that it quantises
with, `emulate` predicts what the chip's bits will cost, `compile` builds a HEF, `validate` compares
a converted model with its checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.spec import ARCHES, PARITY_FILE
from whisper_hailo_tools.options import (
    CalibrationOptions,
    CompileOptions,
    EmulateOptions,
    ValidateOptions,
)

if TYPE_CHECKING:
    from whisper_hailo_tools.check.report import Report
    from whisper_hailo_tools.check.rules import Finding
    from whisper_hailo_tools.compile import Hef
    from whisper_hailo_tools.emulate.make import Emulation, LayerNoise
    from whisper_hailo_tools.validate.graph_pair import GraphPair, ValuePair
    from whisper_hailo_tools.validate.stage_checks import FormResult
    from whisper_hailo_tools.validate.validate import ParityReport

MAX_NAMED = 3
"""Nodes that one line of `check` names."""


def check(
    graph: Annotated[Path, Argument("ONNX file, made by this program or another.")],
    arch: Annotated[str, Flag(f"Chip: {', '.join(ARCHES)}.")],
    start: Annotated[
        list[str] | None,
        Flag("Node where the compiler starts; may be repeated.", metavar="NODE"),
    ] = None,
    end: Annotated[
        list[str] | None,
        Flag("Node where the compiler ends; may be repeated.", metavar="NODE"),
    ] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> int:
    """Check whether the Hailo compiler is known to accept an ONNX graph; exit code 4 if not."""
    from whisper_hailo_tools.check.report import check_file  # imports onnx: slow

    report = check_file(graph, arch, start or (), end or ())
    if as_json:
        emit_json(report.to_dict(), indent=2)
    else:
        emit("\n".join(_check_lines(report)) + "\n")
    return ExitCode.MODEL if report.blocked else ExitCode.OK


def _check_lines(report: Report) -> Iterator[str]:
    verdict = "blocked" if report.blocked else "nothing blocks compilation"
    yield f"{report.path} for {report.arch}: {verdict}"
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.severity, finding.rule), []).append(finding)
    sources = list(dict.fromkeys(group[0].source for group in groups.values()))
    for group in groups.values():
        first = group[0]
        number = 1 + sources.index(first.source)
        yield (
            f"{first.severity} [{first.rule}] {_name_nodes(group)}: {first.got}; {first.mend} "
            f"({number})"
        )
    section = report.section
    origin = "as model.json says" if report.recorded else "as given, or the whole graph"
    yield f"from {', '.join(section.starts)} to {', '.join(section.ends)} ({origin})"
    for name, shape in report.entries.items():
        yield f"  {name} {shape}, on the chip {report.chip_inputs[name]}"
    counts = ", ".join(f"{name} {count}" for name, count in report.operators.items())
    yield f"{len(section.nodes)} of {report.n_nodes} nodes, opset {report.opset}: {counts}"
    millions = report.n_weights / 1e6
    sizes = ", ".join(f"{millions * bits / 8:.2f} at {bits}" for bits in (4, 8, 16))
    yield f"{millions:.2f} million weights; MB by bits: {sizes}"
    for number, source in enumerate(sources, 1):
        yield f"({number}) {source}"


def _name_nodes(findings: list[Finding]) -> str:
    """Return the nodes of some findings, the first ones by name."""
    names = []
    for finding in findings[:MAX_NAMED]:
        name = finding.node or "graph"
        if finding.operator:
            name = f"{finding.node} ({finding.operator})"
        names.append(name)
    text = ", ".join(names)
    if len(findings) > MAX_NAMED:
        text += f" and {len(findings) - MAX_NAMED} more"
    return text


def calibrate(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    audio: Annotated[Path, Flag("Folder of recordings of speech.", metavar="DIR")],
    out: Annotated[Path, Flag("Folder to write the set to.", metavar="DIR")],
    options: CalibrationOptions,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Make a calibration set for the Hailo compiler, or resume an interrupted one."""
    from whisper_hailo_tools.calibrate.make import calibrate as make

    result = make(model_dir, audio, out, options)
    if as_json:
        facts = asdict(result) | {
            "path": str(result.path),
            "manifest": str(result.manifest),
        }
        emit_json(facts)
        return
    speakers = (
        "1 speaker" if result.n_speakers == 1 else f"{result.n_speakers} speakers"
    )
    text = f"{result.path}: {result.n_windows} windows of {result.n_files} recordings, {speakers}"
    if result.n_windows < result.n_wanted:
        text += f"; {result.n_wanted} were requested; give more speech for a better set"
    if result.skipped:
        text += f"; {len(result.skipped)} recordings could not be used"
    emit(text + "\n")


N_NOISIEST = 5
"""Layers that `emulate` prints."""


def emulate(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    options: EmulateOptions,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Write a graph that rounds to 8 and 16 bits like the chip, and measure the noise."""
    from whisper_hailo_tools.emulate.make import emulate_part

    result = emulate_part(model_dir, options)
    if as_json:
        paths = {"path": str(result.path), "record": str(result.record)}
        emit_json(paths | result.to_dict())
    else:
        emit("\n".join(_emulation_lines(result)) + "\n")


def _emulation_lines(result: Emulation) -> list[str]:
    where = (
        f"{result.noise.n_windows} other windows"
        if result.held_out
        else "the same window"
    )
    lines = [
        f"{result.path}: plan {result.plan.name}, scales from {result.n_windows} windows; "
        f"noise measured on {where}"
    ]
    lines += [_noise_line(entry) for entry in result.noise.outputs]
    noisiest = sorted(result.noise.layers, key=lambda entry: entry.snr_db)[:N_NOISIEST]
    lines.append("noisiest layers, including noise from earlier layers:")
    lines += [_noise_line(entry) for entry in noisiest]
    lines.append(f"every layer: {result.record}")
    ignored: dict[str, None] = {}  # as a set in order
    for command in result.plan.ignored:
        name, _, _ = command.partition("(")
        ignored[name] = None
    if ignored:
        lines.append(f"script commands that are not emulated: {', '.join(ignored)}")
    return lines


def _noise_line(entry: LayerNoise) -> str:
    return f"  {entry.layer} ({entry.tensor}): SNR {entry.snr_db:.1f} dB, cosine {entry.cosine:.4f}"


def compile_hef(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    given: PartialOptions[CompileOptions],
    bundle: Annotated[
        Path | None, Flag("Only pack the build, to run it elsewhere.", metavar="ZIP")
    ] = None,
    built: Annotated[
        Path | None,
        Flag(
            "Only import the results of a bundle, from its out folder.", metavar="DIR"
        ),
    ] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Build a HEF with the Hailo Dataflow Compiler, or resume an interrupted build."""
    from whisper_hailo_tools.compile import adopt_hef, compile_part, write_bundle

    if built is not None:
        if bundle is not None or given.values.keys() - {"arch", "part"}:
            raise OptionError(
                "--built imports a finished build; leave out the options it was built with"
            )
        options = replace(given, values={**given.values, "calibration": built}).build()
        _emit_hef(adopt_hef(model_dir, options.arch, options.part, built), as_json)
        return
    if "calibration" not in given.values:
        raise OptionError(
            "--calibration is missing: the compiler quantises with real speech; make a set with: "
            f"whisper-hailo calibrate {display_path(model_dir)} --audio DIR --out DIR "
            f"--part {given.values.get('part', 'PART')}"
        )
    options = given.build()
    if not options.force:
        from whisper_hailo_tools.emulate.make import require_words

        require_words(model_dir, options)
    if bundle is not None:
        write_bundle(model_dir, options, bundle)
        n_bytes = bundle.stat().st_size
        if as_json:
            emit_json({"bundle": str(bundle), "bytes": n_bytes})
        else:
            emit(
                f"{bundle}: {n_bytes / 2**20:.1f} MiB. On an x86-64 machine with the Hailo "
                f"compiler: unzip {bundle.name} -d build && python3 build/build.py; then here, "
                f"with its folder: whisper-hailo compile {model_dir} --arch {options.arch} "
                f"--part {options.part} --built build/out\n"
            )
        return
    _emit_hef(compile_part(model_dir, options), as_json)


def _emit_hef(hef: Hef, as_json: bool) -> None:
    if as_json:
        emit_json(
            {"path": str(hef.path), "recorded": hef.recorded, **asdict(hef.record)}
        )
        return
    record = hef.record
    text = (
        f"{hef.path}: {record.bytes / 2**20:.1f} MiB for {record.arch}, compiler "
        f"{record.compiler_version}"
    )
    if record.contexts:
        text += f", {record.contexts} contexts"
    for name, value in record.snr_db.items():
        text += f", {name} SNR {value:g} dB"
    if not hef.recorded:
        text += "; it is outside the model directory, so model.json is unchanged"
    emit(text + "\n")


def validate(
    model_dir: Annotated[
        Path, Argument("Model directory; an ONNX file for --against.")
    ],
    options: ValidateOptions,
    against: Annotated[
        Path | None,
        Flag("Compare with this ONNX file instead, node by node.", metavar="GRAPH"),
    ] = None,
    out: Annotated[
        Path | None,
        Flag("Where to write. [default: the model directory]", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, Flag("Print parity.json instead.", name="--json")] = False,
) -> int:
    """Compare every form of a model with its checkpoint; exit code 4 if one differs too much."""
    if against is not None:
        return _validate_against(model_dir, against, as_json)
    from whisper_hailo.core.atomic_files import require_writable_folder, write_file
    from whisper_hailo_tools.validate.validate import validate as run

    if out is not None or model_dir.is_dir():
        require_writable_folder(out or model_dir, "give --out DIR")
    report = run(model_dir, options)
    path = (out or model_dir) / PARITY_FILE
    write_file(path, report.to_json())
    if as_json:
        emit_json(report.to_dict(), indent=1)
    else:
        emit("\n".join(_parity_lines(report)) + f"\n{path}\n")
    return ExitCode.OK if report.passed else ExitCode.MODEL


def _validate_against(graph: Path, other: Path, as_json: bool) -> int:
    """Print the comparison of two graphs, which has no limits."""
    from whisper_hailo_tools.validate.graph_pair import compare_graphs

    pair = compare_graphs(graph, other)
    if as_json:
        emit_json(pair.to_dict(), indent=1)
    else:
        emit("\n".join(_pair_lines(pair)) + "\n")
    return ExitCode.OK


def _pair_lines(pair: GraphPair) -> Iterator[str]:
    counts = [
        f"{name} {count}" if count == other else f"{name} {count} and {other}"
        for name, (count, other) in pair.operators.items()
    ]
    yield f"operators: {', '.join(counts)}"
    measures = "signal-to-noise ratio, cosine, largest difference"
    yield f"{len(pair.values)} values of one name; {measures}:"
    for value in pair.values:
        yield f"  {_pair_line(value)}"
    yield "outputs:"
    for value in pair.outputs:
        yield f"  {_pair_line(value)}, mean difference {value.difference.mean_abs:.2g}"


def _pair_line(value: ValuePair) -> str:
    error = value.difference
    snr_db = _format_db(error.snr_db)
    unit = "" if error.snr_db == math.inf else " dB"
    return f"{value.name}: {snr_db}{unit}, {error.cosine:.6f}, {error.max_abs:.2g}"


def _parity_lines(report: ParityReport) -> Iterator[str]:
    verdict = "passed" if report.passed else "FAILED"
    yield (
        f"{report.model}: {verdict}; {len(report.used)} windows of {report.window_s:g} s, "
        f"against {report.reference}"
    )
    rows = [_PARITY_HEADINGS]
    rows += [_parity_row(result) for result in report.results]
    # Rows of forms that did not run are shorter, and their last cell is a sentence.
    columns = zip(
        *(row for row in rows if len(row) == len(_PARITY_HEADINGS)), strict=True
    )
    widths = [max(map(len, column)) for column in columns]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join(cells).rstrip()
    for result in report.results:
        fall = result.steepest_fall
        if result.status == "failed" and fall is not None:
            before, after = fall
            yield (
                f"{result.kind} {result.part}: SNR falls most from {before.name} "
                f"({_format_db(before.snr_db)} dB) to {after.name} ({_format_db(after.snr_db)} dB)"
            )


_PARITY_HEADINGS: tuple[str, ...] = (
    "rung",
    "part",
    "result",
    "max",
    "mean",
    "cosine",
    "SNR dB",
    "PSNR dB",
    "limit",
    "tokens",
)


def _parity_row(result: FormResult) -> tuple[str, ...]:
    difference = result.difference
    if difference is None or result.limit is None:
        return (result.kind, result.part, f"{result.status}: {result.graph}")
    tokens = ""
    if result.tokens is not None:
        tokens = f"{result.tokens.same} of {result.tokens.of}"
    return (
        result.kind,
        result.part,
        result.status,
        f"{difference.max_abs:.2g}",
        f"{difference.mean_abs:.2g}",
        f"{difference.cosine:.6f}",
        _format_db(difference.snr_db),
        _format_db(difference.psnr_db),
        result.limit.text,
        tokens,
    )


def _format_db(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f}"
