#!/bin/bash
mkdir -p /logs/verifier
a=0 b=0
[ "$(cat a.txt 2>/dev/null)" != yes ] || a=1
[ "$(cat b.txt 2>/dev/null)" != yes ] || b=1
printf '{"a": %s, "b": %s, "reward": 0.%s}' $a $b $((5 * a + 5 * b)) | sed 's/0\.10/1.0/' > /logs/verifier/reward.json
