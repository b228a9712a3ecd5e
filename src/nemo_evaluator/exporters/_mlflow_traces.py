"""One MLflow trace per row: the sample as root, its conversation as children."""

import json
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters.base import ExportBundle, ExportError
from nemo_evaluator.runs.row import Row

# Traces are linked to their run in batches; by this tag they are found also when it did not come to that.
OWNER: Final = "nel.mlflow_run"
_NS_IN_MS: Final = 1_000_000
_LINK_BATCH: Final = 100
_PAGE: Final = 100


class TraceWriter:
    """Writes the rows of one bundle as traces of one MLflow run."""

    def __init__(self, client: Any, experiment: str, run_id: str, *, content_max: int) -> None:
        self._client = client
        self._experiment = experiment
        self._run_id = run_id
        self._limit = content_max

    def write(self, bundle: ExportBundle, *, limit: int | None = None) -> None:
        """All rows, or the first ``limit`` of them. Raises ExportError when MLflow has not kept them all."""
        rows = islice(bundle.rows(), limit)
        written = 0
        while ids := [self._trace(bundle, row) for row in islice(rows, _LINK_BATCH)]:
            # MLflow throws traces away when more than 1,000 pieces wait to be stored, and says so in a log only.
            import_module("mlflow").flush_trace_async_logging()
            self._client.link_traces_to_run(ids, self._run_id)
            written += len(ids)
        kept = self._count()
        if kept < written:
            raise ExportError(
                f"MLflow kept {kept} of {written} traces",
                hint="its log says why; then export again",
            )

    def _count(self) -> int:
        """The traces of the run that can be read back with their spans."""
        kept = 0
        token = None
        while True:
            found = self._client.search_traces(
                locations=[self._experiment],
                run_id=self._run_id,
                max_results=_PAGE,
                page_token=token,
            )
            kept = kept + sum(bool(trace.data.spans) for trace in found)
            token = found.token
            if not token:
                return kept

    def _trace(self, bundle: ExportBundle, row: Row) -> str:
        start = _start_ns(bundle)
        repeat = row.get("repeat") or 0
        root = self._client.start_trace(
            name=f"sample_{row.get('problem_idx')}" + (f".r{repeat}" if repeat else ""),
            span_type="AGENT",
            inputs={"prompt": self._cut(row.get("prompt"))},
            attributes=_attributes(bundle, row),
            tags={"nel.run_id": bundle.run_id, OWNER: self._run_id},
            experiment_id=self._experiment,
            start_time_ns=start,
        )
        end = self._children(root, row, start)
        failure = row.get("failure")
        self._client.end_trace(
            root.trace_id,
            outputs={
                "reward": row.get("reward"),
                "extracted_answer": self._cut(row.get("extracted_answer")),
                "response": self._cut(row.get("model_response")),
                **({"failure": failure} if failure else {}),
            },
            status="ERROR" if failure else "OK",
            end_time_ns=end,
        )
        return str(root.trace_id)

    def _children(self, root: Any, row: Row, start: int) -> int:
        """The spans of the conversation, one after another; returns when the last of them ended."""
        steps = row.steps
        if not any(step.get("source") == "agent" for step in steps):
            took = start + int((row.get("latency_ms") or 0) * _NS_IN_MS)
            question = {"prompt": self._cut(row.get("prompt"))}
            answer = {"response": self._cut(row.get("model_response"))}
            self._span(
                root,
                "model",
                "LLM",
                inputs=question,
                outputs=answer,
                start=start,
                end=took,
                facts=_usage(row),
            )
            return took
        now = start
        if steps[0].get("source") == "agent":
            question = {"message": self._cut(row.get("prompt"))}
            self._span(
                root,
                "user",
                "CHAIN",
                inputs=question,
                outputs=question,
                start=now,
                end=now,
                facts={},
            )
        for step in steps:
            now = self._step(root, step, now)
        return now

    def _step(self, root: Any, step: JsonDict, now: int) -> int:
        message = self._cut(step.get("message"))
        if step.get("source") != "agent":
            source = str(step.get("source"))
            self._span(
                root,
                source,
                "CHAIN",
                inputs={"message": message},
                outputs={"message": message},
                start=now,
                end=now,
                facts={},
            )
            return now
        metrics = step.get("metrics") or {}
        took = now + int(((metrics.get("extra") or {}).get("latency_ms") or 0) * _NS_IN_MS)
        calls = step.get("tool_calls") or []
        if calls:
            outputs: dict[str, str | Any | list[Any] | None] | dict[str, str | None] = {
                "message": message,
                "tool_calls": calls,
            }
        else:
            outputs = {"message": message}
        name = str(step.get("model_name") or "model")
        self._span(
            root,
            name,
            "LLM",
            inputs={},
            outputs=outputs,
            start=now,
            end=took,
            facts={f"nel.{k}": v for k, v in metrics.items() if k != "extra"},
        )
        results: dict[Any, Any] = {}
        for r in (step.get("observation") or {}).get("results") or []:
            results[r.get("source_call_id")] = r
        outcomes: dict[Any, Any] = {}
        for o in (step.get("extra") or {}).get("tool_outcomes") or []:
            outcomes[o.get("tool_call_id")] = o
        now = took
        for call in calls:
            outcome = outcomes.get(call.get("tool_call_id")) or {}
            end = now + int((outcome.get("latency_ms") or 0) * _NS_IN_MS)
            content = self._cut((results.get(call.get("tool_call_id")) or {}).get("content"))
            facts = {"nel.is_error": bool(outcome.get("is_error"))}
            tool = str(call.get("function_name") or "tool")
            self._span(
                root,
                tool,
                "TOOL",
                inputs=call.get("arguments"),
                outputs={"content": content},
                start=now,
                end=end,
                facts=facts,
            )
            now = end
        return now

    def _span(
        self,
        root: Any,
        name: str,
        kind: str,
        inputs: Any,
        outputs: Any,
        start: int,
        end: int,
        facts: JsonDict,
    ) -> None:
        span = self._client.start_span(
            name=name,
            trace_id=root.trace_id,
            parent_id=root.span_id,
            span_type=kind,
            inputs=inputs,
            attributes=facts,
            start_time_ns=start,
        )
        self._client.end_span(root.trace_id, span.span_id, outputs=outputs, end_time_ns=end)

    def _cut(self, value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, str):
            text = value
        else:
            text = json.dumps(value, default=str)
        if len(text) <= self._limit:
            return text
        return f"{text[: self._limit]}… ({len(text)} characters)"


