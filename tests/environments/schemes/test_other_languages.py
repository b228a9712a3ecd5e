"""Failures planted in tests that are not Python: what is expected changes, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nemo_evaluator.environments.schemes._challenge import plant_in_other_languages
from nemo_evaluator.environments.schemes._other_languages import plant_by_text

CHANGED = [
    ("a.test.js", "  assert.strictEqual(add(2, 3), 5);"),
    ("a.test.ts", "  expect(add(2, 3)).toBe(5);"),
    ("a.spec.js", '  expect(join("a", "b")).toEqual("ab");'),
    ("a_test.go", "\tif got := Add(2, 3); got != 5 {"),
    ("a_test.go", "\tassert.Equal(t, 5, Add(2, 3))"),
    ("a_test.go", '\t{"small", 2, 3, 5},'),
    ("tests.rs", "    assert_eq!(add(2, 3), 5);"),
    ("test.c", "    assert(add(2, 3) == 5);"),
    ("test.cpp", "    EXPECT_EQ(add(2, 3), 5);"),
    ("SumTest.java", "    assertEquals(5, add(2, 3));"),
    ("sum_test.rb", "    assert_equal 5, add(2, 3)"),
    ("sum_spec.rb", "    expect(add(2, 3)).to eq(5)"),
    ("SumTest.php", "    $this->assertSame(5, add(2, 3));"),
    ("sum.t", 'is(add(2, 3), 5, "small");'),
    ("test.sh", '[ "$(add 2 3)" = 5 ] || exit 1'),
    ("test.sh", 'got=$(add 2 3)\n[[ "$got" == "5" ]] || exit 1'),
    ("test.sh", "add 2 3 | grep -q 'the sum is' || exit 1"),
    ("fix.patch", "--- a/t.py\n+++ b/t.py\n@@ -1 +1,2 @@\n import t\n+assert add(2, 3) == 5"),
    (
        "test.sh",
        "git apply <<'END'\n--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n+    assert add(2, 3) == 5\nEND",
    ),
    ("test.sh", "printf '%s\\n' 5 0 > /tmp/want"),
    ("sum.bats", '  [ "$(add 2 3)" -eq 5 ]'),
    ("expected.txt", "5\n"),
]
KEPT = [
    ("test.sh", "if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; fi"),
    ("test.sh", "passed=1\n[ $passed -eq 1 ] || exit 3"),
    ("a.test.js", 'const assert = require("node:assert");'),
    ("a.test.js", "const port = 8080;"),
    ("test.c", "#include <assert.h>"),
    ("a.test.js", 'expect(show(5)).toContain("5");'),
    ("test.sh", "add 2 3 | grep -q 5 || exit 1"),
    ("fix.patch", "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n assert add(2, 3) == 5"),
    ("data.json", '{"a": 5}'),
    ("test_x.py", "assert add(2, 3) == 5"),
]


def planted(folder: Path, name: str, text: str) -> str | None:
    """The changed text; None if it stays."""
    (folder / name).write_text(text)
    content = plant_by_text(folder, random.Random(1)).get(folder / name)
    return None if content is None else content.decode()


@pytest.mark.parametrize(("name", "text"), CHANGED)
def test_what_is_expected_changes(name: str, text: str, tmp_path: Path) -> None:
    changed_text = planted(tmp_path, name, text)
    assert changed_text is not None
    assert len(changed_text) == len(text)
    differences = [(old, new) for old, new in zip(text, changed_text, strict=True) if old != new]
    assert differences
    assert all(old.isalnum() and new.isalnum() for old, new in differences)


@pytest.mark.parametrize(("name", "text"), KEPT)
def test_nothing_else_changes(name: str, text: str, tmp_path: Path) -> None:
    assert planted(tmp_path, name, text) is None


def test_escapes_and_formats_stay(tmp_path: Path) -> None:
    text = r'assert.equal(show(x), "\n%s${y}");'
    assert planted(tmp_path, "a.test.js", text) is None


def test_changed_files_keep_their_modes(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    path = tests / "test.bats"
    path.write_text('[ "$(add 2 3)" = 5 ]\n')
    path.chmod(0o555)
    assert plant_in_other_languages(tests, tmp_path / "planted", seed=1) == ["test.bats"]
    assert (tmp_path / "planted" / "test.bats").stat().st_mode & 0o777 == 0o555
