// RapidJSON, as it is included here. Its stacks compute an address behind a null pointer while they
// are empty, which UBSan reports; they read nothing there.
#ifndef BEAMWRIGHT_OPS_BASE_RAPIDJSON_H_
#define BEAMWRIGHT_OPS_BASE_RAPIDJSON_H_

#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/writer.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#endif  // BEAMWRIGHT_OPS_BASE_RAPIDJSON_H_
