"""Fetches the scripts that ``nel view`` serves, each at its pinned version, and writes their checksums.

``python scripts/vendor_view.py`` needs npm; what it writes is committed, and a test compares files and checksums.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "src/nemo_evaluator/view/static/vendor"
# File here, package, version, file there, licence.
MODULES = (
    ("preact.js", "preact", "10.29.8", "dist/preact.module.js", "MIT"),
    ("hooks.js", "preact", "10.29.8", "hooks/dist/hooks.module.js", "MIT"),
    ("htm.js", "htm", "3.1.1", "dist/htm.module.js", "Apache-2.0"),
    ("diff.js", "diff", "9.0.0", "dist/diff.min.js", "BSD-3-Clause"),
    ("marked.js", "marked", "18.2.0", "lib/marked.esm.js", "MIT"),
    ("purify.js", "dompurify", "3.4.17", "dist/purify.min.js", "Apache-2.0 OR MPL-2.0"),
)


def main() -> None:
    """Fetch every package once, take what is needed, note what was taken."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    entries, licences = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for package, version in dict.fromkeys(
            (name, version) for _, name, version, _, _ in MODULES
        ):
            command = ["npm", "pack", "--silent", f"{package}@{version}"]
            archive = subprocess.run(
                command, cwd=folder, check=True, capture_output=True, text=True
            ).stdout.strip()
            with tarfile.open(Path(folder, archive)) as found:
                found.extractall(Path(folder, package), filter="data")
            licences[f"{package} {version}"] = (
                Path(folder, package, "package/LICENSE").read_text().strip()
            )
        for name, package, version, path, licence in MODULES:
            text = Path(folder, package, "package", path).read_text()
            # Source maps are not served, and a browser knows no packages.
            text = re.sub(r"^//# sourceMappingURL=.*\n?", "", text, flags=re.MULTILINE)
            text = text.replace('from"preact"', 'from"./preact.js"')
            (VENDOR / name).write_text(text)
            sums = hashlib.sha256(text.encode()).hexdigest()
            about = {
                "file": name,
                "package": package,
                "version": version,
                "path": path,
                "licence": licence,
            }
            entries.append(about | {"sha256": sums})
    (VENDOR / "VENDORED.json").write_text(json.dumps(entries, indent=2) + "\n")
    texts = [f"# {name}\n\n{text}\n" for name, text in licences.items()]
    (VENDOR / "LICENSES.txt").write_text("\n".join(texts))


if __name__ == "__main__":
    main()
