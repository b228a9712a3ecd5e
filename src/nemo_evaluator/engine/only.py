"""Problems chosen one by one: by their index in the dataset, or by the beginning of their hash."""

from collections.abc import Sequence

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.store.fingerprints import problem_hash


async def chosen_problems(environment: EvalEnvironment, only: Sequence[int | str] | None) -> list[int] | None:
    """The indices that ``only`` names, each once, in the order of the dataset.

    A hash is looked for in the whole dataset, which is therefore read once. Raises UsageError for what is not there.
    """
    if only is None:
        return None
    size = await environment.dataset_size()
    found = {one for one in only if isinstance(one, int)}
    if beyond := sorted(one for one in found if one >= size):
        hint = f"indices go from 0 to {size - 1}" if size else "is the dataset empty?"
        raise UsageError(
            f"{environment.name} has {counted(size, 'problem')}: there is no number {beyond[0]}", hint=hint
        )
    prefixes = [one for one in only if isinstance(one, str)]
    if prefixes:
        await environment.prepare()
        matched = set()
        for index in range(size):
            digest = problem_hash(await environment.seed(index))
            if fitting := [one for one in prefixes if digest.startswith(one)]:
                matched.update(fitting)
                found.add(index)
        if missing := [one for one in prefixes if one not in matched]:
            hint = "problem_hash stands in each row of results.jsonl; for one benchmark of several: benchmarks[N].only"
            raise UsageError(f"no problem of {environment.name} has a hash that begins with {missing[0]}", hint=hint)
    return sorted(found)
