"""Write one MLflow trace per row: the sample as the root span, its conversation as child spans."""

import json
from dataclasses import dataclass, field
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
_USAGE_FIELDS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "tokens",
    "latency_ms",
    "finish_reason",
)
_METADATA_FIELDS: Final = ("task_id", "task_name", "category", "grading_type", "source")


@dataclass(frozen=True, slots=True)
class _Span:
    """A child span of a row's trace: a message, a call of the model or a call of a tool."""

    name: str
    kind: str
    inputs: Any
    outputs: Any
    start_ns: int
    end_ns: int
    attributes: JsonDict = field(default_factory=dict)


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
        while True:
            trace_ids = [self._trace(bundle, row) for row in islice(rows, _LINK_BATCH)]
            if not trace_ids:
                break
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
            stored += sum(bool(trace.data.spans) for trace in page)
            token = page.token
            if not token:
                return stored

    def _trace(self, bundle: ExportBundle, row: Row) -> str:
        """Write one row with its conversation and return the id of the trace."""
        start_ns = _start_ns(bundle)
        root = self._client.start_trace(
            name=_trace_name(row),
            span_type="AGENT",
            inputs={"prompt": self._cut(row.get("prompt"))},
            attributes=_attributes(bundle, row),
            tags={"nel.run_id": bundle.run_id, OWNER: self._run_id},
            experiment_id=self._experiment,
            start_time_ns=start_ns,
        )
        end_ns = self._children(root, row, start_ns)
        outputs = {
            "reward": row.get("reward"),
            "extracted_answer": self._cut(row.get("extracted_answer")),
            "response": self._cut(row.get("model_response")),
        }
        failure = row.get("failure")
        if failure:
            outputs["failure"] = failure
        self._client.end_trace(
            root.trace_id,
            outputs=outputs,
            status="ERROR" if failure else "OK",
            end_time_ns=end_ns,
        )
        return str(root.trace_id)

    def _children(self, root: Any, row: Row, start_ns: int) -> int:
        """Write the conversation as consecutive spans and return when the last one ends, in nanoseconds."""
        steps = row.steps
        if not any(step.get("source") == "agent" for step in steps):
            return self._single_call(root, row, start_ns)
        if steps[0].get("source") == "agent":
            self._message(root, "user", self._cut(row.get("prompt")), start_ns)
        clock_ns = start_ns
        for step in steps:
            clock_ns = self._step(root, step, clock_ns)
        return clock_ns

    def _single_call(self, root: Any, row: Row, start_ns: int) -> int:
        """Write a row without a conversation as one call of the model and return when it ends."""
        end_ns = start_ns + _nanoseconds(row.get("latency_ms"))
        span = _Span(
            name="model",
            kind="LLM",
            inputs={"prompt": self._cut(row.get("prompt"))},
            outputs={"response": self._cut(row.get("model_response"))},
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=_usage(row),
        )
        self._write_span(root, span)
        return end_ns

    def _step(self, root: Any, step: JsonDict, start_ns: int) -> int:
        """Write one step and the tool calls it makes, and return when the last of them ends."""
        message = self._cut(step.get("message"))
        if step.get("source") != "agent":
            self._message(root, str(step.get("source")), message, start_ns)
            return start_ns
        calls = step.get("tool_calls") or []
        outputs: JsonDict = {"message": message}
        if calls:
            outputs["tool_calls"] = calls
        metrics = step.get("metrics") or {}
        attributes: JsonDict = {}
        for name, value in metrics.items():
            if name != "extra":
                attributes[f"nel.{name}"] = value
        model_end_ns = start_ns + _nanoseconds((metrics.get("extra") or {}).get("latency_ms"))
        span = _Span(
            name=str(step.get("model_name") or "model"),
            kind="LLM",
            inputs={},
            outputs=outputs,
            start_ns=start_ns,
            end_ns=model_end_ns,
            attributes=attributes,
        )
        self._write_span(root, span)
        return self._tool_calls(root, step, calls, model_end_ns)

    def _tool_calls(self, root: Any, step: JsonDict, calls: list[JsonDict], start_ns: int) -> int:
        """Write the tool calls of a step one after another and return when the last of them ends."""
        results = (step.get("observation") or {}).get("results") or []
        outcomes = (step.get("extra") or {}).get("tool_outcomes") or []
        results_by_call = {result.get("source_call_id"): result for result in results}
        outcomes_by_call = {outcome.get("tool_call_id"): outcome for outcome in outcomes}
        clock_ns = start_ns
        for call in calls:
            call_id = call.get("tool_call_id")
            result = results_by_call.get(call_id) or {}
            outcome = outcomes_by_call.get(call_id) or {}
            end_ns = clock_ns + _nanoseconds(outcome.get("latency_ms"))
            span = _Span(
                name=str(call.get("function_name") or "tool"),
                kind="TOOL",
                inputs=call.get("arguments"),
                outputs={"content": self._cut(result.get("content"))},
                start_ns=clock_ns,
                end_ns=end_ns,
                attributes={"nel.is_error": bool(outcome.get("is_error"))},
            )
            self._write_span(root, span)
            clock_ns = end_ns
        return clock_ns

    def _message(self, root: Any, source: str, message: str | None, at_ns: int) -> None:
        """Write a message that is not the model's as a span without duration."""
        content = {"message": message}
        span = _Span(
            name=source, kind="CHAIN", inputs=content, outputs=content, start_ns=at_ns, end_ns=at_ns
        )
        self._write_span(root, span)

    def _write_span(self, root: Any, span: _Span) -> None:
        """Write a child span of the root."""
        started = self._client.start_span(
            name=span.name,
            trace_id=root.trace_id,
            parent_id=root.span_id,
            span_type=span.kind,
            inputs=span.inputs,
            attributes=span.attributes,
            start_time_ns=span.start_ns,
        )
        self._client.end_span(
            root.trace_id, started.span_id, outputs=span.outputs, end_time_ns=span.end_ns
        )

    def _cut(self, value: Any) -> str | None:
        """Return a value as text, cut to the limit with a note of its full length."""
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        if len(text) <= self._limit:
            return text
        return f"{text[: self._limit]}… ({len(text)} characters)"


