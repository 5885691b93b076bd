#!/bin/sh
# Decodes the words given as arguments, with curl over HTTP: decode.sh localhost:8000 hello world
address=$1 sources=
shift
for word; do
  sources="$sources${sources:+, }{\"text\": \"$word\"}"
done
curl --silent --show-error --fail-with-body "http://$address/v1/models/g2p-en:decode" \
  --data "{\"sources\": [$sources], \"options\": {\"beam_size\": 8}}" |
  grep -o '"text":"[^"]*"' | cut -d '"' -f 4
