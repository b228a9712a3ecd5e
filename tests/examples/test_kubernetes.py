"""The files of examples/kubernetes: what the published schemas allow, and what nel itself understands."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.config import load_mapping

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-1.37.json").read_text())
CORE = "#/$defs/io.k8s.api.core.v1."
KINDS = {
    ("v1", "ConfigMap"): f"{CORE}ConfigMap",
    ("v1", "PersistentVolumeClaim"): f"{CORE}PersistentVolumeClaim",
    ("batch/v1", "Job"): "#/$defs/io.k8s.api.batch.v1.Job",
    ("ray.io/v1", "RayJob"): "#/$defs/RayJob",
}


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, WHOLE, FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
WORDS = {"type": "object", "additionalProperties": TEXT}
POD = {"$ref": f"{CORE}PodTemplateSpec"}
GROUP = {"rayStartParams": WORDS, "template": POD}
# The fields of ray.io/v1 that such a file can use, as its definition names and types them.
RAY_CLUSTER = closed(
    ("headGroupSpec",),
    rayVersion=TEXT,
    enableInTreeAutoscaling=FLAG,
    suspend=FLAG,
    headGroupSpec=closed(
        ("rayStartParams", "template"), serviceType=TEXT, enableIngress=FLAG, **GROUP
    ),
    workerGroupSpecs={
        "type": "array",
        "items": closed(
            ("groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"),
            groupName=TEXT,
            **dict.fromkeys(("replicas", "minReplicas", "maxReplicas", "numOfHosts"), WHOLE),
            **GROUP,
        ),
    },
)
RAY_JOB = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion=TEXT,
    kind=TEXT,
    metadata={"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
    spec=closed(
        entrypoint=TEXT,
        runtimeEnvYAML=TEXT,
        submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode"]},
        submitterPodTemplate=POD,
        **dict.fromkeys(("shutdownAfterJobFinishes", "suspend"), FLAG),
        **dict.fromkeys(
            ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"), WHOLE
        ),
        rayClusterSpec=RAY_CLUSTER,
    ),
)
DOCUMENTS = [
    pytest.param(document, id=f"{path.name}:{document['metadata']['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]


def schema_of(document: dict[str, Any]) -> dict[str, Any]:
    definitions = SCHEMA["$defs"] | {"RayJob": RAY_JOB}
    return {
        "$schema": SCHEMA["$schema"],
        "$defs": definitions,
        "$ref": KINDS[document["apiVersion"], document["kind"]],
    }


def problems(document: dict[str, Any]) -> list[str]:
    found = jsonschema.Draft202012Validator(schema_of(document)).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


def pods(document: Any) -> list[dict[str, Any]]:
    """The specs of all pods in a document."""
    if isinstance(document, list):
        return [pod for item in document for pod in pods(item)]
    if not isinstance(document, dict):
        return []
    own = [document] if "containers" in document else []
    return own + [pod for value in document.values() for pod in pods(value)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_it_is_what_the_published_schema_allows(document: dict[str, Any]) -> None:
    assert problems(document) == []


def test_a_misspelt_field_is_found_at_any_depth() -> None:
    for document in (one.values[0] for one in DOCUMENTS):
        assert isinstance(document, dict)
        for pod in pods(json.loads(json.dumps(document))):
            assert pod["containers"]
        broken = json.loads(json.dumps(document))
        for pod in pods(broken):
            pod["containers"][0]["imagePolicy"] = "Never"
        assert bool(problems(broken)) == bool(pods(broken))
    (ray,) = [one.values[0] for one in DOCUMENTS if one.id and one.id.startswith("ray-job")]
    broken = json.loads(json.dumps(ray))
    broken["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 3
    assert problems(broken)


def test_what_pods_mount_exists_and_the_config_is_one_of_nels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NVIDIA_API_KEY", "nvapi-example")
    by_kind: dict[str, dict[str, Any]] = {}
    for one in DOCUMENTS:
        document: Any = one.values[0]
        by_kind.setdefault(document["kind"], {})[document["metadata"]["name"]] = document
    for one in DOCUMENTS:
        for pod in pods(one.values[0]):
            names = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} <= names
            for volume in pod["volumes"]:
                if "configMap" in volume:
                    assert volume["configMap"]["name"] in by_kind["ConfigMap"]
                if "persistentVolumeClaim" in volume:
                    assert (
                        volume["persistentVolumeClaim"]["claimName"]
                        in by_kind["PersistentVolumeClaim"]
                    )
    text = by_kind["ConfigMap"]["nemo-evaluator-config"]["data"]["eval.yaml"]
    ray = shlex.split(by_kind["RayJob"]["nel-ray"]["spec"]["entrypoint"])
    overrides = [ray[at + 1] for at, word in enumerate(ray) if word == "-O"]
    loaded = load_mapping(yaml.safe_load(text), overrides)
    assert (loaded.config.cluster.type, loaded.config.output.dir) == ("ray", "/data/results")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_option_is_one_of_nels(document: dict[str, Any]) -> None:
    commands = [
        container["args"]
        for pod in pods(document)
        for container in pod["containers"]
        if "args" in container
    ]
    if entry := document.get("spec", {}).get("entrypoint"):
        commands.append(shlex.split(entry.partition("nel ")[2]))
    for command in commands:
        told = CliRunner().invoke(nel, [*command[:2], "--help"]).output
        options = {word for word in command if word.startswith("-")}
        assert options <= set(re.findall(r"(?<!\w)--?[a-zA-Z][\w-]*", told)), (command, told)
