"""Instruction templates: a text around every problem, which reaches the model."""

from dataclasses import replace
from importlib import resources
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import find_file
from nemo_evaluator.core.types import Message, SeedResult

_OFF: Final = {"", "off", "none"}
_DEFAULT_WORKDIR: Final = "/testbed"


def load_template(name: str | None) -> str | None:
    """The text of a template: the name of a packaged one, or a path. None, "off" and "none" mean no template."""
    if name is None or name.lower() in _OFF:
        return None
    packaged = resources.files("nemo_evaluator") / "templates" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    try:
        return find_file(name).read_text(encoding="utf-8")
    except UsageError as error:
        said = f"instruction_template {name!r} does not exist"
        raise UsageError(said, hint=f"give a path, or `off`; {error.hint}") from None


class InstructionTemplate:
    """A compiled template."""

    def __init__(self, text: str) -> None:
        self.text = text
        from nemo_evaluator.engine import _template_sandbox  # noqa: PLC0415 - Jinja; most runs have no template

        self._render = _template_sandbox.renderer(text)

    def apply(self, seed: SeedResult) -> SeedResult:
        """The problem with its prompt, and the last user message that carries it, replaced."""
        if seed.sandbox_spec:
            workdir = seed.sandbox_spec.workdir
        else:
            workdir = _DEFAULT_WORKDIR
        prompt = self._render(
            **seed.metadata
            | {
                "workspace_path": workdir,
                "original_prompt": seed.prompt,
                "instance": seed.metadata | {"problem_statement": seed.prompt},
            }
        ).strip()
        if seed.messages is None:
            messages: list[Message] | None = None
        else:
            messages = _replace_last_user(seed.messages, prompt)
        return replace(seed, prompt=prompt, messages=messages)


def _replace_last_user(messages: list[Message], prompt: str) -> list[Message]:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].get("role") == "user":
            content = messages[at].get("content")
            new: object = prompt
            if isinstance(content, list):
                new = [
                    *(part for part in content if part.get("type") != "text"),
                    {"type": "text", "text": prompt},
                ]
            return [*messages[:at], messages[at] | {"content": new}, *messages[at + 1 :]]
    return [*messages, {"role": "user", "content": prompt}]
