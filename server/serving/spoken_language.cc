// Languages and times as tokens of answers: LanguageOf and SetLanguage read and change the token of
// the language in the prefix, LanguageSearch lets the model choose it, SplitAtTimes cuts a window's
// answer at the tokens of times.
#include "server/serving/spoken_language.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

// Tokens of Canary in the form of languages.
constexpr absl::string_view kNoLanguages[] = {"itn", "pnc"};

// Of <|de|> or <|yue|>; else empty.
std::string CodeOf(const engine::DecodeModel& model, int32_t id) {
  std::string text = model.target().TokenText(id);
  if (text.size() < 6 || text.size() > 7 || !absl::StartsWith(text, "<|") ||
      !absl::EndsWith(text, "|>")) {
    return "";
  }
  text = text.substr(2, text.size() - 4);
  return absl::c_all_of(text, absl::ascii_islower) && !absl::c_linear_search(kNoLanguages, text)
             ? text
             : "";
}

const google::protobuf::RepeatedField<int32_t>& PrefixIds(const engine::DecodeModel& model,
                                                          const v1::DecodeOptions& options) {
  return (options.has_target_prefix() ? options.target_prefix()
                                      : model.config().default_options().target_prefix())
      .ids()
      .ids();
}

}  // namespace

std::string LanguageOf(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  for (const int32_t id : PrefixIds(model, options)) {
    if (std::string code = CodeOf(model, id); !code.empty()) {
      return code;
    }
  }
  return "";
}

absl::Status SetLanguage(const engine::DecodeModel& model, absl::string_view code,
                         v1::DecodeOptions& options) {
  const int32_t id = model.target().TokenId(absl::StrCat("<|", code, "|>"));
  if (id < 0 || CodeOf(model, id).empty()) {
    return status::InvalidField("language", "'", code,
                                "' is no language that the model hears; it takes codes such as en");
  }
  if (!options.has_target_prefix()) {
    *options.mutable_target_prefix() = model.config().default_options().target_prefix();
  }
  const std::string before = LanguageOf(model, options);
  for (int32_t& token : *options.mutable_target_prefix()->mutable_ids()->mutable_ids()) {
    if (CodeOf(model, token) == before) {
      token = id;
    }
  }
  return absl::OkStatus();
}

bool HearsLanguage(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  const auto& prefix = PrefixIds(model, options);
  return !prefix.empty() && !CodeOf(model, prefix[0]).empty();
}

absl::StatusOr<std::shared_ptr<const engine::ResolvedOptions>> LanguageSearch(
    const engine::DecodeModel& model) {
  absl::Status status;
  auto search = model.parts().language_search.Get([&] {
    v1::DecodeOptions options;
    options.set_beam_size(1);
    for (int32_t id = 0; id < model.target_vocabulary_size(); ++id) {
      if (!CodeOf(model, id).empty()) {
        options.add_allowed_sequences()->mutable_ids()->add_ids(id);
      }
    }
    // The bundle's options have the prefix, and suppress tokens of languages.
    auto resolved = engine::ResolveWithoutDefaults(model, options);
    status = resolved.status();
    return resolved.ok() ? *std::move(resolved) : nullptr;
  });
  BW_RETURN_IF_ERROR(status);
  return search;
}

std::string LanguageOf(const engine::DecodeModel& model, const v1::Decoded& answer) {
  return answer.hypotheses().empty() || answer.hypotheses(0).tokens().empty()
             ? ""
             : CodeOf(model, answer.hypotheses(0).tokens(0));
}

// Times that a model writes between its words, as Whisper does: the tokens "<|0.00|>", "<|0.02|>"
// and so on, 20 ms apart.
//
// 1. AskForTimes removes "<|notimestamps|>" from the target prefix, so that the model writes them.
// 2. SplitAtTimes makes segments of one answer: a time closes the segment before it
//    (Splitter::Close).
// 3. If the window ends in the middle of a segment, the answer ends at the last pair of times in a
//    row, and resume_ms says where the next window begins, so that the cut segment is heard again
//    as a whole. That needs kLeastMs on both sides, so that each window makes progress.

namespace {

constexpr double kMsATime = 20;
constexpr double kLeastMs = 500;  // that are heard again, or are behind us

// Takes tokens and closes segments at times.
class Splitter {
 public:
  Splitter(const engine::DecodeModel& model, const v1::RecognizedSegment& whole)
      : model_(model), whole_(whole), begin_ms_(whole.begin_ms()) {}

