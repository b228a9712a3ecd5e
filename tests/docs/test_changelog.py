"""The changelog stays readable: a bounded number of bullets for the release that is being made, each on one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_CHANGELOG: Final = Path(__file__).parents[2] / "CHANGELOG.md"
_MOST_BULLETS: Final = 60
_LONGEST_BULLET: Final = 360


def unreleased_lines() -> list[str]:
    """The lines below the first release heading."""
    text = _CHANGELOG.read_text(encoding="utf-8")
    section = text.split("\n## ")[1]
    return section.splitlines()[1:]


def test_the_release_has_at_most_sixty_bullets() -> None:
    bullets = [line for line in unreleased_lines() if line.startswith("- ")]
    assert 0 < len(bullets) <= _MOST_BULLETS
    assert [bullet for bullet in bullets if len(bullet) > _LONGEST_BULLET] == []


def test_every_line_is_a_heading_or_a_bullet() -> None:
    odd = [line for line in unreleased_lines() if line and not line.startswith(("- ", "### "))]
    assert odd == []
