"""Scorers, pure and executed, and judges. Names resolve on first use, so importing the room costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nemo_evaluator.scoring._reply import FENCE_NOTE, fenced, judge_grade, judge_reply, object_schema
    from nemo_evaluator.scoring._text import normalise, readable, strip_reasoning
    from nemo_evaluator.scoring.agreement import krippendorff_alpha
    from nemo_evaluator.scoring.canary import Canary
    from nemo_evaluator.scoring.choice import extract_mcq_letter, mcq_extract, multichoice_regex
    from nemo_evaluator.scoring.code import code_sandbox, code_sandbox_async, extract_code
    from nemo_evaluator.scoring.json import extract_json, json_schema, validate_json_schema
    from nemo_evaluator.scoring.judge import JudgedEnvironment
    from nemo_evaluator.scoring.line import answer_line
    from nemo_evaluator.scoring.metric import Metric, MetricInput, MetricResult
    from nemo_evaluator.scoring.number import extract_number, numeric_match, parse_number
    from nemo_evaluator.scoring.registry import get_scorer, list_scorers, reward_of, run_scorer
    from nemo_evaluator.scoring.symbolic import math
    from nemo_evaluator.scoring.text import exact_match, f1, fuzzy_match, needs_judge, token_f1
    from nemo_evaluator.scoring.types import Score, Scorer, ScorerInput, found, scorer_version, versioned

_HOMES: Final = {
    "FENCE_NOTE": "_reply",
    "fenced": "_reply",
    "judge_grade": "_reply",
    "judge_reply": "_reply",
    "object_schema": "_reply",
    "Canary": "canary",
    "normalise": "_text",
    "readable": "_text",
    "strip_reasoning": "_text",
    "extract_mcq_letter": "choice",
    "mcq_extract": "choice",
    "multichoice_regex": "choice",
    "code_sandbox": "code",
    "code_sandbox_async": "code",
    "extract_code": "code",
    "extract_json": "json",
    "json_schema": "json",
    "validate_json_schema": "json",
    "krippendorff_alpha": "agreement",
    "JudgedEnvironment": "judge",
    "Metric": "metric",
    "MetricInput": "metric",
    "MetricResult": "metric",
    "answer_line": "line",
    "extract_number": "number",
    "numeric_match": "number",
    "parse_number": "number",
    "get_scorer": "registry",
    "list_scorers": "registry",
    "reward_of": "registry",
    "run_scorer": "registry",
    "math": "symbolic",
    "exact_match": "text",
    "f1": "text",
    "fuzzy_match": "text",
    "needs_judge": "text",
    "token_f1": "text",
    "Score": "types",
    "Scorer": "types",
    "ScorerInput": "types",
    "found": "types",
    "scorer_version": "types",
    "versioned": "types",
}

__all__ = [
    "FENCE_NOTE",
    "Canary",
    "JudgedEnvironment",
    "Metric",
    "MetricInput",
    "MetricResult",
    "Score",
    "Scorer",
    "ScorerInput",
    "answer_line",
    "code_sandbox",
    "code_sandbox_async",
    "exact_match",
    "extract_code",
    "extract_json",
    "extract_mcq_letter",
    "extract_number",
    "f1",
    "fenced",
    "found",
    "fuzzy_match",
    "get_scorer",
    "json_schema",
    "judge_grade",
    "judge_reply",
    "krippendorff_alpha",
    "list_scorers",
    "math",
    "mcq_extract",
    "multichoice_regex",
    "needs_judge",
    "normalise",
    "numeric_match",
    "object_schema",
    "parse_number",
    "readable",
    "reward_of",
    "run_scorer",
    "scorer_version",
    "strip_reasoning",
    "token_f1",
    "validate_json_schema",
    "versioned",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
