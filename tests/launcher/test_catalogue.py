"""Names of tasks, how each of them runs, and how the list of them looks."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from nel_support import Nel

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments import BenchmarkEnvironment, environment_class
from nemo_evaluator.environments.registry import builtin_names
from nemo_evaluator.launcher.catalogue import catalogue, find_task
from nemo_evaluator.launcher.routes import choose_route, native_route, needs_of
from nemo_evaluator.launcher.table import read_data

_FACTS = Path(__file__).parents[3] / "shared" / "spec" / "launcher-tasks.yaml"
_COUNTS = Counter(task.name for task in catalogue())
_AMBIGUOUS = sorted(name for name, count in _COUNTS.items() if count > 1)


def test_the_ambiguous_names_are_those_of_the_launchers_documentation() -> None:
    evaluations = ["humaneval", "humaneval_instruct", "humanevalplus", "ifbench", "ifeval", "mgsm"]
    assert ["gpqa_diamond", "hle", *evaluations, "mmlu", "mmlu_pro", "scicode"] == _AMBIGUOUS


@pytest.mark.parametrize("name", _AMBIGUOUS)
def test_a_name_that_several_harnesses_have_is_refused_with_all_of_them(name: str) -> None:
    with pytest.raises(UsageError, match="ambiguous") as caught:
        find_task(name)
    suggested = str(caught.value.hint).removeprefix("write one of: ").split(", ")
    assert len(suggested) == _COUNTS[name]
    assert [find_task(full_name).full_name for full_name in suggested] == suggested
    assert find_task(name, "registry/image:1").container == f"container://registry/image:1#{name}"


def test_each_of_421_tasks_is_found_by_its_full_name_and_if_it_is_alone_by_its_short_one() -> None:
    assert len(catalogue()) == 421 and len({task.harness for task in catalogue()}) == 23
    for task in catalogue():
        assert find_task(task.full_name) is task
        if task.name not in _AMBIGUOUS:
            assert find_task(task.name) is task


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("mmlu_prox_fr_chat", "lm-evaluation-harness.mmlu_prox_fr_chat"),
        ("aime_2025", "codec.aime_2025"),
        ("aime_2024_nemo", "simple_evals.aime_2024_nemo"),
        ("fiqa", "mteb.fiqa"),
        ("medec", "helm.medec"),
    ],
)
def test_a_short_name_is_the_launchers_before_it_is_nels(name: str, full_name: str) -> None:
    assert find_task(name).full_name == full_name


@pytest.mark.parametrize("name", ["mgsm_de", "mmlu_prox_chat_xx", "multiple-cobol", "adlr_new"])
def test_no_task_is_invented_after_a_pattern(name: str) -> None:
    with pytest.raises(UsageError, match="no task is called"):
        find_task(name)


def test_a_benchmark_of_nel_and_an_unlisted_task_are_told_apart() -> None:
    assert choose_route(find_task("quickstart")).kind == "own"
    assert choose_route(find_task("skills://gpqa")).benchmark == "skills://gpqa"
    unlisted = find_task("codec.new_probe")
    assert not unlisted.listed and unlisted.endpoint == "completions"
    assert choose_route(unlisted).benchmark.endswith("contamination-detection:26.03#new_probe")


def test_an_image_of_the_user_gets_the_type_of_the_task_and_no_defaults() -> None:
    task = find_task("mmlu", "/images/lm-evaluation-harness.sqsh")
    assert (task.harness, task.endpoint, task.defaults) == (
        "lm-evaluation-harness",
        "completions",
        {},
    )
    assert find_task("mmlu", "registry/simple-evals:1").endpoint == "chat"
    same = find_task("mtbench", "nvcr.io/nvidia/eval-factory/mtbench:26.03")
    assert same.defaults["max_new_tokens"] == 1024


@pytest.mark.skipif(not _FACTS.exists(), reason="the facts on the launcher are not here")
def test_the_catalogue_is_the_facts() -> None:
    class Loader(yaml.SafeLoader):
        """Reads JSON's numbers with an exponent as numbers, which YAML 1.1 calls text."""

    resolvers = Loader.yaml_implicit_resolvers
    Loader.yaml_implicit_resolvers = {key: list(rows) for key, rows in resolvers.items()}
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^\d+(\.\d+)?e-?\d+$"),
        list("0123456789"),
    )
    facts = yaml.load(_FACTS.read_text(), Loader)
    file = Path(__file__).parents[2] / "src/nemo_evaluator/launcher/data/catalogue.json"
    assert json.loads(file.read_text())["harnesses"] == facts["harnesses"]
    assert facts["ambiguous"] == _AMBIGUOUS


