"""Every text of a config that can reach a script, with a hostile value in it: refused by name, or harmless."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

import pytest
from pydantic import BaseModel

from nemo_evaluator.config import LoadedConfig, parse_eval_config
from nemo_evaluator.config._document import Document
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.config.kinds import parts, whole
from nemo_evaluator.config.managed_service import HelperService, ManagedService
from nemo_evaluator.core.errors import ConfigError, NelError, TransportError, UsageError
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.docker import DockerCluster, DockerHandle, _options, _variables
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.executors.slurm import NodePool, SlurmCluster
from nemo_evaluator.executors.slurm_jobs.host import Host, look
from nemo_evaluator.executors.slurm_jobs.plan import plan_job
from nemo_evaluator.executors.slurm_jobs.submission import files_of
from nemo_evaluator.models.batch.vendor import checked_id
from nemo_evaluator.servers.forms import JobStep, docker_argv, env_file_text, srun_argv
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.base import is_managed, plan_service
from nemo_evaluator.services.haproxy import haproxy_config
from nemo_evaluator.services.servers import StepServer, step_site
from nemo_evaluator.store.run_registry import RunMeta

ALL = os.environ.get("NEL_TEST_ALL") == "1"
# {} is the command that leaves the canary.
HOSTILE = [
    "x\n{}\n",
    "A=1;{};B",
    "x\n#SBATCH --wrap='{}'",
    "$({})",
    "`{}`",
    "';{};'",
    '";{};"',
    "x\r{}\r",
    "x\u2028{}",
    "x\x1b[2J\0{}",
    "-oProxyCommand={}",
    "x' '--wrap={}",
    "x\\\n{}",
    "/a:/b,{}:/c",
]
USED = HOSTILE if ALL else HOSTILE[:3]


@dataclass(frozen=True)
class Place:
    """Where a text may stand in a config: the names on the way, and how the field holds it."""

    path: tuple[str, ...]
    build: Callable[[str], Any]

    def __str__(self) -> str:
        return ".".join(self.path)


def texts_of(schema: type[BaseModel], *path: str) -> Iterator[Place]:
    """The places of a schema that hold texts, those of further schemas in it included."""
    for name, field in schema.model_fields.items():
        kinds = list(parts(whole(field)))
        containers = [get_origin(kind) for kind in kinds]
        if name == "type" or (str not in kinds and Literal in containers):
            continue
        if dict in containers and not any(
            isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds
        ):
            yield Place((*path, name), lambda text: {text: "1"})
            yield Place((*path, name), lambda text: {"NAME": text})
        elif list in containers and str in kinds:
            yield Place((*path, name), lambda text: [text])
        elif str in kinds and dict not in containers:
            yield Place((*path, name), lambda text: text)


def cluster_places() -> list[Place]:
    found = list(texts_of(SlurmCluster, "cluster"))
    found += list(texts_of(NodePool, "cluster", "node_pools", "main"))
    found.append(Place(("cluster", "node_pools"), lambda text: {text: {"partition": "p"}}))
    found.append(Place(("output", "dir"), lambda text: f"/tmp/{text}"))
    return found


def service_places() -> list[Place]:
    found: list[Place] = []
    for word in SERVICES.names():
        schema = SERVICES.schema(word)
        if issubclass(schema, ManagedService | HelperService):
            # Traffic settings reach the model and no script.
            skipped = {
                "generation",
                "proxy",
                "interceptors",
                "reasoning_pattern",
                "retry",
                "depends_on",
                "url",
            }
            found += [
                place
                for place in texts_of(schema, "services", word)
                if place.path[2] not in skipped
            ]
    return found


SERVICE_BASE: dict[str, dict[str, Any]] = {
    "gym": {"server_cmd": "serve"},
    "nim": {"image": "i"},
    "docker_model": {"image": "i"},
    "dynamo": {"image": "i"},
}


def data_for(place: Place, text: str, folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = {
        "services": {
            "model": {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions", "model": "m"}
        },
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "simple", "service": "model"}}],
        "cluster": {
            "type": "slurm",
            "node_pools": {"main": {"partition": "p"}},
            "eval_image": "image",
        },
        "output": {"dir": str(folder / "out")},
    }
    if place.path[0] == "services":
        word = place.path[1]
        fields: dict[str, Any] = {"type": word} | SERVICE_BASE.get(word, {})
        if "model" in SERVICES.schema(word).model_fields:
            fields["model"] = "m"
        data["services"][word] = fields
    owner = data
    for name in place.path[:-1]:
        owner = owner[name]
    owner[place.path[-1]] = place.build(text)
    if place.path[-1] == "username":
        owner["hostname"] = "login"
    return data


def job_of(data: dict[str, Any], folder: Path) -> Job:
    config = parse_eval_config(data)
    run = RunMeta(
        "20260101_000000_0123abcd", "slurm", config.output.dir, "2026-01-01T00:00:00+00:00", "x"
    )
    return Job(RunRequest(), LoadedConfig(config, Document(data)), run)


def run_scripts(folder: Path, scripts: list[str]) -> None:
    """Run what was rendered, beside stand-ins for the commands of the cluster."""
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("srun", "sbatch", "scontrol", "conda", "docker"):
        (folder / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin" / name).chmod(0o755)
    env = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    for text in scripts:
        checked = subprocess.run(
            ["bash", "-n", "-c", text], capture_output=True, cwd=folder, env=env
        )
        assert checked.returncode == 0, checked.stderr
        subprocess.run(["bash", "-c", text], capture_output=True, cwd=folder, env=env, timeout=30)


def check_header(script: str) -> None:
    header = script.split("\n\n")[0].splitlines()
    assert header[0] == "#!/bin/bash"
    for line in header[1:]:
        assert line.startswith("#SBATCH "), line
        assert len(shlex.split(line.removeprefix("#SBATCH "))) == 1, line
    assert len([line for line in header if "--wrap" in line.partition("=")[0]]) == 0


def scripts_of(job: Job, folder: Path) -> list[str]:
    plan = plan_job(job)
    uploads = files_of(job, plan)
    script = uploads["nel_eval.sbatch"].content.decode()
    check_header(script)
    head = script.partition("set -uo pipefail")[0]
    secrets = uploads[".secrets.env"].content.decode()
    made = [f"{head}\nnodes_of() {{ :; }}\nplace\nactivate\n", f"set -a\n{secrets}"]
    for name, service in job.loaded.config.services.items():
        if is_managed(service):
            made += service_scripts(name, service, plan.step, folder)
    return made


def service_scripts(name: str, service: Any, step: JobStep, folder: Path) -> list[str]:
    launch = plan_service(name, service, step_site(service, step))[0]
    server = StepServer(name, launch, folder / "log", folder, srun_argv(launch, step))
    asyncio.run(server._begin())
    haproxy = haproxy_config([launch, launch], 5009).splitlines()
    assert len(haproxy) == 17 and all("touch" not in line.split("GET")[0] for line in haproxy)
    return [(folder / f"{name}.start").read_text().replace("exec >>", ": >>")]


def hostile_places(places: list[Place]) -> list[Any]:
    return [pytest.param(place, id=f"{place}-{number}") for number, place in enumerate(places)]


@pytest.mark.parametrize("place", hostile_places([*cluster_places(), *service_places()]))
def test_no_text_of_a_config_becomes_a_command_of_the_job(place: Place, tmp_path: Path) -> None:
    for number, template in enumerate(USED):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = template.format("touch canary")
        try:
            job = job_of(data_for(place, text, folder), folder)
        except ConfigError as error:
            assert place.path[-1] in str(error), error
            continue
        try:
            scripts = scripts_of(job, folder)
        except NelError:
            continue
        run_scripts(folder, scripts)
        assert not (folder / "canary").exists(), text
        assert not any(path.name == "canary" for path in Path.cwd().iterdir())


@pytest.mark.parametrize("name", ["wrap", "wra", "WRAP"])
@pytest.mark.parametrize("owner", [("cluster",), ("cluster", "node_pools", "main")])
def test_no_flag_replaces_the_job(owner: tuple[str, ...], name: str, tmp_path: Path) -> None:
    place = Place((*owner, "sbatch_extra_flags"), lambda text: {name: text})
    with pytest.raises(ConfigError, match="another command"):
        parse_eval_config(data_for(place, "touch canary", tmp_path))


def test_the_walk_covers_the_settings_that_were_attacked() -> None:
    walked = {str(place) for place in [*cluster_places(), *service_places()]}
    attacked = {
        *(
            f"cluster.{name}"
            for name in ("sbatch_comment", "account", "container_env", "hostname", "username")
        ),
        *(
            f"cluster.node_pools.main.{name}"
            for name in ("partition", "gres", "sbatch_extra_flags")
        ),
        *("services.vllm.extra_env", "services.vllm.health_path", "services.vllm.container_mounts"),
        "services.gym.server_cmd",
    }
    assert attacked <= walked


def test_all_bad_values_are_told_at_once_with_their_keys(tmp_path: Path) -> None:
    data = data_for(Place(("cluster", "sbatch_comment"), str), "a\nb", tmp_path)
    data["cluster"] |= {
        "account": "a\x1b",
        "container_env": {"A=1;touch x;B": "1"},
        "hostname": "-oProxyCommand=x",
    }
    data["cluster"]["node_pools"]["main"]["partition"] = "p\rq"
    with pytest.raises(ConfigError) as caught:
        parse_eval_config(data)
    for key in ("sbatch_comment", "account", "container_env", "hostname", "partition"):
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("container_env", {"A": "-----BEGIN\nKEY\n-----END"}),
        ("container_mounts", ["/data:/data:ro", "/a b:/c"]),
        ("account", "a b"),
        ("sbatch_comment", "don't; $(touch x) `id` é"),
        ("hostname", "login-1.cluster.example"),
        ("username", "DOMAIN\\user"),
        ("eval_image", "registry.example:5000/team/nel:1.0@sha256:" + "0" * 64),
    ],
)
def test_right_values_are_accepted(field: str, value: Any, tmp_path: Path) -> None:
    place = Place(("cluster", field), str)
    data = data_for(place, "x", tmp_path)
    data["cluster"][field] = value
    parse_eval_config(data)


@pytest.mark.parametrize("template", HOSTILE)
def test_the_docker_executor_sets_variables_and_nothing_else(template: str, tmp_path: Path) -> None:
    text = template.format("touch canary")
    data = data_for(Place(("output", "dir"), str), str(tmp_path / "out"), tmp_path)
    data["cluster"] = {"type": "docker", "image": "i"}
    for field, value in [
        ("container_env", {text: "1"}),
        ("container_env", {"A": text}),
        ("container_mounts", [text]),
    ]:
        changed = data | {"cluster": data["cluster"] | {field: value}}
        try:
            job = job_of(changed, tmp_path)
        except ConfigError as error:
            assert field in str(error)
            continue
        job.folder.mkdir(exist_ok=True)
        settings = job.loaded.config.cluster
        assert isinstance(settings, DockerCluster)
        with _variables(job, settings) as variables:
            run_scripts(tmp_path, [variables.read_text()])
            words = _options(job, settings, DockerHandle("c", "i"), variables)
        assert words[words.index("--entrypoint") + 2] == "i"
        assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("template", HOSTILE)
def test_what_renders_checks_again(template: str, tmp_path: Path) -> None:
    text = template.format("touch canary")
    launch = Launch(["serve"], 1, image="i", env={text: "1"})
    with pytest.raises(UsageError):
        srun_argv(launch, JobStep("pyxis"))
    with pytest.raises(UsageError):
        env_file_text({text: "1"})
    with pytest.raises(UsageError):
        haproxy_config([Launch(["serve"], 1, host=text)], 1)
    with pytest.raises(UsageError):
        haproxy_config([Launch(["serve"], 1, health_paths=(f"/{text}",))], 1)
    with pytest.raises(UsageError):
        Host(text)
    with pytest.raises(UsageError):
        Host("login", text)
    with pytest.raises(TransportError):
        checked_id(text)


@pytest.mark.parametrize(
    "vendor", ["../files/x", "a/b", "a?b", "a%2fb", "..", "", "a b", "a#b", "a..b"]
)
def test_an_id_of_a_vendor_names_no_other_address(vendor: str) -> None:
    with pytest.raises(TransportError):
        checked_id(vendor)
    assert checked_id("batch_6a-B.1") == "batch_6a-B.1"


def test_a_mount_that_would_be_two_is_refused_where_commas_separate() -> None:
    launch = Launch(["serve"], 1, image="i", mounts=["/a:/b:ro,/etc:/etc"])
    with pytest.raises(UsageError):
        srun_argv(launch, JobStep("pyxis"))
    assert "/a:/b:ro,z" in docker_argv(
        Launch(["serve"], 1, image="i", mounts=["/a:/b:ro,z"]), "c", "e"
    )


def test_a_job_number_of_the_scheduler_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "job|1||1;touch canary|RUNNING|None|node|0:01\n"
    monkeypatch.setattr(Host, "run", lambda *_args, **_more: answer)
    with pytest.raises(TransportError, match="not a number"):
        look(Host(), "/tmp", ["1"])


def test_the_target_of_ssh_is_no_option() -> None:
    argv = Host("login", "me")._argv("true")
    assert argv[argv.index("--") + 1] == "me@login"


def test_no_address_and_no_path_adds_a_word_to_the_config_of_haproxy() -> None:
    draw = random.Random(5)
    alphabet = "ab0./:-_%[]@,{}$#'\"\\ \t\n\r\x00;=&~!*?"
    plain = haproxy_config([Launch(["serve"], 8000, host="h", health_paths=("/health",))], 5009)
    shape = [len(line.split()) for line in plain.splitlines()]
    accepted = 0
    for _ in range(4_000):
        host = "".join(draw.choices(alphabet, k=draw.randrange(1, 6)))
        path = "/" + "".join(draw.choices(alphabet, k=draw.randrange(0, 6)))
        try:
            text = haproxy_config([Launch(["serve"], 8000, host=host, health_paths=(path,))], 5009)
        except UsageError:
            continue
        accepted += 1
        assert [len(line.split()) for line in text.splitlines()] == shape, (host, path)
        # What HAProxy reads as a comment, a quote, an escape, a variable or another kind of address.
        assert not set(text.replace(plain, "")) & set("#'\"\\$"), (host, path)
        assert "@" not in text.splitlines()[-1], (host, path)
    assert accepted > 20
