"""Which files look like secrets: by their names, and by private keys and tokens inside. They are never copied into an
image."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from nemo_evaluator.core.secret_names import looks_secret
from nemo_evaluator.core.secret_values import looks_random, token_parts

_FILES: Final = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.gpg",
    "*.ovpn",
    "*.token",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials",
    "credentials.*",
    "*credentials*.json",
    "*credential*.json",
    "client_secret*.json",
    "service[-_]account*.json",
    "secret",
    "secrets",
    "secret.*",
    "secrets.*",
    "token",
    "token.txt",
    "password*.txt",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc*",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".boto",
    ".s3cfg",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfigjson",
    ".vault-token",
    ".vault_pass*",
    ".renviron",
    ".token",
    ".*_history",
    "kubeconfig*",
    "*.kubeconfig",
    "auth.json",
)
_FOLDERS: Final = frozenset(
    {
        ".aws",
        ".azure",
        ".docker",
        ".gcloud",
        ".git",
        ".gnupg",
        ".hg",
        ".kube",
        ".oci",
        ".password-store",
        ".ssh",
        ".svn",
        ".terraform",
    }
)
# Code is judged by what it holds: `secrets.py` and `token.py` are modules. Public halves of keys are public.
_CODE: Final = (
    ".py",
    ".pyi",
    ".md",
    ".rst",
    ".pub",
    ".crt",
    ".j2",
    ".html",
    ".js",
    ".ts",
    ".c",
    ".cpp",
    ".go",
    ".rs",
)
# Many files of data hold a `token` somewhere; so much of one is looked at.
_MOST_READ: Final = 32 << 20
_ASSIGNED: Final = re.compile(
    r"""([A-Za-z_][\w-]{5,40})\\?["']?\]?\s*[:=]\s*\\?["']?([A-Za-z0-9+/=_.~-]{16,200})"""
)


def secret_folder(name: str) -> bool:
    """Return whether tools keep keys or histories in a folder of this name, such as ``.git`` and ``.aws``."""
    return name.lower() in _FOLDERS


def why_secret_name(name: str) -> str | None:
    """Explain why a file's name makes it a secret; None when it does not."""
    lowered = name.lower()
    if lowered.endswith(_CODE):
        return None
    pattern = next((pattern for pattern in _FILES if fnmatchcase(lowered, pattern)), None)
    if pattern is None:
        return None
    return f"its name looks like that of a secret ({pattern})"


def why_secret_content(path: Path) -> str | None:
    """Explain why a file's content makes it a secret, with the line; None when it does not."""
    with path.open("rb") as file:
        data = file.read(_MOST_READ)
    text = data.decode("utf-8", "replace")
    parts = token_parts(text) or _assigned_parts(text)
    if not parts:
        return None
    line = text.count("\n", 0, text.index(parts[0])) + 1
    if "PRIVATE KEY" in parts[0]:
        secret_kind = "a private key"
    else:
        secret_kind = "an access token"
    return f"line {line} holds what looks like {secret_kind}"


def _assigned_parts(text: str) -> list[str]:
    """Random values behind names such as ``api_key`` and ``DB_PASSWORD``; a bare ``key`` may be that of a row."""
    pairs = _ASSIGNED.findall(text)
    return [value for name, value in pairs if looks_secret(name) and looks_random(value)]
