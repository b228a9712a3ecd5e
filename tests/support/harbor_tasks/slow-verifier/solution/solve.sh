#!/bin/bash
set -e
echo slow > speed.txt
