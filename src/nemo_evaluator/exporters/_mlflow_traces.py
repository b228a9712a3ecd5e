"""Write one MLflow trace per row: the sample as the root span, its conversation as child spans."""

import json
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters.base import ExportBundle, ExportError
from nemo_evaluator.runs.row import Row

# Traces are linked to their run in batches; this tag finds those of an export that broke off before linking.
OWNER: Final = "nel.mlflow_run"
_NS_IN_MS: Final = 1_000_000
_LINK_BATCH: Final = 100
_PAGE: Final = 100


class TraceWriter:
    """Writes the rows of one bundle as traces of one MLflow run."""

    def __init__(self, client: Any, experiment: str, run_id: str, *, content_max: int) -> None:
        """Create a writer; nothing is sent yet.

        Args:
            client: An ``mlflow.MlflowClient``.
            experiment: The id of the experiment.
            run_id: The id of the MLflow run.
            content_max: The longest text to send, in characters.
        """
        self._client = client
        self._experiment = experiment
        self._run_id = run_id
        self._limit = content_max

    def write(self, bundle: ExportBundle, *, limit: int | None = None) -> None:
        """Write the rows, then check that MLflow has stored them.

        Args:
            bundle: The finished benchmark.
            limit: How many rows to write; None for all.

        Raises:
            ExportError: MLflow has stored fewer traces than were written.
        """
        rows = islice(bundle.rows(), limit)
        written = 0
        while trace_ids := [self._trace(bundle, row) for row in islice(rows, _LINK_BATCH)]:
            # MLflow drops traces when more than 1,000 items wait to be stored, and reports that only in its log.
            import_module("mlflow").flush_trace_async_logging()
            self._client.link_traces_to_run(trace_ids, self._run_id)
            written += len(trace_ids)
        stored = self._count()
        if stored < written:
            raise ExportError(
                f"MLflow kept {stored} of {written} traces",
                hint="its log says why; then export again",
            )

    def _count(self) -> int:
        """Count the traces of the run that MLflow returns with their spans."""
        stored = 0
        token = None
        while True:
            page = self._client.search_traces(
                locations=[self._experiment],
                run_id=self._run_id,
                max_results=_PAGE,
                page_token=token,
            )
            stored = stored + sum(bool(trace.data.spans) for trace in page)
            token = page.token
            if not token:
                return stored

    def _trace(self, bundle: ExportBundle, row: Row) -> str:
        """Write one row with its conversation and return the id of the trace."""
        start_ns = _start_ns(bundle)
        repeat = row.get("repeat") or 0
        root = self._client.start_trace(
            name=f"sample_{row.get('problem_idx')}" + (f".r{repeat}" if repeat else ""),
            span_type="AGENT",
            inputs={"prompt": self._cut(row.get("prompt"))},
            attributes=_attributes(bundle, row),
            tags={"nel.run_id": bundle.run_id, OWNER: self._run_id},
            experiment_id=self._experiment,
            start_time_ns=start_ns,
        )
        end_ns = self._children(root, row, start_ns)
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
            end_time_ns=end_ns,
        )
        return str(root.trace_id)

    def _children(self, root: Any, row: Row, start: int) -> int:
        """Write the conversation as consecutive spans and return when the last one ends, in nanoseconds."""
        steps = row.steps
        if not any(step.get("source") == "agent" for step in steps):
            end_ns = start + int((row.get("latency_ms") or 0) * _NS_IN_MS)
            question = {"prompt": self._cut(row.get("prompt"))}
            answer = {"response": self._cut(row.get("model_response"))}
            self._span(
                root,
                "model",
                "LLM",
                inputs=question,
                outputs=answer,
                start=start,
                end=end_ns,
                facts=_usage(row),
            )
            return end_ns
        clock_ns = start
        if steps[0].get("source") == "agent":
            question = {"message": self._cut(row.get("prompt"))}
            self._span(
                root,
                "user",
                "CHAIN",
                inputs=question,
                outputs=question,
                start=clock_ns,
                end=clock_ns,
                facts={},
            )
        for step in steps:
            clock_ns = self._step(root, step, clock_ns)
        return clock_ns

    def _step(self, root: Any, step: JsonDict, now: int) -> int:
        """Write one step and the tool calls it makes, starting at ``now``, and return when the last of them ends."""
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
        model_end_ns = now + int(((metrics.get("extra") or {}).get("latency_ms") or 0) * _NS_IN_MS)
        calls = step.get("tool_calls") or []
        if calls:
            outputs: dict[str, str | Any | list[Any] | None] | dict[str, str | None] = {
                "message": message,
                "tool_calls": calls,
            }
        else:
            outputs = {"message": message}
        model_name = str(step.get("model_name") or "model")
        self._span(
            root,
            model_name,
            "LLM",
            inputs={},
            outputs=outputs,
            start=now,
            end=model_end_ns,
            facts={
                f"nel.{metric_name}": metric_value
                for metric_name, metric_value in metrics.items()
                if metric_name != "extra"
            },
        )
        results_by_call: dict[Any, Any] = {}
        for tool_result in (step.get("observation") or {}).get("results") or []:
            results_by_call[tool_result.get("source_call_id")] = tool_result
        outcomes_by_call: dict[Any, Any] = {}
        for tool_outcome in (step.get("extra") or {}).get("tool_outcomes") or []:
            outcomes_by_call[tool_outcome.get("tool_call_id")] = tool_outcome
        now = model_end_ns
        for call in calls:
            outcome = outcomes_by_call.get(call.get("tool_call_id")) or {}
            call_end_ns = now + int((outcome.get("latency_ms") or 0) * _NS_IN_MS)
            content = self._cut(
                (results_by_call.get(call.get("tool_call_id")) or {}).get("content")
            )
            facts = {"nel.is_error": bool(outcome.get("is_error"))}
            tool = str(call.get("function_name") or "tool")
            self._span(
                root,
                tool,
                "TOOL",
                inputs=call.get("arguments"),
                outputs={"content": content},
                start=now,
                end=call_end_ns,
                facts=facts,
            )
            now = call_end_ns
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
        """Write one child span of the root."""
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
        """Return a value as text, cut to the limit with a note of its full length."""
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
    """Return the facts about a row that MLflow shows as attributes of its root span."""
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
            f"nel.scorer.{name.removeprefix('scorer:')}": reward
            for name, reward in (row.get("scorer_rewards") or {}).items()
        },
    }
    return {key: value for key, value in facts.items() if value is not None}


def _start_ns(bundle: ExportBundle) -> int:
    """Return the timestamp of the bundle in nanoseconds, or 0 when it has none.

    Every trace starts at that time, because rows have durations but no clock times.
    """
    stamp = bundle.timestamp
    if stamp:
        return int(datetime.fromisoformat(stamp).timestamp() * 1e9)
    return 0
