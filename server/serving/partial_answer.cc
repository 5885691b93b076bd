#include "server/serving/partial_answer.h"

#include "engine/request/answers.h"

namespace beamwright::serving {

void TakeStable(const engine::DecodeModel& model, const TextEnd& end, StablePrefix& prefix,
                v1::StableTokens& message) {
  message.set_position(static_cast<int>(prefix.num_taken));
  message.mutable_tokens()->Add(
      prefix.tokens.begin() + static_cast<std::ptrdiff_t>(prefix.num_taken), prefix.tokens.end());
  message.set_text(engine::AnswerText(model.target(), prefix.tokens, end.prefix_length,
                                      end.stop_strings.get(), /*unfinished=*/true));
  prefix.num_taken = prefix.tokens.size();
}

v1::Hypothesis MakeProvisional(const engine::DecodeModel& model, const TextEnd& end,
                               const engine::Provisional& hypothesis) {
  v1::Hypothesis made;
  made.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
  made.mutable_token_frames()->Add(hypothesis.frames.begin(), hypothesis.frames.end());
  made.set_text(engine::AnswerText(model.target(), hypothesis.tokens, end.prefix_length,
                                   end.stop_strings.get(), /*unfinished=*/true));
  made.set_score(hypothesis.score);
  return made;
}

void SetWords(const engine::DecodeModel& model, v1::RecognizedSegment& segment) {
  segment.clear_words();
  if (segment.hypotheses().empty() || model.config().frame_ms() <= 0) {
    return;
  }
  engine::FillWords(model, *segment.mutable_hypotheses());
  for (v1::Word& word : *segment.mutable_hypotheses(0)->mutable_words()) {
    if (word.has_begin_ms()) {
      word.set_begin_ms(segment.begin_ms() + word.begin_ms());
      word.set_end_ms(segment.begin_ms() + word.end_ms());
      *segment.add_words() = std::move(word);
    }
  }
  for (v1::Hypothesis& hypothesis : *segment.mutable_hypotheses()) {
    hypothesis.clear_words();
  }
}

}  // namespace beamwright::serving
