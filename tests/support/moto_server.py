"""AWS on loopback: a moto server with a cluster, a subnet and a key, for sandboxes that are Fargate tasks."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from nemo_evaluator.sandbox.ecs_provider import aws_client

REGION = "us-east-1"


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """A moto server on loopback, with a cluster and a subnet; the subnet's id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(zip(names, (f"http://127.0.0.1:{port}", "x", "y", REGION), strict=True))
    code = "from moto.server import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 180
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.1)
        # A task of moto moves on with every question about it; ours shall run until it is stopped.
        rule = {"model_name": "ecs::task", "transition": {"progression": "manual", "times": 10_000}}
        url = f"http://127.0.0.1:{port}/moto-api/state-manager/set-transition"
        with urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(rule).encode())
        ) as answer:
            assert answer.status in (200, 201)
        ec2 = aws_client("ec2", REGION)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        aws_client("ecs", REGION).create_cluster(clusterName="boxes")
        aws_client("secretsmanager", REGION).create_secret(Name="private", SecretString="KEY")
        yield subnet
    finally:
        server.kill()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
