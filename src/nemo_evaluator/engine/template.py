"""Instruction templates: text that is put around every problem before the model gets it."""

from dataclasses import replace
from importlib import resources
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import find_file
from nemo_evaluator.core.types import Message, SeedResult

_OFF: Final = {"", "off", "none"}
_DEFAULT_WORKDIR: Final = "/testbed"


def load_template(name: str | None) -> str | None:
    """Return the text of a template, or None if there is none.

    Args:
        name: The name of a packaged template, or a path; None, "", "off" and "none" mean no template.

    Raises:
        UsageError: If the file does not exist.
    """
    if name is None or name.lower() in _OFF:
        return None
    packaged = resources.files("nemo_evaluator") / "templates" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    try:
        return find_file(name).read_text(encoding="utf-8")
    except UsageError as error:
        message = f"instruction_template {name!r} does not exist"
        raise UsageError(message, hint=f"give a path, or `off`; {error.hint}") from None


class InstructionTemplate:
    """A compiled template that is applied to each problem."""

    def __init__(self, text: str) -> None:
        self.text = text
        from nemo_evaluator.engine import _template_sandbox  # noqa: PLC0415 - Jinja; most runs have no template

        self._render = _template_sandbox.renderer(text)

    def apply(self, seed: SeedResult) -> SeedResult:
        """Return the problem with its prompt rendered from the template.

        The new prompt also replaces the text of the last user message, if the problem has messages.
        """
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
    """Return the messages with the text of the last user message replaced; append a message if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            content = messages[index].get("content")
            new_content: object = prompt
            if isinstance(content, list):
                new_content = [
                    *(part for part in content if part.get("type") != "text"),
                    {"type": "text", "text": prompt},
                ]
            return [
                *messages[:index],
                messages[index] | {"content": new_content},
                *messages[index + 1 :],
            ]
    return [*messages, {"role": "user", "content": prompt}]
