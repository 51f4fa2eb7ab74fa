"""Charts of the report, as SVG and PNG; the same records give the same bytes.

Where other programs ran, times are the processor's: the clock's grew with what they did. The
study's bars are hatched and have charts of their own, since they come from other hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Chart,
    StackedBar,
    draw_bars,
    draw_chart,
    draw_legend,
    draw_stacked_bars,
    use_log_axis,
)
from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.report.study import LIBRISPEECH, MEMORY_MB, PublishedRow
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary, Times

HATCH: Final = "////"
NOT_MEASURED: Final = "encoder on the chip: not measured"
ON_CHIP: Final = GREEN
"""Colour of cases whose encoder is an emulated chip; ours are blue, others grey."""

Row = dict[str, Any]


def _timed(source: RunSource) -> list[tuple[Summary, Times]]:
    return [
        (system, system.times) for system in source.systems if system.times is not None
    ]


def _colour_of(system: Summary) -> str:
    if system.case.system != "ours":
        return GREY
    return ON_CHIP if system.case.is_emulated else BLUE


def systems_chart(source: RunSource) -> Chart | None:
    """Draw the words that each case gets wrong beside what it costs, a line a case."""
    heard = [system for system in source.systems if system.n_heard]
    if not heard:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        left, right = axes
        for y, system in enumerate(heard):
            _draw_error_rate(left, y, system)
            _draw_cost(right, y, system)
        left.set_yticks(range(len(heard)), [system.case.name for system in heard])
        right.set_yticks([])
        left.set_title("words wrong, %, with 95 % interval")
        right.set_title("processor seconds per second of audio")
        for ax in axes:
            ax.set_ylim(len(heard) - 0.5, -0.5)
        left.set_xlim(left=0)
        right.margins(x=0.3)
        labels = ("whisper-hailo", "whisper-hailo, emulated chip", "other programs")
        for label, colour in zip(labels, (BLUE, ON_CHIP, GREY), strict=True):
            left.plot([], [], "o", color=colour, label=label)
        draw_legend(left, 3)

    return draw_chart("systems", "Words and cost", draw, (1, 2), len(heard))


def _draw_error_rate(ax: Any, y: int, system: Summary) -> None:  # noqa: ANN401
    rate = 100 * system.normalised.words.rate
    low, high = (100 * bound for bound in system.normalised.wer_interval())
    colour = _colour_of(system)
    if np.isfinite(high):
        ax.plot([low, high], [y, y], "-", color=colour, linewidth=1.5, alpha=0.6)
    ax.plot(rate, y, "o", color=colour)
    ax.annotate(
        f"{rate:.1f}", (rate, y), (0, 5), textcoords="offset points", fontsize=7,
        ha="center",
    )  # fmt: skip


def _draw_cost(ax: Any, y: int, system: Summary) -> None:  # noqa: ANN401
    if system.case.is_emulated:
        ax.text(0, y, f" {NOT_MEASURED}", va="center", fontsize=7, color=GREY)
        return
    cost = system.cpu_per_audio_s
    ax.barh(y, cost, color=_colour_of(system))
    ax.text(cost, y, f" {cost:.3f}", va="center", fontsize=8)


def latency_chart(source: RunSource) -> Chart | None:
    """Draw encoder, decoder and the rest as parts of a file's time."""
    timed = _timed(source)
    if not timed:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        draw_stacked_bars(
            ax, [_measured_bar(source, system, times) for system, times in timed]
        )
        ax.set_xlabel(f"mean {_name_time(source)}")
        draw_legend(ax, 3)

    title = "Time per file: encoder, decoder, the rest"
    return draw_chart("latency", title, draw, (1, 1), len(timed))


def _name_time(source: RunSource) -> str:
    return "processor ms per file" if source.was_busy else "ms per file"


def _measured_bar(source: RunSource, system: Summary, times: Times) -> StackedBar:
    encoder_ms = times.encoder_ms or 0.0
    decoder_ms = times.decoder_ms or 0.0
    total_ms = times.total_ms
    if source.was_busy:
        encoder_ms = times.cpu_share_ms(times.encoder_ms)
        decoder_ms = times.cpu_share_ms(times.decoder_ms)
        total_ms = times.cpu_ms
    rest_ms = max(0.0, total_ms - encoder_ms - decoder_ms)
    return StackedBar(system.case.name, encoder_ms, decoder_ms, rest_ms)


