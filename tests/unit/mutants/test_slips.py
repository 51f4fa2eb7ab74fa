"""The mutation lane: which faults it makes and which it draws."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import change, sample
from tests.mutants.areas import AREAS, area_of
from tests.mutants.change import Mutant, Source
from tests.mutants.report import table
from tests.mutants.slips import replacements


def slips(code: str) -> set[str]:
    """What becomes of a statement or an expression."""
    (statement,) = ast.parse(code).body
    node = statement.value if isinstance(statement, ast.Expr) else statement
    return {ast.unparse(ast.fix_missing_locations(new)) for new in replacements(node)}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a <= b < c", {"a < b < c", "a <= b <= c"}),
        ("a is None", {"a is not None"}),
        ("a in b", {"a not in b"}),
        ("a and b", {"a or b", "a", "b"}),
        ("a or b or c", {"a and b and c", "b or c", "a or c", "a or b"}),
        ("a + b", {"a - b"}),
        ("a // b", {"a * b"}),
        ("a << b", {"a >> b"}),
        ("'%s' % b", set()),
        ("-a", {"a"}),
        ("not a", {"a"}),
        ("1", {"2", "0"}),
        ("0", {"1"}),
        ("0.5", {"1.0"}),
        ("0.0", {"1.0"}),
        ("True", {"False"}),
        ("'text'", set()),
        ("a if b else c", {"a", "c"}),
        ("max(a, b)", {"min(a, b)"}),
        ("math.ceil(a)", {"math.floor(a)"}),
        ("sorted(a, key=f)", {"list(a)", "sorted(a)"}),
        ("f(a, b)", {"f(b, a)"}),
        ("f(a, a)", set()),
        ("f(a.b, c[0])", {"f(c[0], a.b)"}),
        ("f(a, 1)", set()),
        ("f(a, k=b)", {"f(a)"}),
        ("zip(a, b, strict=True)", {"zip(b, a, strict=True)"}),
        ("a += b", {"a -= b"}),
        ("a.b = c", {"pass"}),
        ("a = b", set()),
        ("del a", {"pass"}),
    ],
)
def test_slips_of_the_keyboard(code: str, expected: set[str]) -> None:
    assert slips(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [("a[b:c]", {"a[:c]", "a[b:]"}), ("[a for a in b if c]", {"[a for a in b]"})],
)
def test_slips_within_an_expression(code: str, expected: set[str], tmp_path: Path) -> None:
    assert {mutant.after for mutant in written(tmp_path, f"def f():\n    g = {code}\n")} == {
        f"g = {one}" for one in expected
    }


def written(folder: Path, code: str) -> list[Mutant]:
    """All faults of a file."""
    path = folder / "x.py"
    path.write_text(code, encoding="utf-8")
    return Source(str(path)).mutants


CODE = '''"""A file."""

LIMIT = 3

class Box:
    """Holds."""

    size: int = 2

    def put(self, item: int = 1) -> bool:
        """Takes an item."""
        if item < LIMIT:
            raise ValueError(f"{item + 1} is too small")
        self.items.append(item)
        logger.warning("took %d", item + 1)
        return item > LIMIT
'''


def test_faults_know_their_function_and_their_lines(tmp_path: Path) -> None:
    """Messages, logs, types and texts are left alone; defaults and constants act at import."""
    found = [(one.function, one.before, one.after, one.lines) for one in written(tmp_path, CODE)]
    assert found == [
        ("", "LIMIT = 3", "LIMIT = 4", (3, 3)),
        ("", "LIMIT = 3", "LIMIT = 2", (3, 3)),
        ("", "size: int = 2", "size: int = 3", (8, 8)),
        ("", "size: int = 2", "size: int = 1", (8, 8)),
        ("", "def put(self, item: int=1)", "def put(self, item: int=2)", (10, 10)),
        ("", "def put(self, item: int=1)", "def put(self, item: int=0)", (10, 10)),
        ("Box.put", "item < LIMIT", "item <= LIMIT", (12, 12)),
        ("Box.put", "self.items.append(item)", "pass", (14, 14)),
        ("Box.put", "return item > LIMIT", "return item >= LIMIT", (16, 16)),
    ]


def test_a_fault_is_in_the_tree_until_it_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(CODE, encoding="utf-8")
    source = Source(str(path))
    whole = ast.unparse(source.tree)
    for mutant in source.mutants:
        assert ast.unparse(source.mutated(mutant)) != whole
        source.restore(mutant)
        assert ast.unparse(source.tree) == whole


def test_what_is_drawn_of_a_line_does_not_depend_on_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(CODE, encoding="utf-8")
    before = {one.lines[0]: one.after for one in sample.drawn([str(path)], 99, seed=1)}
    assert sorted(before) == [3, 8, 10, 12, 14, 16], "one fault a line"
    path.write_text(CODE.replace("size: int = 2", "size: int = 7"), encoding="utf-8")
    after = {one.lines[0]: one.after for one in sample.drawn([str(path)], 99, seed=1)}
    assert {line: before[line] for line in before if line != 8} == {
        line: after[line] for line in after if line != 8
    }
    few = sample.drawn([str(path)], 2, seed=1)
    assert [one.rank(1) for one in few] == sorted(one.rank(1) for one in few)
    among = {str(path): {12, 13}}
    assert [one.before for one in sample.drawn([str(path)], 9, 1, among)] == ["item < LIMIT"]


def test_changed_lines_are_read_from_a_diff() -> None:
    diff = (
        "--- a/src/x.py\n+++ b/src/x.py\n@@ -3 +3,2 @@ def f():\n-a\n+b\n+c\n@@ -9,2 +10,0 @@\n-d\n"
        "--- a/src/y.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-e\n"
    )
    assert sample.changed_lines(diff)["src/x.py"] == {3, 4}


def test_areas_are_files_that_are_there_and_no_file_is_in_two() -> None:
    files = [path for area in AREAS.values() for path in area.files()]
    assert len(files) == len(set(files)) > 100
    assert all((change.ROOT / path).is_file() for path in files)
    assert area_of("src/whisper_hailo/decoding/prompt.py") == "decoding"
    assert area_of("tools/src/whisper_hailo_tools/validate/report.py") is None
    for area in AREAS.values():
        assert area.test_files()


def test_the_table_counts_the_killed() -> None:
    killed = Mutant("a", "f", "b", "c", (1, 1), 0, killed_by="tests/unit/test_x.py::test_y")
    lives = Mutant("a", "f", "b", "d", (1, 1), 1)
    text = table({"decoding": [killed, killed, lives]})
    assert text.splitlines()[-1] == "| decoding | 3 | 2 | 67 % | 1 | test_x 2 |"
