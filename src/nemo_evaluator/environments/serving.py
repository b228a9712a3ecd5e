"""The HTTP application of ``nel serve``: a benchmark for ``gym://`` and for NeMo Gym's own agents."""

from __future__ import annotations

import hmac
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from nemo_evaluator.adapters.asgi import Receive, Respond, Scope, read_body, token_of
from nemo_evaluator.core.errors import BoundaryError, RequestRejectedError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.schemes.gym_wire import assistant_text, seed_json
from nemo_evaluator.models.images import image_url

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.manager import SandboxManager

_NOT_STORED: Final = ("responses_create_params", "response")
_NO_ROUTE: Final = (
    "no such route; there are GET /health, GET /dataset_size, POST /seed_session, POST /verify"
)


class ServedBenchmark:
    """An ASGI application with the routes GET /health, GET /dataset_size, POST /seed_session and POST /verify.

    All routes except /health require the token.

    Args:
        environment: The benchmark.
        size: The number of problems to serve.
        token: The bearer token; None to accept every request.
        protocol: The protocol that /health reports.
        sandboxes: The sandboxes for verification, if the benchmark needs them.
    """

    def __init__(
        self,
        environment: EvalEnvironment,
        size: int,
        *,
        token: Secret | None,
        protocol: str = "evaluator",
        sandboxes: SandboxManager | None = None,
    ) -> None:
        self._environment = environment
        self._size = size
        self._sandboxes = sandboxes
        self._token = token
        self._protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        """Respond to an HTTP request with JSON."""
        if scope["type"] != "http":
            return
        status, reply = await self._answer(scope, receive)
        try:
            body = orjson.dumps(reply, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
        except TypeError as error:
            status = 500
            body = orjson.dumps(
                {"error": f"the benchmark gave something that is not JSON: {error}"}
            )
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await respond({"type": "http.response.start", "status": status, "headers": headers})
        await respond({"type": "http.response.body", "body": body, "more_body": False})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, JsonDict]:
        """Route a request and return the status and the body of the response."""
        method = scope["method"]
        path = scope["path"].rstrip("/")
        if (method, path) == ("GET", "/health"):
            return 200, self._health()
        if not self._is_authorized(scope):
            return 401, {
                "error": "the token is missing or wrong: send it as `Authorization: Bearer TOKEN`"
            }
        if (method, path) == ("GET", "/dataset_size"):
            return 200, {"size": self._size}
        if method != "POST" or path not in ("/seed_session", "/verify"):
            return 404, {"error": _NO_ROUTE}
        raw_body = await read_body(receive)
        if raw_body is None:
            return 400, {"error": "the body is too large"}
        try:
            body = orjson.loads(raw_body or b"{}")
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            return 400, {"error": "the body is not a JSON object"}
        try:
            if path == "/verify":
                return 200, await self._verify(body)
            return 200, await self._seed_session(body)
        except RequestRejectedError as error:
            return 400, {"error": error.message}
        except BoundaryError as error:
            return 500, {"error": scrub(error.message), "cause": str(error.cause)}

    def _health(self) -> JsonDict:
        return {
            "status": "ok",
            "benchmark": self._environment.name,
            "dataset_size": self._size,
            "protocol": self._protocol,
        }

    def _is_authorized(self, scope: Scope) -> bool:
        """Whether a request has the token, if one is required."""
        if self._token is None:
            return True
        request_token = token_of(scope["headers"])
        return hmac.compare_digest(request_token.encode(), self._token.reveal().encode())

    async def _seed_session(self, body: JsonDict) -> JsonDict:
        """Return the problem that the body of a /seed_session request names."""
        if "idx" not in body and "responses_create_params" in body:
            # A NeMo Gym agent starts a rollout; it has the row already.
            return {}
        return seed_json(_sendable(await self._seed(body.get("idx", 0))))

    async def _verify(self, body: JsonDict) -> JsonDict:
        """Score the answer in the body of a /verify request.

        Raises:
            RequestRejectedError: The body has no response, or does not match the problem.
        """
        if "response" not in body:
            raise RequestRejectedError("the body has no 'response'")
        is_evaluator_protocol = "expected" in body
        response = assistant_text(body["response"])
        answer_key = "expected" if is_evaluator_protocol else "expected_answer"
        expected = str(body.get(answer_key, ""))
        seed = await self._seed_to_verify(body, expected)
        verdict = await self._verdict(response, seed)
        verdict_fields: JsonDict = {
            "reward": verdict.reward,
            "extracted_answer": verdict.extracted_answer,
            "scoring_details": verdict.scoring_details,
        }
        if is_evaluator_protocol:
            return verdict_fields | {"metadata": verdict.metadata}
        request_fields = {key: value for key, value in body.items() if key != "metadata"}
        return {**request_fields, "expected_answer": expected, **verdict_fields}

    async def _seed_to_verify(self, body: JsonDict, expected: str) -> SeedResult:
        """Return the problem of a /verify request: by its number, else from the fields of the body.

        Raises:
            RequestRejectedError: The problem has another expected answer.
        """
        if "idx" in body:
            seed = await self._seed(body["idx"])
            if seed.expected_answer != expected:
                raise RequestRejectedError(
                    f"problem {body['idx']} has another expected answer here"
                )
            return seed
        params = body.get("responses_create_params") or {}
        metadata = body.get("metadata")
        if metadata is None:
            metadata = {key: value for key, value in body.items() if key not in _NOT_STORED}
        return SeedResult(str(params.get("input", "")), expected, metadata)

    async def _verdict(self, response: str, seed: SeedResult) -> VerifyResult:
        """Score an answer, in a sandbox if the benchmark has any."""
        async with AsyncExitStack() as stack:
            with boundary(Cause.SCORER):
                sandbox = None
                if self._sandboxes is not None:
                    session = await stack.enter_async_context(self._sandboxes.session(seed))
                    sandbox = await session.for_verify()
                return await self._environment.verify_answer(response, seed, sandbox)

    async def _seed(self, idx: Any) -> SeedResult:
        """Return a problem; raise RequestRejectedError for an invalid number."""
        if isinstance(idx, bool) or not isinstance(idx, int) or not 0 <= idx < self._size:
            raise RequestRejectedError(f"idx {idx!r} is not a number from 0 to {self._size - 1}")
        with boundary(Cause.SEED):
            return await self._environment.seed(idx)


async def export_rows(environment: EvalEnvironment, size: int, folder: Path) -> Path:
    """Write all problems as rows of a NeMo Gym data file.

    Args:
        environment: The benchmark.
        size: The number of problems to write.
        folder: The folder for the file; created if missing.

    Returns:
        The path of the file, ``<folder>/<name>.jsonl``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{safe_name(environment.name)}.jsonl"
    with path.open("wb") as file:
        for idx in range(size):
            with boundary(Cause.SEED):
                seed = _sendable(await environment.seed(idx))
            request_params = {"input": seed.messages or seed.plain_messages}
            row = {
                "responses_create_params": request_params,
                "expected_answer": seed.expected_answer,
            }
            row |= {"uuid": f"{environment.name}-{idx}", "metadata": seed.metadata}
            file.write(
                orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
                + b"\n"
            )
    return path


def _sendable(seed: SeedResult) -> SeedResult:
    """Replace local images of a problem by URLs that can be sent."""
    if seed.images:
        seed.images = [image_url(image) for image in seed.images]
    return seed
