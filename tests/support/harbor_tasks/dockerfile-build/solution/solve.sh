#!/bin/bash
set -e
echo $((2 * $(cat /opt/secret-number))) > answer.txt
