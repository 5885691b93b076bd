#include "server/serving/words.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace beamwright::serving {
namespace {

// A token with a space where a word begins.
std::string Spaced(const engine::DecodeModel& model, int32_t token) {
  const std::string text = model.target().TokenText(token);
  switch (model.config().target().form()) {
    case v1::TEXT_FORM_WHITESPACE:
    case v1::TEXT_FORM_IDS:
      return absl::StrCat(" ", text);
    case v1::TEXT_FORM_CHARACTERS:
      return text;
    default:
      return absl::StrReplaceAll(text, {{"\xe2\x96\x81", " "}});
  }
}

}  // namespace

std::vector<Word> WordsOf(const engine::DecodeModel& model, const v1::Hypothesis& hypothesis) {
  std::vector<Word> words;
  const double frame_ms = model.config().frame_ms();
  if (frame_ms <= 0 || hypothesis.token_frames_size() != hypothesis.tokens_size()) {
    return words;
  }
  bool goes_on = false;
  double log_prob = 0;  // of the last word
  int num_tokens = 0;
  for (int i = 0; i < hypothesis.tokens_size(); ++i) {
    const std::string token = Spaced(model, hypothesis.tokens(i));
    const int duration = i < hypothesis.token_durations_size() ? hypothesis.token_durations(i) : 1;
    const double begin_ms = frame_ms * hypothesis.token_frames(i);
    bool is_first = true;
    for (const absl::string_view part : absl::StrSplit(token, ' ')) {
      goes_on = goes_on && is_first;
      is_first = false;
      if (part.empty()) {
        continue;
      }
      if (!goes_on) {
        words.push_back({"", begin_ms, begin_ms});
        log_prob = 0;
        num_tokens = 0;
      }
      goes_on = true;
      log_prob += i < hypothesis.token_log_probs_size() ? hypothesis.token_log_probs(i) : 0;
      words.back().confidence = std::exp(std::min(log_prob / ++num_tokens, 0.0));
      absl::StrAppend(&words.back().text, part);
      words.back().end_ms = begin_ms + frame_ms * std::max(duration, 1);
    }
  }
  // The text's spelling, where both agree on what a word is: pieces may be bytes of a character.
  const std::vector<absl::string_view> texts =
      absl::StrSplit(hypothesis.text(), ' ', absl::SkipEmpty());
  for (size_t i = 0; texts.size() == words.size() && i < words.size(); ++i) {
    words[i].text = std::string(texts[i]);
  }
  return words;
}

}  // namespace beamwright::serving
