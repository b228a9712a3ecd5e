#!/bin/bash
set -e
echo yes > a.txt
echo yes > b.txt
