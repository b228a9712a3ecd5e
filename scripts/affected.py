"""The tests that a change touches: those of the packages it changes and of every package that imports them.

``python scripts/affected.py [BASE]`` prints one test file or folder per line, for the changes since BASE (the branch's
start at ``origin/main`` or ``main`` by default), committed or not. It prints ``tests`` where every test is affected.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import grimp

PACKAGE = "nemo_evaluator"
SOURCES = PurePosixPath("src") / PACKAGE
TESTS = PurePosixPath("tests")
# Folders whose tests run the whole program: any change of the package touches them.
WHOLE_PROGRAM = ("cli", "e2e", "surface")
# Changes here may touch every test.
EVERYTHING = ("pyproject.toml", "Makefile", "scripts", "tests/conftest.py", "tests/support")
# Changes here are read by the tests of this folder.
TEXTS = {"docs": "docs", "README.md": "docs", "CHANGELOG.md": "docs", "examples": "examples"}


def git(*words: str) -> list[str]:
    """The lines that a git command prints."""
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def start_of_branch() -> str:
    """The commit at which the current branch left the main one."""
    branches = git(
        "for-each-ref", "--format=%(refname:short)", "refs/remotes/origin/main", "refs/heads/main"
    )
    if not branches:
        return "HEAD"
    return git("merge-base", "HEAD", branches[0])[0]


def changed_files(base: str) -> list[PurePosixPath]:
    """All files that differ from ``base``, with those that git does not track yet."""
    changed = git("diff", "--name-only", base)
    new = git("ls-files", "--others", "--exclude-standard")
    return [PurePosixPath(line) for line in [*changed, *new]]


def package_of(path: PurePosixPath) -> str | None:
    """The package below ``nemo_evaluator`` that a source file belongs to; None for other files."""
    if not path.is_relative_to(SOURCES):
        return None
    inner = path.relative_to(SOURCES).parts
    return inner[0].removesuffix(".py")


def importing_packages(packages: Iterable[str]) -> set[str]:
    """The packages given and all that import them, directly or not."""
    graph = grimp.build_graph(PACKAGE)
    importers = set()
    for package in packages:
        module = f"{PACKAGE}.{package}"
        importers.add(package)
        if module not in graph.modules:
            continue
        for importer in graph.find_downstream_modules(module, as_package=True):
            importers.add(importer.split(".")[1] if "." in importer else package)
    return importers


def affected_tests(changed: Iterable[PurePosixPath], root: Path) -> list[str]:
    """The test files and folders to run.

    Args:
        changed: Paths below the project's folder.
        root: The project's folder.

    Returns:
        Sorted paths below ``root``; only ``tests`` where every test is affected.
    """
    packages = set()
    tests = set()
    for path in changed:
        if any(path.is_relative_to(everything) for everything in EVERYTHING):
            return [str(TESTS)]
        if path.is_relative_to(TESTS):
            is_test = path.name.startswith("test_") and path.suffix == ".py"
            tests.add(str(path if is_test else path.parent))
        package = package_of(path)
        if package is not None:
            packages.add(package)
        folder = TEXTS.get(path.parts[0])
        if folder is not None:
            tests.add(str(TESTS / folder))
    if packages:
        folders = importing_packages(packages) | set(WHOLE_PROGRAM)
        tests |= {str(TESTS / folder) for folder in folders}
    return sorted(test for test in tests if (root / test).exists())


def main() -> int:
    """Print the affected tests."""
    base = sys.argv[1] if len(sys.argv) > 1 else start_of_branch()
    for test in affected_tests(changed_files(base), Path.cwd()):
        print(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())
