"""Decodes the words given as arguments: decode.py localhost:8001 hello world"""

import sys

import beamwright

with beamwright.Client(sys.argv[1]) as client:
    for answer in client.decode_many(sys.argv[2:], beam_size=8):
        print(answer.text)
