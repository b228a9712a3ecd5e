"""A gate's decision as JUnit XML: a test case per benchmark, in the form that CI systems show."""

from __future__ import annotations

from xml.etree import ElementTree

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, GateVerdict, Status
from nemo_evaluator.reports.gate import limits, points


def gate_junit(report: GateReport) -> str:
    """What was proved bad is a failure; what could not be proved, as far as the verdict hangs on it, is an error."""
    suite = ElementTree.Element("testsuite", name=f"nel gate: {harmless(report.candidate)}")
    for entry in report.benchmarks:
        case = ElementTree.SubElement(suite, "testcase", classname="nel.gate", name=harmless(entry.benchmark))
        if entry.status is not Status.PASS:
            kind = "failure" if entry.status in (Status.BREACH, Status.MISSING) else "error"
            ElementTree.SubElement(case, kind, message=_message(entry)).text = harmless("\n".join(entry.reasons))
    whole = ElementTree.SubElement(suite, "testcase", classname="nel.gate", name="verdict")
    if report.verdict is not GateVerdict.GO:
        kind = "failure" if report.verdict is GateVerdict.NO_GO else "error"
        ElementTree.SubElement(whole, kind, message=str(report.verdict)).text = harmless("\n".join(report.reasons))
    suite.set("tests", str(len(report.benchmarks) + 1))
    for kind in ("failure", "error"):
        suite.set(f"{kind}s", str(len(suite.findall(f"testcase/{kind}"))))
    ElementTree.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suite, encoding='unicode')}\n"


def _message(entry: BenchmarkGate) -> str:
    return harmless(f"{entry.status}: {points(entry)}, limit {limits(entry)}")