  void Add(int index) {
    tokens_.push_back(whole_.hypotheses(0).tokens(index));
    if (index < whole_.hypotheses(0).token_log_probs_size()) {
      log_probs_.push_back(whole_.hypotheses(0).token_log_probs(index));
    }
  }

  void Close(double ms) {
    const double at = std::clamp(whole_.begin_ms() + ms, begin_ms_, whole_.end_ms());
    if (!tokens_.empty()) {
      v1::RecognizedSegment& made = parts_.emplace_back();
      made.set_number(whole_.number() + static_cast<int>(parts_.size()) - 1);
      made.set_first_frame(whole_.first_frame());
      made.set_num_frames(whole_.num_frames());
      made.set_begin_ms(begin_ms_);
      made.set_end_ms(at);
      v1::Hypothesis& hypothesis = *made.add_hypotheses();
      const v1::Hypothesis& best = whole_.hypotheses(0);
      hypothesis.set_text(model_.target().Decode(tokens_));
      hypothesis.set_log_prob(best.log_prob());
      hypothesis.set_score(best.score());
      hypothesis.set_finish_reason(best.finish_reason());
      hypothesis.mutable_tokens()->Add(tokens_.begin(), tokens_.end());
      hypothesis.mutable_token_log_probs()->Add(log_probs_.begin(), log_probs_.end());
    }
    tokens_.clear();
    log_probs_.clear();
    begin_ms_ = at;
  }

  std::vector<v1::RecognizedSegment> Take() { return std::move(parts_); }

 private:
  const engine::DecodeModel& model_;
  const v1::RecognizedSegment& whole_;
  double begin_ms_;
  std::vector<int32_t> tokens_;
  std::vector<float> log_probs_;
  std::vector<v1::RecognizedSegment> parts_;
};

}  // namespace

void AskForTimes(const engine::DecodeModel& model, v1::DecodeOptions& options) {
  const int32_t none = model.target().TokenId("<|notimestamps|>");
  if (none < 0 || model.target().TokenId("<|0.00|>") < 0) {
    return;
  }
  const v1::TargetTokens prefix = options.has_target_prefix()
                                      ? options.target_prefix()
                                      : model.config().default_options().target_prefix();
  auto& ids = *options.mutable_target_prefix()->mutable_ids();
  ids.clear_ids();
  for (const int32_t id : prefix.ids().ids()) {
    if (id != none) {
      ids.add_ids(id);
    }
  }
}

TimedSegments SplitAtTimes(const engine::DecodeModel& model, int32_t first,
                           v1::RecognizedSegment whole) {
  TimedSegments found;
  if (!whole.hypotheses().empty()) {
    const v1::Hypothesis& best = whole.hypotheses(0);
    const std::vector<int32_t>& ends = model.target().end_ids();
    int size = best.tokens_size();
    while (size > 0 && std::find(ends.begin(), ends.end(), best.tokens(size - 1)) != ends.end()) {
      --size;
    }
    const auto is_time = [&](int i) {
      return i >= best.prefix_length() && best.tokens(i) >= first;
    };
    int pair = size - 2;  // the last two times in a row
    while (pair >= 0 && !(is_time(pair) && is_time(pair + 1))) {
      --pair;
    }
    const bool ends_in_time = size > 1 && is_time(size - 1) && !is_time(size - 2);
    const double resume_ms = pair < 0 ? 0 : kMsATime * (best.tokens(pair) - first);
    const double left_ms = whole.end_ms() - whole.begin_ms() - resume_ms;
    if (!ends_in_time && resume_ms >= kLeastMs && left_ms >= kLeastMs) {
      found.resume_ms = resume_ms;
      size = pair + 1;
    }
    Splitter splitter(model, whole);
    for (int i = best.prefix_length(); i < size; ++i) {
      if (is_time(i)) {
        splitter.Close(kMsATime * (best.tokens(i) - first));
      } else {
        splitter.Add(i);
      }
    }
    splitter.Close(whole.end_ms() - whole.begin_ms());
    found.segments = splitter.Take();
  }
  if (found.segments.empty() && found.resume_ms == 0) {
    found.segments.push_back(std::move(whole));
  }
  return found;
}

}  // namespace beamwright::serving
