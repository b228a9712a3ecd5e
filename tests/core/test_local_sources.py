"""A user's scorer is its file and what that imports: a change anywhere in it makes new verdicts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.local_sources import imported_sources
from nemo_evaluator.core.registry import load_file
from nemo_evaluator.environments.registry import get_environment, load_benchmark_file
from nemo_evaluator.scoring.types import scorer_version

BENCH = """
from nemo_evaluator.environments import benchmark, scorer
{imports}
@benchmark(name="local_sources", dataset=lambda: [{{"q": "a", "target": "t"}}], prompt="{{q}}")
@scorer
def local_sources(sample):
    {inside}
    return {{"correct": True}}
"""
# What the file imports, what it does inside the scorer, and the file that is changed.
WAYS = {
    "beside": ("import ls_a", "pass", "ls_a.py"),
    "from": ("from ls_a import right", "pass", "ls_a.py"),
    "transitive": ("import ls_b", "pass", "ls_a.py"),
    "package": ("import ls_pack", "pass", "ls_pack/__init__.py"),
    "module of a package": ("import ls_pack.deep.leaf", "pass", "ls_pack/deep/leaf.py"),
    "package above": ("import ls_pack.deep.leaf", "pass", "ls_pack/__init__.py"),
    "from a package": ("from ls_pack import part", "pass", "ls_pack/part.py"),
    "name of a module": ("from ls_pack.part import value", "pass", "ls_pack/part.py"),
    "relative in a package": ("from ls_pack.deep import leaf", "pass", "ls_pack/part.py"),
    "relative sibling": ("from ls_pack.deep import leaf", "pass", "ls_pack/deep/token.py"),
    "inside": ("", "import ls_a", "ls_a.py"),
    "import_module": ("import importlib", "importlib.import_module('ls_a')", "ls_a.py"),
    "import_module by name": (
        "from importlib import import_module",
        "import_module('ls_pack.part')",
        "ls_pack/part.py",
    ),
    "__import__": ("", "__import__('ls_a')", "ls_a.py"),
    "import_module with a package": (
        "import importlib",
        "importlib.import_module('.leaf', package='ls_space.inner')",
        "ls_space/inner/leaf.py",
    ),
    "import_module from the package above": (
        "import importlib",
        "importlib.import_module('..part', 'ls_pack.deep')",
        "ls_pack/part.py",
    ),
    "import_module by keyword": (
        "import importlib",
        "importlib.import_module(name='ls_a')",
        "ls_a.py",
    ),
    "import_module under another name": (
        "from importlib import import_module as load",
        "load('ls_a')",
        "ls_a.py",
    ),
    "namespace package": ("from ls_space.inner import leaf", "pass", "ls_space/inner/leaf.py"),
    "relative in a namespace package": (
        "from ls_space import near",
        "pass",
        "ls_space/inner/leaf.py",
    ),
    "by file": ("import runpy", "runpy.run_path('ls_a.py')", "ls_a.py"),
    "star": ("from ls_pack.part import *", "pass", "ls_pack/part.py"),
    "under a condition": (
        "try:\n    import ls_a\nexcept ImportError:\n    pass",
        "pass",
        "ls_a.py",
    ),
    "a re-export of a re-export": ("from ls_front import right", "pass", "ls_front/sub/impl.py"),
    "a name in a variable": (
        "import importlib\nN = 'ls_a'",
        "importlib.import_module(N)",
        "ls_a.py",
    ),
    "a name in a list": (
        "import importlib",
        "[importlib.import_module(n) for n in ('ls_b', 'ls_a')]",
        "ls_a.py",
    ),
    "a function in a variable": (
        "import importlib\nload = importlib.import_module",
        "load('ls_a')",
        "ls_a.py",
    ),
    "a computed name": ("import importlib", "importlib.import_module(f'ls_{\"a\"}')", "ls_a.py"),
    "a joined name": ("import importlib", "importlib.import_module('ls' + '_a')", "ls_a.py"),
    "a name computed in a package": ("from ls_lazy import right", "pass", "ls_lazy/right_rule.py"),
    "all modules of a package": ("import ls_all", "pass", "ls_all/rule.py"),
    "a path to a file": (
        "import importlib.util, pathlib",
        "importlib.util.spec_from_file_location('x', pathlib.Path(__file__).parent / 'ls_data' / 'rule.py')",
        "ls_data/rule.py",
    ),
    "another folder of modules": (
        "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'ls_data'))\nimport rule",
        "pass",
        "ls_data/rule.py",
    ),
    "runpy with a module": ("import runpy", "runpy.run_module('ls_a')", "ls_a.py"),
    "a program with a module": (
        "import subprocess",
        "subprocess.run(['python', '-m', 'ls_a'])",
        "ls_a.py",
    ),
    "a script": ("import subprocess", "subprocess.run(['bash', 'ls_check.sh'])", "ls_check.sh"),
    "data": (
        "import pathlib\nWORDS = pathlib.Path(__file__.replace('bench.py', 'ls_data/words.txt')).read_text()",
        "pass",
        "ls_data/words.txt",
    ),
    "data in joined folders": (
        "import pathlib\nWORDS = (pathlib.Path(__file__).parent / 'ls_data' / 'words.txt').read_text()",
        "pass",
        "ls_data/words.txt",
    ),
    "data of a module": ("import ls_reader", "pass", "ls_data/words.txt"),
    "a pattern": (
        "import glob",
        "[open(name).read() for name in glob.glob('ls_data/*.txt')]",
        "ls_data/words.txt",
    ),
    "the name of a standard module": ("import colorsys", "pass", "colorsys.py"),
    "in a circle": ("import ls_c", "pass", "ls_d.py"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "ls_a.py": "def right():\n    return True\n",
        "ls_b.py": "from ls_a import right\n",
        "ls_c.py": "def c():\n    import ls_d\n",
        "ls_d.py": "import ls_c\n",
        "ls_pack/__init__.py": "",
        "ls_pack/part.py": "value = 1\n",
        "ls_pack/deep/__init__.py": "",
        "ls_pack/deep/leaf.py": "from ..part import value\nfrom . import token\n",
        "ls_pack/deep/token.py": "",
        "ls_space/inner/leaf.py": "",
        "ls_space/near.py": "from .inner import leaf\n",
        "ls_front/__init__.py": "from .sub import *\n",
        "ls_front/sub/__init__.py": "from .impl import right\n",
        "ls_front/sub/impl.py": "right = 1\n",
        "ls_lazy/__init__.py": (
            "import importlib\n"
            "def __getattr__(name):\n"
            "    return getattr(importlib.import_module(f'.{name}_rule', __name__), name)\n"
        ),
        "ls_lazy/right_rule.py": "right = 1\n",
        "ls_all/__init__.py": (
            "import importlib, pkgutil\n"
            "for found in pkgutil.iter_modules(__path__):\n"
            "    importlib.import_module(f'{__name__}.{found.name}')\n"
        ),
        "ls_all/rule.py": "",
        "ls_data/rule.py": "",
        "ls_data/words.txt": "one\n",
        "ls_reader.py": "import pathlib\nWORDS = (pathlib.Path(__file__).parent / 'ls_data/words.txt').read_text()\n",
        "ls_check.sh": "true\n",
        "colorsys.py": "",
        "unrelated.txt": "",
        "apart/unrelated.py": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_a_change_in_what_is_imported_changes_the_fingerprint(folder: Path, way: str) -> None:
    imports, inside, changed = WAYS[way]
    bench = folder / "bench.py"
    bench.write_text(BENCH.format(imports=imports, inside=inside))
    environment = get_environment(str(bench))
    before = environment.scorer_fingerprint()
    (folder / "unrelated.txt").write_text("other")
    (folder / "apart" / "unrelated.py").write_text("other = 1\n")
    assert environment.scorer_fingerprint() == before
    with (folder / changed).open("a") as file:
        file.write("# changed\n")
    assert environment.scorer_fingerprint() != before


def test_a_class_and_a_metric_of_a_user_count_as_well(folder: Path) -> None:
    own = folder / "own.py"
    own.write_text(
        "import ls_b\nfrom nemo_evaluator.environments import EvalEnvironment\n"
        "class Own(EvalEnvironment):\n"
        "    async def seed(self, idx): ...\n"
        "    async def verify(self, response, expected, sandbox=None, **metadata): ...\n"
        "    async def dataset_size(self): return 1\n"
        "class Metric:\n"
        "    def measure(self, sample): return 1.0\n"
    )
    module = load_file(own)
    before = (module.Own().scorer_fingerprint(), scorer_version(module.Metric()))
    (folder / "ls_a.py").write_text("def right():\n    return False\n")
    after = (module.Own().scorer_fingerprint(), scorer_version(module.Metric()))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_the_rows_of_a_benchmark_are_not_a_part_of_its_scorer(folder: Path) -> None:
    bench = folder / "rows.py"
    bench.write_text(
        "def rows():\n    return open('ls_data/words.txt')\n"
        "first = dict(dataset=rows)\nsecond = dict(dataset='ls_check.sh')\nthird = 'ls_data/rule.py'\n"
    )
    assert set(imported_sources([bench]).files) == {"ls_data/rule.py"}


def test_installed_packages_count_by_version_and_nel_not_at_all(folder: Path) -> None:
    file = folder / "uses.py"
    file.write_text(
        "import numpy.linalg\nimport yaml, json, os.path\nfrom nemo_evaluator import scoring\n"
    )
    sources = imported_sources([file])
    assert sources.packages == {"numpy", "yaml"}
    assert sources.files == {}


def test_a_file_is_imported_once_whoever_asks(folder: Path) -> None:
    bench = folder / "twice.py"
    bench.write_text(
        "import ls_a\nCOUNT = ls_a.__dict__.setdefault('count', [])\nCOUNT.append(1)\n"
        + BENCH.format(imports="", inside="pass")
    )
    module = load_file(bench)
    assert load_benchmark_file(bench) == ["local_sources"]
    assert get_environment(f"{bench}:local_sources") is not None
    assert module.COUNT == [1]


def test_a_broken_file_leaves_no_module_and_can_be_mended(folder: Path) -> None:
    bench = folder / "broken.py"
    (folder / "ls_wrong.py").write_text("value = 1\n")
    bench.write_text("import ls_wrong\nraise RuntimeError('not yet')\n")
    before = set(sys.modules)
    with pytest.raises(UsageError, match="not yet"):
        load_benchmark_file(bench)
    assert {
        name for name in set(sys.modules) - before if "broken" in name or "ls_" in name
    } == set()
    (folder / "ls_wrong.py").write_text("value = 22\n")
    bench.write_text(
        "import ls_wrong\nVALUE = ls_wrong.value\n" + BENCH.format(imports="", inside="pass")
    )
    assert load_benchmark_file(bench) == ["local_sources"]
    assert load_file(bench).VALUE == 22


def test_neighbours_of_two_files_with_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    values = []
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "ls_same_name.py").write_text(f"value = {name!r}\n")
        (folder / "bench.py").write_text("from ls_same_name import value\n")
        values.append(load_file(folder / "bench.py").value)
    assert values == ["first", "second", "third"]