def test_a_task_runs_in_lm_eval_or_in_its_container_unless_native_is_asked_for() -> None:
    for task in catalogue():
        route = choose_route(task)
        assert choose_route(task, "containers").benchmark == task.container
        if task.full_name == "lm-evaluation-harness.ifeval":
            # Its prompts and graders were shown to be equal.
            assert route.kind == "built-in" and route.equal and route.benchmark == "ifeval"
            continue
        assert route.kind in ("lm-eval", "container"), task.full_name
        if route.kind == "lm-eval":
            assert task.harness == "lm-evaluation-harness"
            assert route.benchmark == f"lm-eval://{task.own_name}"
        else:
            assert route.benchmark == task.container
    counts = Counter(choose_route(task).kind for task in catalogue())
    assert counts == {"lm-eval": 99, "container": 321, "built-in": 1}


def test_native_names_benchmarks_that_exist_and_take_the_tasks_examples() -> None:
    routed = 0
    for task in catalogue():
        route = native_route(task)
        if route is None:
            continue
        routed += 1
        assert choose_route(task, "native") == route and route.kind == "built-in"
        if "://" in route.benchmark:
            continue
        assert route.benchmark in builtin_names(), task.full_name
        environment = environment_class(route.benchmark)
        assert issubclass(environment, BenchmarkEnvironment)
        definition = environment.definition
        if (task.defaults.get("extra") or {}).get("num_fewshot"):
            assert definition.fewshot_split or definition.fewshot_dataset, task.full_name
    rows = read_data("routes.yaml")["native"]
    assert routed == sum(len(tasks) for tasks in rows.values())


def test_every_name_and_pattern_of_the_routes_is_of_a_task() -> None:
    routes = read_data("routes.yaml")
    own_names = {task.own_name for task in catalogue() if task.harness == "lm-evaluation-harness"}
    assert own_names.issuperset(routes["not_in_lm_eval"] + routes["runs_code_in_lm_eval"])
    for need, patterns_by_harness in routes["needs"].items():
        for harness, patterns in patterns_by_harness.items():
            names = [task.name for task in catalogue() if task.harness == harness]
            for pattern in patterns:
                assert fnmatch.filter(names, pattern), f"{need}: {harness}.{pattern}"
    assert needs_of(find_task("wildguard")) == ("judge", "gated")


@pytest.mark.needs("lm_eval")
def test_ifeval_asks_what_lm_eval_asks_with_its_limit() -> None:
    import lm_eval.tasks

    text = (Path(lm_eval.tasks.__file__).parent / "ifeval" / "ifeval.yaml").read_text()
    text = re.sub(r"!function \S+", "function", text)
    theirs = yaml.safe_load(text)
    assert theirs["doc_to_text"] == "prompt" and theirs["num_fewshot"] == 0
    environment = environment_class("ifeval")
    assert issubclass(environment, BenchmarkEnvironment)
    assert environment.definition.prompt == "{prompt}"
    route = choose_route(find_task("lm-evaluation-harness.ifeval"))
    assert route.defaults == {"max_new_tokens": theirs["generation_kwargs"]["max_gen_toks"]}


@pytest.mark.needs("lm_eval")
def test_the_routes_agree_with_the_installed_lm_eval() -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager()
    routes = read_data("routes.yaml")
    for task in catalogue():
        if task.harness != "lm-evaluation-harness":
            continue
        exists = task.own_name in manager.all_tasks
        assert exists == (task.own_name not in routes["not_in_lm_eval"]), task.full_name
    for name in routes["runs_code_in_lm_eval"]:
        file = Path(str(manager.task_index[name].yaml_path))
        text = file.read_text()
        included = [line.split()[1] for line in text.splitlines() if line.startswith("include:")]
        texts = [text, *((file.parent / other).read_text() for other in included)]
        assert any("unsafe_code: true" in part for part in texts), name


def test_the_list_fits_a_terminal_and_has_every_task(nel: Nel) -> None:
    nel.env["COLUMNS"] = "80"
    lines = nel("ls", "tasks").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {task.harness for task in catalogue()} <= set(lines)
    rows = [line.split() for line in lines if "  " in line]
    listed = Counter((row[0], row[1], row[2]) for row in rows[1:])
    expected = Counter((task.name, task.endpoint, choose_route(task).kind) for task in catalogue())
    assert listed == expected


def test_the_list_as_json_says_how_each_task_runs(nel: Nel) -> None:
    documents = json.loads(nel("ls", "tasks", "--json").stdout)["tasks"]
    by_name = {(document["harness"], document["task"]): document for document in documents}
    assert len(by_name) == 421
    winogrande = by_name["lm-evaluation-harness", "winogrande"]
    assert winogrande["runs_as"] == "lm-eval" and winogrande["benchmark"] == "lm-eval://winogrande"
    assert winogrande["defaults"]["extra"]["num_fewshot"] == 5
    assert by_name["simple_evals", "mmlu"]["runs_as"] == "container"
    assert by_name["simple_evals", "mmlu"]["native"] == "mmlu"
    assert by_name["mteb", "fiqa"]["endpoint_type"] == "embedding"
