#!/bin/bash
mkdir -p /logs/verifier
if [ "$(tr "\n" " " < squares.txt)" = "1 4 9 16 25 " ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
