"""NeMo Gym's own servers (mcqa, simple_agent, vllm_model, head), run with its Python: ``PORT MODEL_URL MODEL [MCQA]``.

``ng_run`` starts each of them in an environment and a Ray of its own; this is the same code in one process. With
``MCQA``, a URL, the agent asks that resources server instead, which may be ``nel serve``.
"""

import asyncio
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from nemo_gym.server_utils import BaseServerConfig, HeadServer, ServerClient
from omegaconf import OmegaConf
from resources_servers.mcqa.app import MCQAResourcesServer, MCQAResourcesServerConfig
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

first, model_url, model = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ports = {
    "head": first,
    "mcqa": first + 1,
    "mcqa_simple_agent": first + 2,
    "policy_model": first + 3,
}
kinds = {
    "mcqa": "resources_servers",
    "mcqa_simple_agent": "responses_api_agents",
    "policy_model": "responses_api_models",
}
if len(sys.argv) > 4:
    ports["mcqa"] = urlsplit(sys.argv[4]).port or 0
names = {"mcqa": "mcqa", "mcqa_simple_agent": "simple_agent", "policy_model": "vllm_model"}
config = OmegaConf.create(
    {
        name: {kind: {names[name]: {"host": "127.0.0.1", "port": ports[name]}}}
        for name, kind in kinds.items()
    }
    | {"head_server": {"host": "127.0.0.1", "port": first}}
)
os.environ["NEMO_GYM_CONFIG_DICT"] = OmegaConf.to_yaml(config)
client = ServerClient(
    head_server_config=BaseServerConfig(host="127.0.0.1", port=first), global_config_dict=config
)


def place(name: str) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": ports[name],
        "entrypoint": "app.py",
        "name": name,
        "domain": "knowledge",
    }


resources = MCQAResourcesServer(
    config=MCQAResourcesServerConfig(**place("mcqa")), server_client=client
)
agent = SimpleAgent(
    config=SimpleAgentConfig(
        **place("mcqa_simple_agent"),
        resources_server={"type": "resources_servers", "name": "mcqa"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    ),
    server_client=client,
)
policy = VLLMModel(
    config=VLLMModelConfig(
        **place("policy_model"),
        base_url=model_url,
        api_key="dummy",
        model=model,
        return_token_id_information=False,
        uses_reasoning_parser=False,
    ),
    server_client=client,
)
head = HeadServer(config=BaseServerConfig(host="127.0.0.1", port=first))
head.set_server_instances(
    [
        {
            "process_name": name,
            "server_type": kind,
            "host": "127.0.0.1",
            "port": ports[name],
            "name": names[name],
        }
        for name, kind in kinds.items()
    ]
)


async def main() -> None:
    apps = {"head": head, "mcqa_simple_agent": agent, "policy_model": policy}
    if len(sys.argv) <= 4:
        apps["mcqa"] = resources
    servers = []
    for name, server in apps.items():
        app = server.setup_webserver()
        if name != "head":
            server.setup_exception_middleware(app)
        servers.append(
            uvicorn.Server(
                uvicorn.Config(app, host="127.0.0.1", port=ports[name], log_level="warning")
            )
        )
    await asyncio.gather(*(server.serve() for server in servers))


asyncio.run(main())
