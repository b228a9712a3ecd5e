"""Errors as people see them on a terminal: what is wrong, where, and how to mend it. Never a traceback."""

from nemo_evaluator.core.errors import ConfigError, NelError, Problem
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.wording import counted


def render_error(error: NelError) -> str:
    """The text of an error, several lines when it holds several problems."""
    if isinstance(error, ConfigError) and error.problems:
        return scrub(_config_error(error))
    lines = [f"error: {error.message}"]
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return scrub("\n".join(lines))


def _config_error(error: ConfigError) -> str:
    where = f" in {error.source}" if error.source else ""
    lines = [f"error: {counted(len(error.problems), 'problem')}{where}"]
    for problem in error.problems:
        lines.append("")
        lines.append(f"  {problem_place(problem, error.source)}: {problem.message}")
        if problem.hint:
            lines.append(f"    hint: {problem.hint}")
    return "\n".join(lines)


def problem_place(problem: Problem, source: str | None = None) -> str:
    """``file:line: path`` as far as it is known."""
    file = problem.source or source
    if file is None or problem.path.startswith("-O"):
        return problem.path
    if file.startswith("-O"):
        return f"{problem.path} (from {file})"
    return f"{file}:{problem.line}: {problem.path}" if problem.line is not None else f"{file}: {problem.path}"
