"""Charts of the report, as SVG and PNG; the same records give the same bytes.

The study's bars are hatched and stand in panels of their own: they come from other hardware and
must not be read along the same axis.
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
PUBLISHED: Final = "published (Raspberry Pi 5 + Hailo-8L)"
MEASURED: Final = "measured here"

Row = dict[str, Any]


def _timed(source: RunSource) -> list[tuple[Summary, Times]]:
    return [
        (system, system.times) for system in source.systems if system.times is not None
    ]


def latency_chart(source: RunSource) -> Chart | None:
    """Draw encoder, decoder and the rest, measured and published."""
    timed = _timed(source)
    if not timed:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        left, right = axes
        measured = [_measured_bar(system.case.name, times) for system, times in timed]
        draw_stacked_bars(left, measured, hatch=None)
        left.set_title(MEASURED)
        draw_stacked_bars(
            right, [_published_bar(row) for row in LIBRISPEECH], hatch=HATCH
        )
        right.set_title(PUBLISHED)
        for ax in axes:
            ax.set_xlabel("mean ms per file")
        draw_legend(left, 3)

    n_rows = max(len(timed), len(LIBRISPEECH))
    return draw_chart(
        "latency", "Time per file: encoder, decoder, the rest", draw, (1, 2), n_rows
    )


def _measured_bar(label: str, times: Times) -> StackedBar:
    encoder_ms = times.encoder_ms or 0.0
    decoder_ms = times.decoder_ms or 0.0
    rest_ms = max(0.0, times.total_ms - encoder_ms - decoder_ms)
    return StackedBar(label, encoder_ms, decoder_ms, rest_ms)


def _published_bar(row: PublishedRow) -> StackedBar:
    encoder_ms = row.encoder_ms or 0.0
    decoder_ms = row.decoder_ms or 0.0
    return StackedBar(
        row.name, encoder_ms, decoder_ms, row.total_ms - encoder_ms - decoder_ms
    )


def tail_chart(source: RunSource) -> Chart | None:
    """Draw every file's time, with the median and the 95th percentile."""
    timed = _timed(source)
    if not timed:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        for y, (system, times) in enumerate(timed):
            files = [
                file.total_ms
                for file in source.files[system.case.name]
                if not file.error
            ]
            ax.plot(files, [y] * len(files), "|", color=GREY, markersize=9)
            # The legend takes its labels from the first case.
            median = "median" if y == 0 else None
            percentile = "95th percentile" if y == 0 else None
            ax.plot(times.median_ms, y, "o", color=BLUE, label=median)
            ax.plot(times.p95_ms, y, "D", color=RED, label=percentile)
        ax.set_yticks(range(len(timed)), [system.case.name for system, _ in timed])
        ax.invert_yaxis()
        use_log_axis(ax)
        ax.set_xlabel("ms per file (logarithmic); a line is one file")
        draw_legend(ax, 2)

    return draw_chart("tail", "Tail latency", draw, (1, 1), len(timed))


def memory_chart(source: RunSource) -> Chart | None:
    """Draw memory of loading and warm-up per component, measured and published."""
    measured = [
        (
            f"{system.case.name}: {component}",
            system.case.memory.load.get(component, 0.0),
            system.case.memory.warm_up.get(component, 0.0),
        )
        for system in source.systems
        for component in system.case.memory.components
    ]
    if not measured:
        return None
    published = [(name, load, warm - load) for name, (load, warm) in MEMORY_MB.items()]

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        _draw_memory(left, measured, None)
        _draw_memory(right, published, HATCH)
        left.set_title(MEASURED)
        right.set_title(PUBLISHED)
        left.set_xlabel("growth of resident memory, MiB")
        right.set_xlabel("MB")
        draw_legend(left, 2)

    n_rows = max(len(measured), len(MEMORY_MB))
    return draw_chart("memory", "Memory by component", draw, (1, 2), n_rows)


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
        left, right = axes
        y = np.arange(len(heard))
        corpus = [100 * system.normalised.words.rate for system in heard]
        simple = [100 * system.simple.mean_wer for system in heard]
        left.barh(y - 0.2, corpus, 0.4, color=BLUE, label="corpus WER, normalised")
        left.barh(
            y + 0.2, simple, 0.4, color=ORANGE, label="mean WER, simple (the study's)"
        )
        left.set_yticks(y, [system.case.name for system in heard])
        names = [row.name for row in LIBRISPEECH]
        rates = [100 * row.wer for row in LIBRISPEECH]
        right.barh(names, rates, color=ORANGE, hatch=HATCH, edgecolor="white")
        left.set_title(MEASURED)
        right.set_title(f"{PUBLISHED}, LibriSpeech")
        for ax in axes:
            ax.invert_yaxis()
            ax.set_xlabel("%")
        draw_legend(left, 2)

    n_rows = max(len(heard), len(LIBRISPEECH))
    return draw_chart("accuracy", "Word error rate", draw, (1, 2), n_rows)


def scatter_chart(source: RunSource) -> Chart | None:
    """Draw word error rate against time, one point per case."""
    timed = _timed(source)
    if not timed:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        for number, (system, times) in enumerate(timed, 1):
            _draw_numbered_point(left, number, system, times)
        for row in LIBRISPEECH:
            _draw_named_point(right, row)
        left.set_title(f"{MEASURED} (blue: ours)")
        right.set_title(PUBLISHED)
        right.margins(0.25, 0.15)
        for ax in axes:
            use_log_axis(ax)
            ax.set_xlabel("ms per file (logarithmic)")
            ax.set_ylabel("simple mean WER, %")
        draw_legend(left, 2)

    return draw_chart("scatter", "Accuracy against time", draw, (1, 2), 9)


def _draw_numbered_point(
    ax: Any,  # noqa: ANN401 - matplotlib has no types
    number: int,
    system: Summary,
    times: Times,
) -> None:
    point = (times.median_ms, 100 * system.simple.mean_wer)
    colour = BLUE if system.case.system == "ours" else RED
    ax.plot(*point, "o", color=colour)
    ax.annotate(str(number), point, (4, 4), textcoords="offset points", fontsize=8)
    # An empty series puts number and name into the legend.
    ax.plot([], [], " ", label=f"{number}  {system.case.name}")


def _draw_named_point(ax: Any, row: PublishedRow) -> None:  # noqa: ANN401
    point = (row.total_ms, 100 * row.wer)
    ax.plot(*point, "o", mfc="none", color=GREY)
    ax.annotate(
        row.name, point, (0, 6), textcoords="offset points", fontsize=7, ha="center"
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
    draw_stacked_bars(axes[0], bars, hatch=None)
    axes[0].set_title("mean ms per file")
    draw_legend(axes[0], 2)
    _draw_error_rates(axes[1], rows)


def _draw_padding(axes: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    ax = axes[0]
    y = np.arange(len(rows))
    runaway = [row["runaway"] or 0 for row in rows]
    repetitive = [row["repetitive"] or 0 for row in rows]
    ax.barh(y - 0.2, runaway, 0.4, color=RED, label="budget ran out")
    ax.barh(y + 0.2, repetitive, 0.4, color=ORANGE, label="repeats itself")
    ax.set_yticks(y, [str(row["value"]) for row in rows])
    ax.set_xlim(0, max(1, *runaway, *repetitive) * 1.1)
    ax.invert_yaxis()
    ax.set_title(f"files, of {rows[0]['files']}")
    draw_legend(ax, 2)
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
