"""``nel package``: a benchmark in an image, built by the real engine and run from it."""

import os
from collections.abc import Iterator
from pathlib import Path

import docker_image
import pytest
from docker_image import docker
from nel_support import Nel, Serve, Sums, nel, serve, sums

__all__ = ["nel", "serve", "sums"]
TAG = "nel-test/packaged:own"


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    if not docker_image.FITS:
        pytest.skip("the base image has Python 3.11, like these libraries")
    yield docker_image.build_sources(tmp_path / "context")
    docker("rmi", "-f", TAG)


@pytest.mark.needs("docker")
@pytest.mark.parametrize("whole", [False, True], ids=["a file", "a folder"])
def test_the_image_runs_its_benchmark(
    nel: Nel, serve: Serve, sums: Sums, base: str, whole: bool
) -> None:
    nel.env["DOCKER_BUILDKIT"] = "0"
    bench = nel.folder / sums(4)
    if whole:
        (nel.folder / "mine").mkdir()
        bench = bench.rename(nel.folder / "mine" / "sums.py")
        text = bench.read_text().replace(
            "range(4)", "range(int((Path(__file__).parent / 'size').read_text()))"
        )
        bench.write_text("from pathlib import Path\n" + text)
        (nel.folder / "mine" / "size").write_text("4")
    said = nel(
        "package",
        "-m",
        "mine" if whole else "sums.py",
        "-t",
        TAG,
        "--base-image",
        base,
        timeout=240,
    ).stdout
    assert f"built {TAG}" in said
    server = serve("4")
    (nel.folder / "results").mkdir()
    user = f"{os.getuid()}:{os.getgid()}"
    mounts = (
        "-v",
        f"{nel.folder / 'results'}:/data",
        "-v",
        f"{docker_image.SITE}:/deps:ro",
        "-e",
        "PYTHONPATH=/app:/deps",
    )
    file = "mine/sums.py" if whole else "sums.py"
    words = (
        "eval",
        "run",
        "--bench",
        file,
        "--model-url",
        server.url,
        "--model-id",
        "m",
        "-o",
        "/data/o",
    )
    docker("run", "--rm", "--network", "host", "--user", user, *mounts, TAG, *words)
    assert server.count == 4 and (nel.folder / "results" / "o" / "sums" / "results.jsonl").exists()
    assert docker("inspect", "--format", "{{.Config.User}}", TAG).strip() == "1000:1000"


def test_the_dockerfile_alone_is_written_without_docker(nel: Nel, sums: Sums) -> None:
    nel.env["PATH"] = str(nel.folder)
    (nel.folder / "needs.txt").write_text("pandas\n")
    nel("package", "-m", sums(1), "--requirements", "needs.txt", "-o", "Dockerfile")
    text = (nel.folder / "Dockerfile").read_text()
    assert (
        text.startswith("FROM python:3.12-slim\n")
        and 'COPY --chown=1000:1000 ["sums.py", "/app/sums.py"]' in text
    )
    assert 'COPY ["needs.txt", "/opt/requirements.txt"]' in text and text.endswith(
        'ENTRYPOINT ["nel"]\n'
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-m", "nothing.py"), "is neither a Python file nor a folder"),
        (("-m", "sums.py", "--requirements", "no.txt"), "no.txt does not exist"),
        (("-m", "sums.py", "-o", "D", "--push"), "--push needs an image"),
    ],
)
def test_what_cannot_be_packaged_is_said_before_anything_is_built(
    words: tuple[str, ...], said: str, nel: Nel, sums: Sums
) -> None:
    sums(1)
    assert said in nel("package", *words, code=1).stderr
