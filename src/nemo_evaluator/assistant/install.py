"""Install the packaged skills where coding agents look for them."""

from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic

SKILLS: Final = Path(__file__).parent / "skills"
# Folders that coding agents use in a project.
_AGENTS: Final = (".claude", ".agents", ".codex", ".cursor", ".gemini", ".github")


def install_skills(folder: Path | None = None, *, force: bool = False) -> list[Path]:
    """Copy every packaged skill to the folders where coding agents look for skills.

    Args:
        folder: Where to copy the skills; None: each agent's folder in this project, or ``.claude`` if there is none.
        force: Replace skills that the user has changed.

    Returns:
        The paths of the copied files.

    Raises:
        UsageError: If an installed skill was changed and ``force`` is not set; then nothing is written.
    """
    if folder:
        skill_folders = [folder]
    else:
        skill_folders = [Path(name) / "skills" for name in _AGENTS if Path(name).is_dir()]
    skill_folders = skill_folders or [Path(".claude") / "skills"]
    sources = sorted(SKILLS.glob("*/SKILL.md"))
    targets: dict[Path, bytes] = {}
    for skill_folder in skill_folders:
        for source in sources:
            targets[skill_folder / source.parent.name / source.name] = source.read_bytes()
    changed: list[Path] = []
    for path, content in targets.items():
        if path.exists() and path.read_bytes() != content:
            changed.append(path)
    if changed and not force:
        hint = "--force replaces it; --dir FOLDER installs elsewhere"
        raise UsageError(
            f"changed since it was installed: {', '.join(map(str, changed))}", hint=hint
        )
    for path, content in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    return list(targets)
