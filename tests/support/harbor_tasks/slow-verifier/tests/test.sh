#!/bin/bash
mkdir -p /logs/verifier
if sleep 2 && [ "$(cat speed.txt)" = slow ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