def _usage(row: Row) -> JsonDict:
    names = ("prompt_tokens", "completion_tokens", "tokens", "latency_ms", "finish_reason")
    return {f"nel.{name}": row[name] for name in names if row.get(name) is not None}


def _attributes(bundle: ExportBundle, row: Row) -> JsonDict:
    metadata = row.get("metadata") or {}
    facts: JsonDict = {
        "nel.benchmark": bundle.name,
        "nel.model": bundle.model,
        "nel.problem_idx": row.get("problem_idx"),
        "nel.repeat": row.get("repeat") or 0,
        "nel.reward": row.get("reward"),
        "nel.status": row.get("status"),
        "nel.scoring_details": row.get("scoring_details"),
        **{
            f"nel.{key}": metadata.get(key)
            for key in ("task_id", "task_name", "category", "grading_type", "source")
        },
        **{
            f"nel.scorer.{name.removeprefix('scorer:')}": v
            for name, v in (row.get("scorer_rewards") or {}).items()
        },
    }
    return {key: value for key, value in facts.items() if value is not None}


def _start_ns(bundle: ExportBundle) -> int:
    """The run's own time: rows carry durations, not clock times, so each trace starts when the run is dated."""
    stamp = bundle.timestamp
    if stamp:
        return int(datetime.fromisoformat(stamp).timestamp() * 1e9)
    return 0
