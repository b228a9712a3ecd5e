"""The plan of a SLURM run and the script that follows from it; no cluster is needed."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Sums, api, bench, nel, sums

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import ConfigError

__all__ = ["nel", "sums"]
POOLS = {"main": {"partition": "batch"}}


@pytest.fixture
def config(nel: Nel, sums: Sums) -> Any:
    def write(**parts: Any) -> str:
        cluster = {"type": "slurm", "node_pools": POOLS, **parts.pop("cluster", {})}
        whole = {
            "services": {"model": api("http://127.0.0.1:9/v1")},
            "benchmarks": [bench(sums(4))],
        }
        return nel.config(
            "c.json", cluster=cluster, output={"dir": str(nel.folder / "o ut")}, **whole | parts
        )

    return write


def script(nel: Nel, name: str) -> str:
    """The script that is submitted, with an ``sbatch`` that only says a number."""
    (nel.folder / "bin").mkdir(exist_ok=True)
    fake = nel.folder / "bin" / "sbatch"
    fake.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{nel.folder}/argv; env >{nel.folder}/env; echo "77;cluster"\n'
    )
    fake.chmod(0o755)
    # A queue that has forgotten every job.
    (fake.parent / "squeue").write_text("#!/bin/sh\n")
    (fake.parent / "squeue").chmod(0o755)
    nel.env["PATH"] = f"{fake.parent}:{nel.env['PATH']}"
    nel("eval", "run", name, "--submit")
    return (nel.folder / "o ut" / "nel_eval.sbatch").read_text()


TOPOLOGIES: dict[str, dict[str, Any]] = {
    "single": {},
    "shards": {"cluster": {"shards": 3, "max_walltime": "1-00:00:00"}},
    "conda": {"cluster": {"conda_env": "it's mine", "auto_resume": False}},
    "flags": {
        "cluster": {
            "account": "a b",
            "sbatch_comment": "don't; $(touch x) `id`",
            "sbatch_extra_flags": {"exclusive": "true", "qos": "a'b", "nice": "false"},
        }
    },
    "two pools": {
        "cluster": {
            "node_pools": POOLS | {"box es": {"partition": "gpu", "nodes": 2, "gres": "gpu:1"}}
        },
        "sandboxes": {"s": {"type": "slurm", "node_pool": "box es"}},
        "services": {"model": api("http://127.0.0.1:9/v1")},
    },
}


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_script_passes_shellcheck_and_bash_reads_it(nel: Nel, config: Any, name: str) -> None:
    script(nel, config(**TOPOLOGIES[name]))
    path = nel.folder / "o ut" / "nel_eval.sbatch"
    checked = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0


def test_values_are_quoted_once_and_flags_written_as_sbatch_reads_them(
    nel: Nel, config: Any
) -> None:
    lines = script(nel, config(**TOPOLOGIES["flags"])).splitlines()
    assert "#SBATCH --comment='don'\"'\"'t; $(touch x) `id`'" in lines
    assert "#SBATCH --exclusive" in lines and not any(
        "nice" in line for line in lines if line.startswith("#SBATCH")
    )
    assert "#SBATCH --account='a b'" in lines and "#SBATCH --time=04:00:00" in lines
    assert f"root='{nel.folder}/o ut'" in lines


def test_pools_that_are_used_become_groups_of_one_job(nel: Nel, config: Any) -> None:
    text = script(nel, config(**TOPOLOGIES["two pools"]))
    assert (
        text.count("#SBATCH hetjob") == 0
    )  # Nothing runs in the first pool by name, so one is enough.
    benches = [bench("sums.py", sandbox="s")]
    services = {"model": {"type": "vllm", "model": "m", "node_pool": "main"}}
    text = script(
        nel, config(**TOPOLOGIES["two pools"] | {"services": services, "benchmarks": benches})
    )
    header = text.partition("\n\n")[0]
    first, second = header.split("#SBATCH hetjob")
    assert "--partition=batch" in first and "--signal=B:USR1@120" in first and "--gres" not in first
    assert "--partition=gpu" in second and "--nodes=2" in second and "--signal" not in second
    assert "NEL_SANDBOX_HET_GROUP=1" in text


SERVED = {"type": "vllm", "model": "m", "protocol": "completions", "node_pool": "main"}


@pytest.mark.parametrize(
    ("service", "pool", "said"),
    [
        (
            {"tensor_parallel_size": 4},
            {"gres": "gpu:2"},
            "services.model.tensor_parallel_size: 4 GPUs are asked for",
        ),
        ({"tensor_parallel_size": 4}, {"gpus_per_node": 2}, "pool 'main' has 2 per node"),
        (
            {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
            {"gres": "gpu:h100:2"},
            "a server needs 4 GPUs",
        ),
        (
            {"tensor_parallel_size": 2, "data_parallel_size": 2},
            {"gres": "gpu:2"},
            "model.data_parallel_size: a server",
        ),
        (
            {"tensor_parallel_size": 2, "num_instances": 3},
            {"gres": "gpu:8", "nodes": 1},
            "3 servers would share a node",
        ),
        (
            {"num_nodes_per_instance": 3},
            {"nodes": 2},
            "services.model.num_nodes: 3 nodes are asked for",
        ),
        (
            {"type": "dynamo", "node_pool": None},
            {"gres": "gpu:2"},
            "services.model.prefill.tensor_parallel_size",
        ),
    ],
)
def test_more_gpus_than_the_pool_has_are_refused(service: Any, pool: Any, said: str) -> None:
    if service.get("type") == "dynamo":
        workers = {"node_pool": "main", "tensor_parallel_size": 4}
        service = service | {"prefill": workers, "decode": workers | {"tensor_parallel_size": 2}}
    cluster = {"type": "slurm", "node_pools": {"main": {"partition": "p"} | pool}}
    data = {
        "services": {"model": SERVED | service},
        "benchmarks": [bench("gsm8k")],
        "cluster": cluster,
    }
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_eval_config(data)


@pytest.mark.parametrize(
    "service",
    [
        {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "num_nodes": 2},
        {"tensor_parallel_size": 2, "num_instances": 4},
        {"tensor_parallel_size": 1, "data_parallel_size": 2},
    ],
)
def test_what_fits_is_not_refused(service: Any) -> None:
    cluster = {"type": "slurm", "node_pools": {"main": {"partition": "p", "gres": "gpu:2"}}}
    parse_eval_config(
        {
            "services": {"model": SERVED | service},
            "benchmarks": [bench("gsm8k")],
            "cluster": cluster,
        }
    )


def test_secrets_reach_a_file_of_the_owner_and_nothing_else(nel: Nel, config: Any) -> None:
    nel.env |= {
        "SOME_VALUE": "plain-but-named-1",
        "HF_TOKEN": "hf_secret`date`$x'1234",
        "HARMLESS": "seen",
    }
    nel.env["PASSING"] = "pass word 12345"
    services = {"model": api("http://127.0.0.1:9/v1", api_key="${SOME_VALUE}")}
    script(nel, config(services=services, cluster={"container_env": {"MY_PASSWORD": "${PASSING}"}}))
    folder = nel.folder / "o ut"
    secrets = folder / ".secrets.env"
    assert secrets.stat().st_mode & 0o777 == 0o600
    read = (
        f"set -a; . '{secrets}'; python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'"
    )
    found = json.loads(
        subprocess.run(["bash", "-c", read], capture_output=True, text=True, check=True).stdout
    )
    assert (
        found["SOME_VALUE"] == "plain-but-named-1" and found["HF_TOKEN"] == "hf_secret`date`$x'1234"
    )
    assert found["MY_PASSWORD"] == "pass word 12345"
    handed = (nel.folder / "env").read_text()
    assert "HARMLESS=seen" in handed and "HF_TOKEN" not in handed
    for path in folder.rglob("*"):
        if path.is_file() and path != secrets:
            text = path.read_text()
            assert (
                "hf_secret" not in text
                and "pass word 12345" not in text
                and "plain-but-named" not in text
            ), path


def test_a_secret_in_the_config_itself_is_refused(nel: Nel, config: Any) -> None:
    name = config(services={"model": api("http://127.0.0.1:9/v1", api_key="sk-0123456789abcdef")})
    said = nel("eval", "run", name, "--submit", code=1).stderr
    assert "${VARIABLE}" in said and "sk-0123" not in said
    assert not (nel.folder / "o ut").exists()


def test_the_dry_run_shows_the_plan_and_writes_nothing(nel: Nel, config: Any) -> None:
    name = config(**TOPOLOGIES["shards"])
    said = nel("eval", "run", name, "--dry-run").stdout
    assert (
        "an array of 3 jobs" in said
        and "main: 1 node, partition batch" in said
        and "sums: all problems x 1" in said
    )
    data = json.loads(nel("eval", "run", name, "--dry-run", "--json").stdout)
    assert (
        data["shards"] == 3
        and data["pools"][0]["name"] == "main"
        and data["worker"][-2] == "--request"
    )
    assert not (nel.folder / "o ut").exists() and not shutil.which("sbatch", path=str(nel.folder))


def test_sbatch_that_refuses_is_an_error_with_its_words(nel: Nel, config: Any) -> None:
    name = config()
    script(nel, name)
    (nel.folder / "bin" / "sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition' >&2; exit 1\n"
    )
    shutil.rmtree(nel.folder / "o ut")
    said = nel("eval", "run", name, "--submit", code=None)
    assert said.returncode != 0 and "invalid partition" in said.stderr
    assert not Path(nel.folder / "o ut" / ".secrets.env").exists()
