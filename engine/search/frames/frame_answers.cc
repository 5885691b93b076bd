#include "engine/search/frames/frame_answers.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/search/frames/log_add.h"

namespace beamwright::search {

void SortAnswers(int n_best, std::vector<FrameHypothesis>& answers) {
  std::erase_if(answers, [](const FrameHypothesis& answer) { return !(answer.score > kLogZero); });
  std::stable_sort(answers.begin(), answers.end(),
                   [](const FrameHypothesis& a, const FrameHypothesis& b) {
                     if (a.score != b.score) {
                       return a.score > b.score;
                     }
                     return a.labels.size() != b.labels.size() ? a.labels.size() < b.labels.size()
                                                               : a.labels < b.labels;
                   });
  size_t kept = 0;
  for (size_t i = 0; i < answers.size() && kept < static_cast<size_t>(n_best); ++i) {
    const bool is_known = std::any_of(
        answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(kept),
        [&](const FrameHypothesis& other) { return other.labels == answers[i].labels; });
    if (!is_known) {
      std::swap(answers[kept++], answers[i]);
    }
  }
  answers.resize(kept);
}

void AppendStable(const LabelHistories& histories, absl::Span<const int32_t> nodes,
                  std::vector<int32_t>& labels) {
  if (nodes.empty()) {
    return;
  }
  int32_t common = nodes[0];
  for (const int32_t node : nodes.subspan(1)) {
    common = histories.Common(common, node);
  }
  histories.AppendLabels(common, labels.size(), labels);
}

void AppendStable(absl::Span<const FrameHypothesis> answers, std::vector<int32_t>& labels) {
  if (answers.empty()) {
    return;
  }
  size_t common = answers[0].labels.size();
  for (const FrameHypothesis& answer : answers) {
    const size_t limit = std::min(common, answer.labels.size());
    common = static_cast<size_t>(
        std::mismatch(answer.labels.begin(),
                      answer.labels.begin() + static_cast<std::ptrdiff_t>(limit),
                      answers[0].labels.begin())
            .first -
        answer.labels.begin());
  }
  for (size_t i = labels.size(); i < common; ++i) {
    labels.push_back(answers[0].labels[i]);
  }
}

absl::Status NothingLeft(const FrameOptions& options, int64_t frame) {
  std::string names;
  const auto add = [&](bool is_set, absl::string_view name) {
    absl::StrAppend(&names,
                    !is_set         ? ""
                    : names.empty() ? " among those that the options leave ("
                                    : ", ",
                    is_set ? name : "");
  };
  add(!options.prefix.empty(), "target_prefix");
  add(options.allowed != nullptr, "allowed_sequences");
  add(!options.shortlist.empty(), "shortlist");
  add(!options.suppressed.empty(), "suppress_tokens");
  add(!options.suppressed_at_begin.empty(), "suppress_at_begin");
  add(!options.suppressed_sequences.empty(), "suppress_sequences");
  add(options.no_repeat_ngram > 0, "no_repeat_ngram");
  add(options.scorers.size() + options.label_scorers.size() > 0, "fusion");
  return absl::FailedPreconditionError(
      absl::StrCat("frame ", frame, ": no hypothesis can go on: the blank and every label", names,
                   names.empty() ? "" : ")", " have probability 0"));
}

}  // namespace beamwright::search