def _trace_name(row: Row) -> str:
    """Return the name of a row's trace; answers after the first have the number of the repeat."""
    name = f"sample_{row.get('problem_idx')}"
    repeat = row.get("repeat") or 0
    return f"{name}.r{repeat}" if repeat else name


def _nanoseconds(milliseconds: float | None) -> int:
    """Return a duration in nanoseconds; an unknown one is 0."""
    return int((milliseconds or 0) * _NS_IN_MS)


def _usage(row: Row) -> JsonDict:
    """Return the tokens, the latency and the finish reason of a row's answer, as far as they are known."""
    usage: JsonDict = {}
    for name in _USAGE_FIELDS:
        if row.get(name) is not None:
            usage[f"nel.{name}"] = row[name]
    return usage


def _attributes(bundle: ExportBundle, row: Row) -> JsonDict:
    """Return the facts about a row that MLflow shows as attributes of its root span."""
    attributes: JsonDict = {
        "nel.benchmark": bundle.name,
        "nel.model": bundle.model,
        "nel.problem_idx": row.get("problem_idx"),
        "nel.repeat": row.get("repeat") or 0,
        "nel.reward": row.get("reward"),
        "nel.status": row.get("status"),
        "nel.scoring_details": row.get("scoring_details"),
    }
    metadata = row.get("metadata") or {}
    for name in _METADATA_FIELDS:
        attributes[f"nel.{name}"] = metadata.get(name)
    for name, reward in (row.get("scorer_rewards") or {}).items():
        attributes[f"nel.scorer.{name.removeprefix('scorer:')}"] = reward
    return {name: value for name, value in attributes.items() if value is not None}


def _start_ns(bundle: ExportBundle) -> int:
    """Return the timestamp of the bundle in nanoseconds, or 0 when it has none.

    Every trace starts at that time, because rows have durations but no clock times.
    """
    stamp = bundle.timestamp
    if stamp:
        return int(datetime.fromisoformat(stamp).timestamp() * 1e9)
    return 0
