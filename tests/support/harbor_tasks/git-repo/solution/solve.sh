#!/bin/bash
set -e
sed -i s/goodbye/hello/ greet.py
