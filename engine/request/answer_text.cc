#include "engine/request/answer_text.h"

#include "absl/strings/strip.h"

namespace beamwright::engine {

std::string AnswerText(const bundle::TextCodec& codec, absl::Span<const int32_t> tokens,
                       size_t prefix, const search::StopStrings* stop, bool unfinished) {
  search::StopStrings::Ending ending;
  if (stop != nullptr && tokens.size() > prefix) {
    ending = stop->Read(tokens.subspan(prefix), /*begins_text=*/prefix == 0);
  }
  if (!ending.stops && !unfinished) {
    ending.rest.clear();
  }
  const std::string text = codec.DecodeBefore(tokens, ending.rest);
  absl::string_view complete = text;
  // Bytes of an incomplete character are written as U+FFFD: the next token may complete it.
  while (unfinished && absl::ConsumeSuffix(&complete, "\xEF\xBF\xBD")) {
  }
  return std::string(complete);
}

}  // namespace beamwright::engine
