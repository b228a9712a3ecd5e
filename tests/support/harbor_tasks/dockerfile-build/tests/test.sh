#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat answer.txt)" = 84 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
