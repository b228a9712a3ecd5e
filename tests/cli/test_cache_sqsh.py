"""``nel cache-sqsh``: the command that enroot gets, and what is said where there is none."""

import pytest
from nel_support import Nel, nel

__all__ = ["nel"]
ENROOT = """#!/bin/sh
printf '%s\\n' "$@" >"$(dirname "$0")/argv"
for word; do [ "$previous" = -o ] && echo squash >"$word"; previous=$word; done
"""


def test_an_image_is_imported_once_and_appears_when_it_is_whole(nel: Nel) -> None:
    tools = nel.folder / "tools"
    tools.mkdir()
    (tools / "enroot").write_text(ENROOT)
    (tools / "enroot").chmod(0o755)
    nel.env["PATH"] = f"{tools}:{nel.env['PATH']}"
    target = nel.folder / "a b"
    words = ("cache-sqsh", "nvcr.io/nvidia/nel:1.0", "localhost", str(target))
    said = nel(*words).stdout
    path = target / "nvcr.io-nvidia-nel-1.0.sqsh"
    assert path.read_text() == "squash\n" and f"image: {path}" in said
    assert (tools / "argv").read_text().split("\n")[:-1] == [
        *("import", "-o", f"{path}.part", "--", "docker://nvcr.io#nvidia/nel:1.0")
    ]
    (tools / "enroot").write_text("#!/bin/sh\nexit 9\n")
    assert "already there" in nel(*words).stdout
    assert nel(*words[:3], str(nel.folder / "other"), code=None).returncode != 0
    assert not list((nel.folder / "other").glob("*.sqsh"))


def test_without_enroot_the_fix_is_said(nel: Nel) -> None:
    nel.env["PATH"] = "/usr/bin:/bin"
    said = nel("cache-sqsh", "python:3.12", "localhost", str(nel.folder), code=1).stderr
    assert "no enroot on this machine" in said and "container: apptainer" in said


@pytest.mark.parametrize(
    ("more", "code"), [((), 1), (("-r", "reg.example.com/nel", "-t", "26.03"), 0)]
)
def test_a_variant_needs_a_registry(nel: Nel, more: tuple[str, ...], code: int) -> None:
    done = nel("cache-sqsh", "gym", "login", "/shared/images", "--dry-run", *more, code=code)
    if code:
        assert "--registry" in done.stderr
    else:
        assert (
            "docker://reg.example.com#nel:26.03-gym" in done.stdout
            and "/shared/images/nel-gym.sqsh" in done.stdout
        )
