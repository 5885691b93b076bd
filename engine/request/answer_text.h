// The text of a hypothesis, which stop strings may end before its tokens do.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ANSWER_TEXT_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ANSWER_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "engine/bundle/text_codec.h"
#include "engine/search/tries.h"

namespace beamwright::engine {

// Up to the first of `stop` (null: none) behind `prefix` tokens. unfinished: other tokens may
// follow, so that bytes of an incomplete character, and what a stop string may begin with, are left
// out.
std::string AnswerText(const bundle::TextCodec& codec, absl::Span<const int32_t> tokens,
                       size_t prefix, const search::StopStrings* stop, bool unfinished);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ANSWER_TEXT_H_
