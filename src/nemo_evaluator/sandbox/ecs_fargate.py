"""``ecs_fargate``: a Fargate task per sandbox, with an exec server inside that is reached through an SSH tunnel."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Digits, Later, Port, Positive, no_items
from nemo_evaluator.config.sandbox_base import ImageSandbox
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.sandbox._ecs_tunnel import SshSidecar


class EcsFargateConfig(ImageSandbox):
    """An AWS ECS Fargate task. With a `region` and no `cluster`, settings are found in AWS SSM; these win."""

    type: Literal["ecs_fargate"] = "ecs_fargate"
    container_port: Later[Port] = Field(None, description="Port that the container serves.")
    region: str | None = Field(None, description="AWS region.")
    cluster: str | None = Field(None, description="ECS cluster.")
    subnets: list[str] = Field(default_factory=no_items, description="Subnets.")
    security_groups: list[str] = Field(default_factory=no_items, description="Security groups.")
    assign_public_ip: bool | None = Field(None, description="Give the task a public address.")
    cpu: Digits = Field("4096", description="CPU units.")
    memory: Digits = Field("8192", description="Memory in MiB.")
    ephemeral_storage_gib: Positive | None = Field(None, description="Disk in GiB.")
    execution_role_arn: str | None = Field(None, description="Execution role.")
    task_role_arn: str | None = Field(None, description="Task role.")
    log_group: str | None = Field(None, description="CloudWatch log group.")
    log_stream_prefix: str | None = Field(None, description="Prefix of log streams.")
    max_task_lifetime_sec: Positive | None = Field(
        None, description="Longest life of a task; null: 14400."
    )
    ssh_sidecar: SshSidecar | None = Field(None, description="SSH sidecar.")
    s3_bucket: Later[str] = Field(None, description="Bucket for transfers.")
    s3_prefix: Later[str] = Field(None, description="Prefix in the bucket.")
    ecr_repository: Later[str] = Field(None, description="Repository of built images.")
    codebuild_project: Later[str] = Field(None, description="CodeBuild project.")
    codebuild_service_role: Later[str] = Field(None, description="CodeBuild role.")
    codebuild_build_timeout: Later[Positive] = Field(
        None, description="Minutes of a build; null: 60."
    )
    codebuild_compute_type: Later[str] = Field(
        None, description="CodeBuild size; null: BUILD_GENERAL1_MEDIUM."
    )
    dockerhub_secret_arn: Later[str] = Field(
        None, description="Secret with Docker Hub credentials."
    )
    efs_filesystem_id: Later[str] = Field(None, description="EFS file system.")
    efs_access_point_id: Later[str] = Field(None, description="EFS access point.")
    ssm_project: str = Field("harbor", description="Project whose settings are read from SSM.")


KIND: Final = Kind(EcsFargateConfig, "nemo_evaluator.sandbox.ecs_provider:EcsProvider")
