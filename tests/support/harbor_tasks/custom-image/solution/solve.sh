#!/bin/bash
set -e
for n in 1 2 3 4 5; do echo $((n * n)); done > squares.txt
