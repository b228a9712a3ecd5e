"""Copying the packaged skills to where coding agents look for them."""

from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic

SKILLS: Final = Path(__file__).parent / "skills"
# Folders of coding agents in a project.
_AGENTS: Final = (".claude", ".agents", ".codex", ".cursor", ".gemini", ".github")


def install_skills(folder: Path | None = None, *, force: bool = False) -> list[Path]:
    """Copy every skill; without ``folder`` for each agent that has a folder in this project, else for ``.claude``.

    Raises UsageError, before anything is written, when a skill there was changed and ``force`` is not given.
    """
    if folder:
        homes = [folder]
    else:
        homes = [Path(name) / "skills" for name in _AGENTS if Path(name).is_dir()]
    homes = homes or [Path(".claude") / "skills"]
    sources = sorted(SKILLS.glob("*/SKILL.md"))
    targets: dict[Path, bytes] = {}
    for home in homes:
        for source in sources:
            targets[home / source.parent.name / source.name] = source.read_bytes()
    changed: list[Path] = []
    for path, text in targets.items():
        if path.exists() and path.read_bytes() != text:
            changed.append(path)
    if changed and not force:
        hint = "--force replaces it; --dir FOLDER installs elsewhere"
        raise UsageError(
            f"changed since it was installed: {', '.join(map(str, changed))}", hint=hint
        )
    for path, text in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    return list(targets)
