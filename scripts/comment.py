"""Puts a report on a pull request: comment.py NUMBER REPORT.md KEY. The comment with the same KEY is replaced.

Needs GH_TOKEN, GITHUB_REPOSITORY and, on a server of one's own, GITHUB_API_URL. A token that may not comment, as
that of a pull request from a fork, is a warning: the report is in the summary of the job anyway.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

# GitHub takes 65,536 characters.
MOST = 60_000
PAGE = 100


def ask(method: str, path: str, body: str | None = None) -> Any:
    """Call the API."""
    url = f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    data = json.dumps({"body": body}).encode() if body is not None else None
    request = urllib.request.Request(url, data, method=method)  # noqa: S310 - the address is the runner's own
    request.add_header("Authorization", f"Bearer {os.environ['GH_TOKEN']}")
    request.add_header("Accept", "application/vnd.github+json")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def earlier(number: str, mark: str) -> int | None:
    """The comment that begins with the mark: those of others, bots or people, are left alone."""
    page = 1
    while found := ask("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}"):
        for comment in found:
            if comment["body"].startswith(mark):
                return int(comment["id"])
        if len(found) < PAGE:
            break
        page += 1
    return None


def main(number: str, report: Path, key: str) -> int:
    """Comment, or replace the comment of an earlier push."""
    if not report.is_file():
        print(f"{report} is not there; nothing to comment")
        return 0
    mark, text = f"<!-- nel: {key} -->\n", report.read_text(encoding="utf-8")
    if len(text) > MOST:
        text = f"{text[:MOST]}\n\n… cut off; the whole report is in the summary of the job.\n"
    try:
        known = earlier(number, mark)
        if known is None:
            ask("POST", f"issues/{number}/comments", mark + text)
        else:
            ask("PATCH", f"issues/comments/{known}", mark + text)
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403):
            raise SystemExit(
                f"error: the pull request could not be commented: HTTP {error.code}"
            ) from error
        print(
            f"::warning::not commented (HTTP {error.code}): the token needs the permission pull-requests: write"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
