"""Paths of runs on a command line, where the id of a run or job stands for its folder."""

from pathlib import Path

from nemo_evaluator.core.errors import UsageError


def folder_of(path_or_id: Path | str) -> Path:
    """Return the folder that an id stands for: of the run, or of one benchmark for a job id.

    Args:
        path_or_id: A path, or the id of a run or job.

    Returns:
        The folder; the path itself if it exists, or if there is no such id.
    """
    path = Path(path_or_id)
    name = str(path_or_id)
    if path.exists() or "/" in name:
        return path
    # Imported here, because the launcher's jobs bring libraries that a path does not need.
    from nemo_evaluator.launcher.jobs import find_jobs, run_of  # noqa: PLC0415

    try:
        run, number = run_of(name)
    except UsageError:
        # The command reports the path that does not exist.
        return path
    if number is None:
        return Path(run.output_dir)
    job = find_jobs(name)[0]
    return job.folder
