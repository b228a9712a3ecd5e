"""A tiny look-alike of an evaluation container: it asks the endpoint of its run_config and writes results.yml."""

from pathlib import Path

from docker_image import docker

IMAGE = "nel-test/harness:1"
_TEXT = """FROM nel-test/python:bookworm
COPY eval-factory /usr/bin/eval-factory
RUN chmod 755 /usr/bin/eval-factory
"""
_HARNESS = r'''#!/usr/bin/python3
import json, os, re, sys, time, urllib.request
assert sys.argv[1:3] == ["run_eval", "--run_config"], sys.argv
config = open(sys.argv[3]).read()
value = lambda name, default=None: (re.search(rf"\b{name}: (\S+)", config) or [0, default])[1]
mode, size, key = value("mode", "rows"), int(value("limit_samples", "4")), os.environ[value("api_key_name")]
print("harness starts,", size, "samples, extra:", os.environ.get("EXTRA"), flush=True)
if mode == "fail":
    sys.exit("harness: dataset not found")
rows = []
for n in range(size):
    body = {"model": value("model_id"), "messages": [{"role": "user", "content": f"How much is {n} + {n}?"}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(value("url"), json.dumps(body).encode(), headers)
    text = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    rows.append({"problem": body["messages"][0]["content"], "answer": str(2 * n), "generation": text,
                 "predicted_answer": text, "symbolic_correct": text == str(2 * n)})
if mode == "hang":
    time.sleep(600)
os.makedirs("/results/eval-results/sums", exist_ok=True)
mean = sum(row["symbolic_correct"] for row in rows) / len(rows)
result = f"""results:
  tasks:
    {value("type")}:
      metrics:
        accuracy:
          scores:
            micro: {{value: {mean}, stats: {{count: {size}}}}}
"""
open("/results/results.yml", "w").write(result[:60] if mode == "half" else result)
if mode != "norows":
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    open("/results/eval-results/sums/output.jsonl", "w").write(lines[:-20] if mode == "halfrows" else lines)
'''


def build_harness(folder: Path) -> str:
    """Build the image in a folder; returns its name."""
    folder.mkdir(parents=True)
    (folder / "eval-factory").write_text(_HARNESS)
    (folder / "Dockerfile").write_text(_TEXT)
    docker("build", "-q", "-t", IMAGE, str(folder))
    return IMAGE
