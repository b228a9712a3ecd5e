"""The kinds of sandbox: places where untrusted code runs."""

from __future__ import annotations

import warnings
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import (
    Above0,
    Digits,
    EnvMap,
    Model,
    Name,
    Options,
    Port,
    Positive,
    Size,
)


class SandboxBase(Model):
    """What the sandbox kinds share."""

    capture_cmd: str | None = Field(None, description="Command that captures the agent's work for the verifier.")
    verify_timeout: Above0 = Field(600.0, description="Seconds for verification.")
    stateful: bool = Field(False, description="Verify in the sandbox in which the problem was solved.")
    scrub_git_history: bool = Field(False, description="Remove git history that could hold the solution.")

    @model_validator(mode="after")
    def _ignored_when_stateful(self) -> SandboxBase:
        if self.stateful:
            for name in ("capture_cmd", "scrub_git_history"):
                if getattr(self, name):
                    warnings.warn(f"{name} has no effect on a stateful sandbox", UserWarning, stacklevel=2)
        return self


class ImageSandbox(SandboxBase):
    """A sandbox made from a container image."""

    image: str | None = Field(None, description="Image; null: the image that the problem names.")
    image_template: str | None = Field(None, description="Image name with `{fields}` of the problem's metadata.")
    timeout: Above0 = Field(1800.0, description="Longest life of one sandbox, in seconds.")
    concurrency: Positive = Field(4, description="Most sandboxes at once.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment inside.")


class DockerSandbox(ImageSandbox):
    """A container of Docker or Podman."""

    type: Literal["docker"]
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    pids: Positive = Field(512, description="Most processes and threads inside.")
    network: Literal["none", "bridge", "host", "model-only"] = Field(
        "none", description="Network; `bridge` reaches the internet, `model-only` nothing but the model proxy."
    )
    read_only: bool = Field(False, description="Make the root file system read-only.")
    runtime: Literal["runc", "runsc"] | None = Field(None, description="OCI runtime; `runsc` is gVisor.")
    disk: Size = Field("20g", description="Most that a container may write to its root before it is ended.")


class LocalSandbox(SandboxBase):
    """Isolation on this machine without a daemon."""

    type: Literal["local"]
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    pids: Positive = Field(512, description="Most processes and threads inside.")
    timeout: Above0 = Field(1800.0, description="Longest life of one sandbox, in seconds.")
    concurrency: Positive = Field(4, description="Most sandboxes at once.")
    network: Literal["none", "host", "model-only"] = Field("none", description="Network inside.")
    read_only: bool = Field(False, description="Make the working directory read-only too.")
    runtime: Literal["bwrap", "runsc"] | None = Field(None, description="What isolates; null: the best one found.")
    unsafe: bool = Field(False, description="Run without isolation where none can be had.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment inside.")


class SlurmSandbox(ImageSandbox):
    """A container on a SLURM node, through Pyxis."""

    type: Literal["slurm"]
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    node_pool: str | None = Field(None, description="Node pool of the cluster.")
    slots_per_node: Positive = Field(4, description="Sandboxes per node.")


class ApptainerSandbox(SlurmSandbox):
    """An Apptainer instance."""

    type: Literal["apptainer"]  # type: ignore[assignment]
    sif_cache_dir: str | None = Field(None, description="Folder of converted images; required with `node_pool`.")

    @model_validator(mode="after")
    def _shared_cache(self) -> ApptainerSandbox:
        if self.node_pool is not None and self.sif_cache_dir is None:
            raise PydanticCustomError("no_sif_cache", "sif_cache_dir is required when node_pool is set")
        return self


class SshSidecar(Model):
    """The SSH sidecar of a Fargate task."""

    sshd_port: Port = Field(52222, description="Port of sshd.")
    ssh_ready_timeout_sec: Above0 = Field(300.0, description="Seconds until sshd must answer.")
    public_key_secret_arn: Name = Field(description="Secret with the public key.")
    private_key_secret_arn: Name = Field(description="Secret with the private key.")
    image: str | None = Field(None, description="Image of the sidecar.")
    exec_server_port: Port = Field(19542, description="Port of the exec server.")


class EcsFargateSandbox(ImageSandbox):
    """An AWS ECS Fargate task. With a `region` and no `cluster`, settings are found in AWS SSM; these win."""

    type: Literal["ecs_fargate"]
    container_port: Port | None = Field(None, description="Port that the container serves.")
    region: str | None = Field(None, description="AWS region.")
    cluster: str | None = Field(None, description="ECS cluster.")
    subnets: list[str] = Field(default_factory=list, description="Subnets.")
    security_groups: list[str] = Field(default_factory=list, description="Security groups.")
    assign_public_ip: bool | None = Field(None, description="Give the task a public address.")
    cpu: Digits = Field("4096", description="CPU units.")
    memory: Digits = Field("8192", description="Memory in MiB.")
    ephemeral_storage_gib: Positive | None = Field(None, description="Disk in GiB.")
    execution_role_arn: str | None = Field(None, description="Execution role.")
    task_role_arn: str | None = Field(None, description="Task role.")
    log_group: str | None = Field(None, description="CloudWatch log group.")
    log_stream_prefix: str | None = Field(None, description="Prefix of log streams.")
    max_task_lifetime_sec: Positive | None = Field(None, description="Longest life of a task; null: 14400.")
    ssh_sidecar: SshSidecar | None = Field(None, description="SSH sidecar.")
    s3_bucket: str | None = Field(None, description="Bucket for transfers.")
    s3_prefix: str | None = Field(None, description="Prefix in the bucket.")
    ecr_repository: str | None = Field(None, description="Repository of built images.")
    codebuild_project: str | None = Field(None, description="CodeBuild project.")
    codebuild_service_role: str | None = Field(None, description="CodeBuild role.")
    codebuild_build_timeout: Positive | None = Field(None, description="Minutes of a build; null: 60.")
    codebuild_compute_type: str | None = Field(None, description="CodeBuild size; null: BUILD_GENERAL1_MEDIUM.")
    dockerhub_secret_arn: str | None = Field(None, description="Secret with Docker Hub credentials.")
    efs_filesystem_id: str | None = Field(None, description="EFS file system.")
    efs_access_point_id: str | None = Field(None, description="EFS access point.")
    ssm_project: str = Field("harbor", description="Project whose settings are read from SSM.")


class NoSandbox(SandboxBase):
    """No sandbox."""

    type: Literal["none"] = "none"


class CustomSandbox(SandboxBase):
    """A sandbox of your own."""

    type: Literal["custom"]
    class_path: Name = Field(description="The class, as `package.module:Name`.")
    concurrency: Positive = Field(4, description="Most sandboxes at once.")
    config: Options = Field(default_factory=dict, description="Its settings.")


SandboxConfig: TypeAlias = Annotated[
    DockerSandbox | LocalSandbox | SlurmSandbox | ApptainerSandbox | EcsFargateSandbox | NoSandbox | CustomSandbox,
    Field(discriminator="type"),
]
