#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat sums/total)" = 6 ] && [ ! -e parts/c ] && [ -x run ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