def tail_chart(source: RunSource) -> Chart | None:
    """Draw every file's time, with the median and the 95th percentile."""
    timed = _timed(source)
    if not timed:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        for y, (system, _) in enumerate(timed):
            files_ms = _file_times_ms(source, system)
            ax.plot(files_ms, [y] * len(files_ms), "|", color=GREY, markersize=9)
            # The legend takes its labels from the first case.
            median = "median" if y == 0 else None
            percentile = "95th percentile" if y == 0 else None
            ax.plot(np.median(files_ms), y, "o", color=BLUE, label=median)
            ax.plot(np.percentile(files_ms, 95), y, "D", color=RED, label=percentile)
        ax.set_yticks(range(len(timed)), [system.case.name for system, _ in timed])
        ax.invert_yaxis()
        use_log_axis(ax)
        ax.set_xlabel(f"{_name_time(source)} (logarithmic); a line is one file")
        draw_legend(ax, 2)

    return draw_chart("tail", "Tail latency", draw, (1, 1), len(timed))


def _file_times_ms(source: RunSource, system: Summary) -> list[float]:
    heard = [file for file in source.files[system.case.name] if not file.error]
    if source.was_busy:
        return [1000.0 * file.cpu_s for file in heard]
    return [file.total_ms for file in heard]


def memory_chart(source: RunSource) -> Chart | None:
    """Draw what loading and warm-up add to a process, and its peak."""
    measured = [system for system in source.systems if system.case.memory.components]
    if not measured:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        rows = []
        for system in measured:
            memory = system.case.memory
            load_mib = sum(memory.load.values())
            rows.append((system.case.name, load_mib, sum(memory.warm_up.values())))
        _draw_memory(ax, rows, None)
        peaks = [system.case.memory.peak for system in measured]
        ax.plot(peaks, range(len(peaks)), "|", color=RED, markersize=9, label="peak")
        ax.set_xlabel("MiB: growth by the model, and the peak of the whole process")
        draw_legend(ax, 3)

    return draw_chart("memory", "Memory", draw, (1, 1), len(measured))


def _draw_memory(
    ax: Any,  # noqa: ANN401
    rows: Sequence[tuple[str, float, float]],
    hatch: str | None,
) -> None:
    labels = [label for label, _, _ in rows]
    load = np.array([load for _, load, _ in rows])
    warm_up = np.array([warm_up for _, _, warm_up in rows])
    style = {"hatch": hatch, "edgecolor": "white"}
    ax.barh(labels, load, color=GREEN, label="load", **style)
    ax.barh(labels, warm_up, left=load, color=ORANGE, label="warm-up", **style)
    ax.invert_yaxis()


def accuracy_chart(source: RunSource) -> Chart | None:
    """Draw word error rates in both forms."""
    heard = [system for system in source.systems if system.n_heard]
    if not heard:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        y = np.arange(len(heard))
        corpus = [100 * system.normalised.words.rate for system in heard]
        simple = [100 * system.simple.mean_wer for system in heard]
        ax.barh(y - 0.2, corpus, 0.4, color=BLUE, label="corpus WER, normalised")
        ax.barh(
            y + 0.2, simple, 0.4, color=ORANGE, label="mean WER, simple (the study's)"
        )
        ax.set_yticks(y, [system.case.name for system in heard])
        ax.invert_yaxis()
        ax.set_xlabel("%")
        draw_legend(ax, 2)

    return draw_chart("accuracy", "Word error rate", draw, (1, 1), len(heard))


