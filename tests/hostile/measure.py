#!/usr/bin/env python3
"""Runs a program and prints a line with its exit status (negative: the signal that ended it), its peak
resident bytes and its seconds of computing; behind it, what it printed.

Usage: measure.py SECONDS PROGRAM ARGUMENT...

A program that computes for longer than SECONDS is ended.
"""

import os
import resource
import sys

output, inside = os.pipe()
child = os.fork()
if child == 0:
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.dup2(inside, 1)
    os.dup2(inside, 2)
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    finally:
        os._exit(127)
os.close(inside)
with os.fdopen(output, "rb") as reader:
    text = reader.read()
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime, flush=True)
sys.stdout.buffer.write(text)
