/* Decodes words in process, in C: decode_in_c models/g2p-en hello world
 *
 * Requests and answers are protobuf messages. Programs use the library of their language for them;
 * so that this one needs none, it writes and reads the few fields by hand. A field is a tag (its
 * number, shifted by 3, and its wire type) and a value; texts and messages begin with their length
 * (protobuf.dev/programming-guides/encoding). Field numbers are those of
 * proto/beamwright/v1/decode.proto. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beamwright/beamwright.h"

static size_t put_varint(unsigned char* to, uint64_t value) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) {
    to[size++] = (unsigned char)(value | 0x80);
  }
  to[size++] = (unsigned char)value;
  return size;
}

static uint64_t get_varint(const unsigned char** at, const unsigned char* end) {
  uint64_t value = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    const unsigned char byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) {
      break;
    }
  }
  return value;
}

/* DecodeRequest { sources { text: word } options { beam_size: 5 } } */
static size_t make_request(unsigned char* to, const char* word) {
  const size_t length = strlen(word);
  unsigned char* at = to;
  unsigned char source[16];
  size_t head = 0;
  source[head++] = 1 << 3 | 2; /* Source.text */
  head += put_varint(source + head, length);
  *at++ = 3 << 3 | 2; /* DecodeRequest.sources */
  at += put_varint(at, head + length);
  memcpy(at, source, head);
  memcpy(at + head, word, length);
  at += head + length;
  *at++ = 4 << 3 | 2; /* DecodeRequest.options */
  *at++ = 2;
  *at++ = 1 << 3 | 0; /* DecodeOptions.beam_size */
  *at++ = 5;
  return (size_t)(at - to);
}

/* Leaves at [*at, *end) the first field of this number and wire type 2 in there. */
static int enter(const unsigned char** at, const unsigned char** end, uint64_t number) {
  while (*at < *end) {
    const uint64_t tag = get_varint(at, *end);
    uint64_t size = 0;
    switch (tag & 7) {
      case 0:
        get_varint(at, *end);
        break;
      case 1:
        size = 8;
        break;
      case 5:
        size = 4;
        break;
      default:
        size = get_varint(at, *end);
    }
    if (size > (uint64_t)(*end - *at)) {
      return 0;
    }
    if (tag == (number << 3 | 2)) {
      *end = *at + size;
      return 1;
    }
    *at += size;
  }
  return 0;
}

int main(int argc, char** argv) {
  beamwright_model* model = NULL;
  beamwright_buffer answer;
  beamwright_options options = {0};
  options.struct_size = sizeof(options);
  options.num_threads = 1;
  const char* path = argc > 1 ? argv[1] : "models/g2p-en";
  if (beamwright_load(path, &options, &model, &answer) != BEAMWRIGHT_OK) {
    fprintf(stderr, "%s\n", answer.message);
    beamwright_buffer_free(&answer);
    return 1;
  }
  int failed = 0;
  for (int i = 2; i < argc; ++i) {
    unsigned char* request = malloc(strlen(argv[i]) + 64);
    const size_t size = make_request(request, argv[i]);
    if (beamwright_decode(model, request, size, 10000, &answer) == BEAMWRIGHT_OK) {
      /* DecodeResponse.results(0).decoded.hypotheses(0).text */
      const unsigned char* at = answer.data;
      const unsigned char* end = at + answer.size;
      const int found =
          enter(&at, &end, 1) && enter(&at, &end, 1) && enter(&at, &end, 1) && enter(&at, &end, 3);
      printf("%s\t%.*s\n", argv[i], found ? (int)(end - at) : 0, (const char*)at);
    } else {
      printf("%s\t%s\n", argv[i], answer.message);
      failed = 1;
    }
    beamwright_buffer_free(&answer);
    free(request);
  }
  beamwright_free(model);
  return failed;
}
