"""``nel eval run`` against the bare aiohttp client: CPU, wall time, memory, disk."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench._measure import Cost, median_cpu, run, server

_PROBLEMS = 5_000
_MANY = 200_000
MILLION = 1_000_000
_MEMORY_LIMITS = {_MANY: 1.25, MILLION: 1.6}
_ANSWER = "Let me work it out step by step. First I add the two numbers, then I take half of the sum. The answer is 42."

_WORDS = "the a of and each has buys sells apples dollars more than half twice total how many left price day"

_BENCHMARK = """
from nemo_evaluator import ScorerInput, benchmark, numeric_match, scorer


@benchmark(name="gsm8k_shaped", dataset="{data}", prompt="Solve the following math problem step by step. End with a "
           "line that gives the final number after 'The answer is'.\\n\\nProblem: {{question}}", target_field="target")
@scorer
def score(sample: ScorerInput) -> dict:
    return numeric_match(sample)
"""

_BARE = """
import asyncio, sys
import aiohttp, orjson

async def main(url, path, concurrency):
    bodies = iter(open(path, "rb"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        async def worker():
            for body in bodies:
                async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                    orjson.loads(await response.read())["choices"][0]["message"]["content"]
        await asyncio.gather(*(worker() for _ in range(concurrency)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

# The command with a clock around what keeps the index; the clock's own time is taken off.
_INDEXING = """
import sys, time
from pathlib import Path
from nemo_evaluator.cli.main import main
from nemo_evaluator.runs.index import IndexWriter

clock, spent = time.thread_time, [0.0]
begun = clock()
for _ in range(100_000):
    clock()
tick = (clock() - begun) / 100_000

def timed(method):
    def call(*given):
        begun = clock()
        try:
            return method(*given)
        finally:
            spent[0] += clock() - begun - tick
    return call

for name in ("note", "batch", "_write"):
    setattr(IndexWriter, name, timed(getattr(IndexWriter, name)))
try:
    main()
finally:
    Path(__file__).with_name("index_share").write_text(str(spent[0] / time.process_time()))
"""


def rows() -> list[dict[str, object]]:
    """The limits of the spine."""
    folder = Path(tempfile.mkdtemp(prefix="nel-bench-"))
    try:
        return [*_speed(folder), *_index(folder), *_delay(folder), *peak_memory(folder, _MANY)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _speed(folder: Path) -> list[dict[str, object]]:
    prepare(folder, _PROBLEMS)
    with server("--answer", _ANSWER) as url:
        bare, ours = median_cpu(
            3, lambda: run(_bare(folder, url)), lambda: evaluate(folder, url, 256)
        )
    size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
    return [
        {
            "name": "CPU of nel eval run / bare client, 5,000 problems",
            "value": ours / bare,
            "unit": "x",
            "limit": 2.5,
        },
        {
            "name": "bytes on disk per problem",
            "value": size / _PROBLEMS / 1000,
            "unit": "KB",
            "limit": 5.1,
        },
    ]


def _index(folder: Path) -> list[dict[str, object]]:
    problems = 20_000
    prepare(folder, problems)
    script = folder / "indexing.py"
    script.write_text(_INDEXING)
    shares = []
    with server("--answer", _ANSWER) as url:
        for _ in range(3):
            evaluate(folder, url, 256, nel=[sys.executable, str(script)])
            shares.append(float((folder / "index_share").read_text()))
    name = f"share of the index in the CPU of a run, {problems:,} problems"
    return [{"name": name, "value": statistics.median(shares) * 100, "unit": "%", "limit": 4.0}]


def _delay(folder: Path) -> list[dict[str, object]]:
    problems, delay, concurrency = 2_000, 0.2, 64
    prepare(folder, problems)
    with server("--answer", _ANSWER, "--delay", str(delay)) as url:
        ours = evaluate(folder, url, concurrency)
        start = evaluate(folder, url, concurrency, "-O", "benchmarks.0.max_problems=1").wall - delay
    ideal = problems * delay / concurrency
    return [
        {
            "name": f"wall time / ideal, {concurrency} at once, {delay:g} s delay, start-up taken off",
            "value": (ours.wall - start) / ideal,
            "unit": "x",
            "limit": 1.15,
        }
    ]


def peak_memory(folder: Path, many: int) -> list[dict[str, object]]:
    """The CPU of a run of ``many`` problems beside the bare client's, and its memory beside that of few problems."""
    costs = []
    for problems in (_PROBLEMS, many):
        prepare(folder, problems)
        with server("--answer", _ANSWER) as url:
            bare = run(_bare(folder, url))
            costs.append(evaluate(folder, url, 256))
    few_problems, many_problems = costs
    return [
        {
            "name": f"CPU of nel eval run / bare client, {many:,} problems",
            "value": many_problems.cpu / bare.cpu,
            "unit": "x",
            "limit": 1.4,
        },
        {
            "name": f"peak memory at {many:,} problems / at {_PROBLEMS:,}",
            "value": many_problems.peak_kb / few_problems.peak_kb,
            "unit": "x",
            "limit": _MEMORY_LIMITS[many],
        },
    ]


def _bare(folder: Path, url: str) -> list[str]:
    script = folder / "bare.py"
    script.write_text(_BARE)
    return [
        sys.executable,
        str(script),
        f"{url}/chat/completions",
        str(folder / "bodies.jsonl"),
        "256",
    ]


def evaluate(
    folder: Path, url: str, concurrency: int, *more: str, nel: list[str] | None = None
) -> Cost:
    shutil.rmtree(folder / "out", ignore_errors=True)
    config = {
        "services": {
            "model": {
                "type": "api",
                "url": f"{url}/chat/completions",
                "protocol": "chat_completions",
                "model": "m",
            }
        },
        "benchmarks": [
            {
                "name": str(folder / "bench.py"),
                "max_concurrent": concurrency,
                "solver": {"type": "simple", "service": "model"},
            }
        ],
        "output": {"dir": str(folder / "out")},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    nel = nel or [str(Path(sys.executable).with_name("nel"))]
    return run(
        [*nel, "eval", "run", str(folder / "config.yaml"), *more],
        env={"XDG_DATA_HOME": str(folder / "home")},
    )


def prepare(folder: Path, problems: int) -> None:
    """GSM8K-shaped rows, a benchmark file for them, and the request bodies for the bare client."""
    rng = random.Random(1)
    words = _WORDS.split()
    with (
        (folder / "rows.jsonl").open("w") as rows_file,
        (folder / "bodies.jsonl").open("w") as bodies,
    ):
        for number in range(problems):
            question = f"Problem {number}: " + " ".join(rng.choices(words, k=45)) + "?"
            answer = " ".join(rng.choices(words, k=55))
            rows_file.write(
                json.dumps({"question": question, "answer": answer, "target": "42"}) + "\n"
            )
            prompt = (
                "Solve the following math problem step by step. End with a line that gives the final number after "
                f"'The answer is'.\n\nProblem: {question}"
            )
            bodies.write(
                json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}) + "\n"
            )
    (folder / "bench.py").write_text(_BENCHMARK.format(data=folder / "rows.jsonl"))
