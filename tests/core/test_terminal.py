"""Text from elsewhere on a terminal: in lines that stay where they are."""

from __future__ import annotations

from nemo_evaluator.core.terminal import harmless, indented, one_line, table

HOSTILE = "a\x1b[2J\x1b]0;title\x07\r\x08\x7f\x9b31m\u202eb\u2066c\x00\n[PASS] p9: fake\td"


def test_nothing_moves_the_cursor_or_turns_the_text_around():
    shown = harmless(HOSTILE)
    assert not [char for char in shown if char not in "\n\t" and (not char.isprintable())]
    assert shown.endswith("\n[PASS] p9: fake\td")


def test_one_line_is_one_line_and_a_block_stays_indented():
    assert "\n" not in one_line(HOSTILE)
    assert one_line("x" * 100, 10) == "x" * 9 + "…"
    assert indented("a\n[PASS] b\x1b[1m", "    ") == "a\n    [PASS] b [1m"


def test_names_that_are_cut_can_be_told_apart() -> None:
    lines = table(
        [("status", "benchmark"), ("VALID", "quickstart_long.0"), ("VALID", "quickstart_long.1")],
        19,
        narrow=(1,),
    )
    assert lines == ["status  benchmark", "VALID   quic…ong.0", "VALID   quic…ong.1"]
