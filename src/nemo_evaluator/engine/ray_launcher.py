"""``python -m nemo_evaluator.engine.ray_launcher``: the older name of ``nel eval run`` with ``cluster.type: ray``."""

import argparse
import os
import sys
from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the older flags."""
    parser = argparse.ArgumentParser(
        prog="ray_launcher", description="Run one benchmark on a Ray cluster."
    )
    parser.add_argument("-b", "--benchmark", required=True, help="benchmark name, URI or file")
    parser.add_argument("-s", "--shards", type=int, default=4, help="workers")
    parser.add_argument("-n", "--repeats", type=int, default=1, help="answers per problem")
    parser.add_argument("--max-problems", type=int, help="at most so many problems")
    parser.add_argument("--model-url", help="base URL of the model's API (NEMO_MODEL_URL)")
    parser.add_argument("--model-id", help="the model's name in requests (NEMO_MODEL_ID)")
    parser.add_argument(
        "--api-key", help="better in NEMO_API_KEY, where process lists do not show it"
    )
    parser.add_argument("--system-prompt")
    parser.add_argument("-o", "--output-dir", default="./eval_results/ray")
    parser.add_argument(
        "--shuffle-seed", type=int, default=42, help="order of the problems; negative: as they are"
    )
    return parser


def command_of(words: Sequence[str]) -> list[str]:
    """Convert the older flags to arguments of ``nel``; an API key is put into the environment."""
    flags = _parser().parse_args(words)
    if flags.api_key is not None:
        os.environ["NEMO_API_KEY"] = flags.api_key
    seed = str(flags.shuffle_seed)
    if flags.shuffle_seed < 0:
        seed = "null"
    overrides = [
        "cluster.type=ray",
        f"cluster.shards={flags.shards}",
        f"benchmarks.0.shuffle_seed={seed}",
    ]
    command = ["eval", "run", "--bench", flags.benchmark]
    command += ["--repeats", str(flags.repeats)]
    command += ["-o", flags.output_dir]
    for name in ("max_problems", "model_url", "model_id", "system_prompt"):
        value = getattr(flags, name)
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    for override in overrides:
        command += ["-O", override]
    return command


def main() -> None:
    """Replace this process by ``nel``, since this package must not import the commands."""
    command = command_of(sys.argv[1:])
    os.execv(sys.executable, [sys.executable, "-m", "nemo_evaluator.cli.main", *command])  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
