#include "server/serving/partial_answer.h"

#include "absl/strings/strip.h"

namespace beamwright::serving {
namespace {

// The text of tokens that others may follow. Bytes of a character that is not complete are written
// as U+FFFD at its end: they wait, or the next token would take them back.
std::string TextSoFar(const engine::DecodeModel& model, absl::Span<const int32_t> tokens) {
  constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
  const std::string text = model.target().Decode(tokens);
  absl::string_view complete = text;
  while (absl::ConsumeSuffix(&complete, kReplacement)) {
  }
  return std::string(complete);
}

}  // namespace

void TakeStable(const engine::DecodeModel& model, StablePrefix& prefix, v1::StableTokens& message) {
  message.set_position(static_cast<int>(prefix.num_taken));
  message.mutable_tokens()->Add(
      prefix.tokens.begin() + static_cast<std::ptrdiff_t>(prefix.num_taken), prefix.tokens.end());
  message.set_text(TextSoFar(model, prefix.tokens));
  prefix.num_taken = prefix.tokens.size();
}

v1::Hypothesis MakeProvisional(const engine::DecodeModel& model,
                               const engine::Provisional& hypothesis) {
  v1::Hypothesis made;
  made.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
  made.mutable_token_frames()->Add(hypothesis.frames.begin(), hypothesis.frames.end());
  made.set_text(TextSoFar(model, hypothesis.tokens));
  made.set_score(hypothesis.score);
  return made;
}

}  // namespace beamwright::serving
