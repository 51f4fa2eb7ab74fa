"""Generated tables: what they say of given results, and that the committed ones are fresh."""

from training import tables


def row(pad_to: int, penalty: float, runaway: float) -> dict[str, float | int]:
    return {
        "window_s": 10.0,
        "pad_to": pad_to,
        "penalty": penalty,
        "boost": 0.0,
        "clips": 4,
        "runaway": runaway,
        "wer": 12.34,
        "insertions": 1,
        "tokens": 20.0,
    }


def test_the_grid_has_a_line_for_each_target_and_a_column_for_each_rule() -> None:
    table = tables.illness_table(
        [row(0, 1.0, 50.0), row(0, 1.1, 25.0), row(700, 1.0, 0.0), row(700, 1.1, 0.0)]
    )
    assert table.splitlines() == [
        "| window | padded to | neither | penalty 1.1 |",
        "| --- | --- | --- | --- |",
        "| 10 s | none | 50.0 / 12.3 / 20.0 | 25.0 / 12.3 / 20.0 |",
        "| 10 s | 700 | 0.0 / 12.3 / 20.0 | 0.0 / 12.3 / 20.0 |",
    ]


def test_the_course_of_a_run_has_its_last_step_and_every_thousandth() -> None:
    rates = {"dev": {"wer": 5.0}, "dev-de": {"wer": 7.0}}
    common = {"minutes": 3.2, "loss": 1.0, "ctc": 0.5}
    log = [
        {"step": step, **common, **(rates if step % 500 == 0 else {})}
        for step in (500, 600, 1000, 1500)
    ]
    assert [line.split(" | ")[0] for line in tables.run_table(log).splitlines()[2:]] == [
        "| 1000",
        "| 1500",
    ]


def test_the_committed_tables_are_what_the_results_say() -> None:
    for path in tables.PAGES:
        page = path.read_text(encoding="utf-8")
        assert tables.filled(page) == page, f"{path} is stale: python -m training.tables"