def study_charts() -> tuple[Chart, ...]:
    """Draw times, error rates and memory as the study published them."""

    def draw_times(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        draw_stacked_bars(
            left, [_published_bar(row) for row in LIBRISPEECH], hatch=HATCH
        )
        left.set_xlabel("mean ms per file")
        draw_legend(left, 3)
        names = [row.name for row in LIBRISPEECH]
        rates = [100 * row.wer for row in LIBRISPEECH]
        draw_bars(
            right, names, rates, "mean WER, simple, %", hatch=HATCH, labelled=False
        )

    def draw_memory(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        rows = [(name, load, warm - load) for name, (load, warm) in MEMORY_MB.items()]
        _draw_memory(ax, rows, HATCH)
        ax.set_xlabel("MB")
        draw_legend(ax, 2)

    times = "Published by the study: Raspberry Pi 5 + Hailo-8L, tiny, LibriSpeech"
    memory = "Published by the study: memory by component"
    return (
        draw_chart("study", times, draw_times, (1, 2), len(LIBRISPEECH)),
        draw_chart("study-memory", memory, draw_memory, (1, 1), len(MEMORY_MB)),
    )


def _published_bar(row: PublishedRow) -> StackedBar:
    encoder_ms = row.encoder_ms or 0.0
    decoder_ms = row.decoder_ms or 0.0
    return StackedBar(
        row.name, encoder_ms, decoder_ms, row.total_ms - encoder_ms - decoder_ms
    )


def comparison_chart(record: ComparisonRecord) -> Chart | None:
    """Draw one comparison; nothing without rows."""
    if not record.rows:
        return None
    title, draw = _COMPARISONS[record.name]
    n_rows = max(6, len(record.rows))
    return draw_chart(
        record.name, title, lambda axes: draw(axes, record.rows), (1, 2), n_rows
    )


def _draw_cache(axes: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    first = rows[0].get("what", "")
    of_first = [row for row in rows if row.get("what", "") == first]
    labels = [row["decoder"] for row in of_first]
    colours = [RED, ORANGE, BLUE, GREEN][: len(of_first)]
    attention_rows = [row["attention_rows"] for row in of_first]
    title = f"attention rows computed, {first}".rstrip(", ")
    draw_bars(axes[0], labels, attention_rows, title, colour=colours, digits=0)
    times_ms = [row["ms"] for row in of_first]
    draw_bars(
        axes[1], labels, times_ms, "median ms", colour=colours, digits=0, labelled=False
    )


def _draw_settings(axes: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    bars = [
        StackedBar(
            str(row["value"]), row["encoder_ms"] or 0.0, row["decoder_ms"] or 0.0
        )
        for row in rows
    ]
    draw_stacked_bars(axes[0], bars)
    axes[0].set_title("mean processor ms per file")
    draw_legend(axes[0], 2)
    _draw_error_rates(axes[1], rows)


def _draw_padding(axes: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    ax = axes[0]
    bars = (
        ("budget ran out", "runaway", RED),
        ("repeats itself", "repetitive", ORANGE),
        ("text where nobody speaks", "silent_with_text", GREY),
    )
    height = 0.8 / len(bars)
    y = np.arange(len(rows))
    most = 1
    for number, (label, field, colour) in enumerate(bars):
        counts = [row.get(field) or 0 for row in rows]
        offset = (number - (len(bars) - 1) / 2) * height
        drawn = ax.barh(y + offset, counts, height, color=colour, label=label)
        ax.bar_label(drawn, [f" {count}" for count in counts], fontsize=7)
        most = max(most, *counts)
    ax.set_yticks(y, [str(row["value"]) for row in rows])
    ax.set_xlim(0, most * 1.15)
    ax.invert_yaxis()
    ax.set_title(f"files that went wrong, of {rows[0]['files']}")
    ax.set_xticks(range(0, most + 1, max(1, most // 5)))  # files are whole
    draw_legend(ax, 3)
    _draw_error_rates(axes[1], rows)


def _draw_error_rates(ax: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    labels = [str(row["value"]) for row in rows]
    rates = [100 * (row["wer"] or 0.0) for row in rows]
    draw_bars(ax, labels, rates, "corpus WER, %", labelled=False)


def _draw_captions(axes: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    left, right = axes
    labels = [str(row["way"]) for row in rows]
    decoder_ms = [row["decode_ms_per_partial"] or 0.0 for row in rows]
    draw_bars(left, labels, decoder_ms, "decoder ms per partial", colour=ORANGE)
    corrections = [row["corrections_per_word"] or 0.0 for row in rows]
    title = "words shown and then changed, per word"
    draw_bars(right, labels, corrections, title, digits=2, labelled=False)


_COMPARISONS: Final[dict[str, tuple[str, Callable[[Any, Sequence[Row]], None]]]] = {
    "cache": ("Decoding with and without a cache", _draw_cache),
    "window": ("Short and full windows", _draw_settings),
    "precision": ("Weights of encoder and decoder", _draw_settings),
    "padding": ("Padding before cross-attention", _draw_padding),
    "grid": ("Countermeasures against repetition", _draw_padding),
    "captions": ("Live captions of the same stream", _draw_captions),
}
