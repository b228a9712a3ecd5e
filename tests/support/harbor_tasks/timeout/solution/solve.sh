#!/bin/bash
set -e
echo done > done.txt
