"""``nel inspect-model``: what a checkpoint's files say about serving and evaluating it."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from nemo_evaluator.assistant.checkpoint import find_checkpoint, read_checkpoint
from nemo_evaluator.assistant.recipes import recipes
from nemo_evaluator.assistant.serving import Advice, advise, apply_advice
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.terminal import harmless


@click.command(name="inspect-model")
@click.argument("model", metavar="PATH|HANDLE")
@click.option("--gpus", type=click.IntRange(1), default=1, show_default=True, help="GPUs that the server may use.")
@click.option("--gpu-memory", type=click.FloatRange(1), default=80.0, show_default=True, help="GB of one GPU.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.option(
    "--apply", "config", type=click.Path(dir_okay=False, exists=True), help="Set what was found in this config."
)
def inspect_model(model: str, gpus: int, gpu_memory: float, as_json: bool, config: str | None) -> None:
    """Quantization, context, sizes, parsers, flags and benchmarks of a checkpoint, from its files alone.

    Nothing of the checkpoint is executed. A hub name (ORG/NAME) is looked for in the local Hugging Face cache only.
    """
    folder = find_checkpoint(model)
    named = model if not Path(model).expanduser().exists() else None
    advice = advise(read_checkpoint(folder, named), gpus, gpu_memory)
    changed: list[str] = []
    if config is not None:
        path = Path(config)
        served = named or str(folder.resolve())
        text, changed = apply_advice(path.read_text(encoding="utf-8"), advice, served)
        write_atomic(path, text.encode())
    if as_json:
        click.echo(dumps(asdict(advice) | {"changed": changed}, indent=True))
        return
    for line in (*_lines(advice), *(f"set in {config}: {one}" for one in changed)):
        click.echo(harmless(line))


def _lines(advice: Advice) -> Iterator[str]:
    one, sizes = advice.checkpoint, advice.sizes
    quantized = one.quantization
    yield f"{one.name}  ({', '.join(one.architectures) or one.model_type or 'unknown architecture'})"
    mixed = ", ".join(f"{count} x {name}" for name, count in quantized.layers.items())
    plain = f"none ({one.dtype or 'dtype unknown'})"
    how = f"{quantized.algorithm} by {quantized.method}{f' ({mixed})' if mixed else ''}, from {quantized.source}"
    yield f"  quantization  {how if quantized.method else plain}"
    if quantized.kv_cache:
        yield f"  KV cache      {quantized.kv_cache}"
    stretched = f" (stretched: {one.rope_scaling})" if one.rope_scaling else ""
    yield f"  context       {f'{one.context:,} tokens{stretched}' if one.context else 'unknown'}"
    yield f"  custom code   {'yes: the server needs to trust it' if one.custom_code else 'no'}"
    kinds = [f"{one.experts} experts"] * bool(one.experts) + ["takes images"] * one.vision
    weight = f"{one.weight_bytes / 1e9:.1f} GB" if one.weight_bytes else "unknown"
    yield f"  weights       {', '.join([weight, *kinds])}"
    fit = {True: "fits", False: "does not fit", None: "unknown"}[sizes.fits]
    yield f"  parallel      TP {sizes.tensor}, PP {sizes.pipeline}, DP {sizes.data}: {sizes.note or fit}"
    if advice.thinking:
        yield f"  reasoning on  {advice.thinking}"
    if one.generation:
        yield f"  sampling      {', '.join(f'{name} {value}' for name, value in one.generation.items())}"
    for warning in one.warnings:
        yield f"  warning       {warning}"
    for serving in advice.serving.values():
        parsers = f"--reasoning-parser {serving.reasoning_parser} " * bool(serving.reasoning_parser)
        parsers += f"--tool-call-parser {serving.tool_parser} " * bool(serving.tool_parser)
        yield f"  {serving.runtime:<13} {parsers}{' '.join(serving.args)}".rstrip()
        yield from (f"    {name}={value}" for name, value in serving.env.items())
        yield from (f"    note: {note}" for note in serving.notes)
    shown = [f"{name} ({recipes()[name].damage})" if name in recipes() else name for name in advice.benchmarks]
    about = ", by how well they show damage" if quantized.method or quantized.kv_cache else ""
    yield f"  benchmarks{about}: {', '.join(shown)}"
    yield from (f"    left out: {name}: {why}" for name, why in advice.left_out.items())
