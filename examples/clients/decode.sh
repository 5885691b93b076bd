#!/bin/sh
# Decodes the words given as arguments, with curl over HTTP: decode.sh localhost:8000 hello world
# MODEL: the model's name, g2p-en if unset.
address=$1 sources=
shift
for word; do
  sources="$sources${sources:+, }{\"text\": \"$word\"}"
done
answer=$(curl --silent --show-error --fail-with-body "http://$address/v1/models/${MODEL:-g2p-en}:decode" \
  --data "{\"sources\": [$sources], \"options\": {\"beam_size\": 8}}") || {
  echo "$answer" >&2
  exit 1
}
echo "$answer" | grep -o '"text":"[^"]*"' | cut -d '"' -f 4
