"""Secrets that tests plant in all places where people put them, and the search for them afterwards."""

from __future__ import annotations

import base64
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from nemo_evaluator.testing import Say

# In every planted value, so that process lists are searched for all of them at once.
OWN = f"{os.getpid():07d}"
INPUTS = ("c.yaml", ".env", "bench.py", "needs.env")


class Plants:
    """Makes secrets and remembers where each of them was planted."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def word(self, place: str) -> str:
        """A secret that has words in it."""
        self.values[place] = f"planted-{OWN}-{len(self.values):02d}-value"
        return self.values[place]

    def phrase(self, place: str) -> str:
        """A secret with spaces in it."""
        self.values[place] = self.word(place).replace("-", " ")
        return self.values[place]

    def random(self, place: str) -> str:
        """A secret that its name does not tell: random text alone."""
        self.values[place] = f"{OWN}{secrets.token_hex(10)}"
        return self.values[place]

    def leaks(self, data: bytes) -> list[str]:
        """The places whose secrets stand in some bytes, in whatever form."""
        return [
            place
            for place, value in self.values.items()
            if any(form in data for form in _forms(value))
        ]


def _forms(value: str) -> list[bytes]:
    encoded = base64.b64encode(value.encode())
    forms = [
        value.encode(),
        quote(value, safe="").encode(),
        json.dumps(value)[1:-1].encode(),
        encoded.rstrip(b"="),
    ]
    return [*forms, base64.b64encode(b"me:" + value.encode())[4:20]]


def echoes(values: list[str]) -> list[Say]:
    """Answers and errors in which a server says back what it was sent."""
    says: list[Say] = []
    for number, value in enumerate(values):
        forms = (
            value,
            json.dumps({"headers": {"x": value}}),
            base64.b64encode(f"me:{value}".encode()).decode(),
        )
        says.append(
            Say(f"you sent {forms[number % 3]} and {quote(value)}", reasoning=f"hm, {value}")
        )
        if number % 5 == 0:
            says.append(Say(status=400, message=f"bad request with {value}"))
    return [*says, Say("4")]


def files_with_secrets(folder: Path, plants: Plants) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        leaks = plants.leaks(str(path.relative_to(folder)).encode())
        if path.name not in INPUTS:
            # While a run goes on, files come and go.
            with suppress(OSError):
                leaks += plants.leaks(path.read_bytes())
        found += [f"{path.relative_to(folder)}: {place}" for place in leaks]
    return found
