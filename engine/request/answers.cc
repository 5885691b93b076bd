// The text of an answer, its words, and the alignments of Align.
#include "engine/request/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "ops/base/utf8.h"

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

// Words of hypotheses, with their times and confidences (FillWords).
//
// 1. WordReader splits the text of a hypothesis into words while it goes through the tokens, since
//    only tokens have probabilities and frames. White space ends a word; in scripts without spaces
//    each token begins one. A word's confidence is the geometric mean of its tokens' probabilities.
// 2. FillPosteriors: the posterior of a word of the best hypothesis is the share of hypotheses, by
//    their scores, that have the word in the same place. AddShares finds the place by an alignment
//    with the fewest substitutions, insertions and deletions; equal beginnings and ends are
//    skipped, and the work is bounded (kMostWordPairs).

namespace {

using Hypotheses = google::protobuf::RepeatedPtrField<v1::Hypothesis>;
using Words = google::protobuf::RepeatedPtrField<v1::Word>;

// Adds the words of a hypothesis, token by token.
class WordReader {
 public:
  WordReader(const DecodeModel& model, v1::Hypothesis& hypothesis)
      : codec_(model.target()), frame_ms_(model.config().frame_ms()), hypothesis_(hypothesis) {}

  void Run() {
    for (int i = 0; i < hypothesis_.tokens_size(); ++i) {
      const int32_t token = hypothesis_.tokens(i);
      if (token != codec_.begin_id() && token != codec_.pad_id() &&
          !absl::c_linear_search(codec_.end_ids(), token)) {
        const std::string written = codec_.WrittenBehind(token, before_);
        if (written.empty()) {
          log_prob_ += LogProb(i);  // of the word's tokens, if the word goes on
        }
        ReadToken(i, written);
        before_ = token;
      }
    }
    for (v1::Word& word : *hypothesis_.mutable_words()) {
      word.set_text(ValidUtf8(word.text()));
    }
    CutAtText();
  }

 private:
  void ReadToken(int place, absl::string_view written) {
    bool is_first_part = true;
    while (!written.empty()) {
      const bool is_space = absl::ascii_isspace(static_cast<unsigned char>(written[0]));
      const auto end = std::find_if(written.begin(), written.end(), [is_space](unsigned char c) {
        return absl::ascii_isspace(c) != is_space;
      });
      const absl::string_view part(written.data(), static_cast<size_t>(end - written.begin()));
      written.remove_prefix(part.size());
      if (!is_space) {
        ReadPart(place, part, is_first_part);
      }
      goes_on_ = !is_space;
      is_first_part = false;
    }
  }

  double LogProb(int place) const {
    return place < hypothesis_.token_log_probs_size() ? hypothesis_.token_log_probs(place) : 0;
  }

  void ReadPart(int place, absl::string_view part, bool begins_token) {
    Words& words = *hypothesis_.mutable_words();
    const bool is_apart =
        goes_on_ && begins_token && (BeginsUnspaced(part) || EndsUnspaced(words.rbegin()->text()));
    if (!goes_on_ || is_apart) {
      words.Add()->set_first_token(place);
      log_prob_ = 0;
    }
    v1::Word& word = *words.rbegin();
    absl::StrAppend(word.mutable_text(), part);
    word.set_num_tokens(place - word.first_token() + 1);
    log_prob_ += LogProb(place);
    word.set_confidence(std::exp(std::min(log_prob_ / word.num_tokens(), 0.0)));
    if (frame_ms_ > 0 && place < hypothesis_.token_frames_size()) {
      const double begin_ms = frame_ms_ * hypothesis_.token_frames(place);
      const int duration =
          place < hypothesis_.token_durations_size() ? hypothesis_.token_durations(place) : 1;
      if (!word.has_begin_ms()) {
        word.set_begin_ms(begin_ms);
      }
      word.set_end_ms(begin_ms + frame_ms_ * std::max(duration, 1));
    }
  }

  // Stop strings end a text before its tokens do.
  void CutAtText() {
    const auto is_written = [](unsigned char c) { return !absl::ascii_isspace(c); };
    auto left = static_cast<size_t>(
        std::count_if(hypothesis_.text().begin(), hypothesis_.text().end(), is_written));
    Words& words = *hypothesis_.mutable_words();
    int num_left = 0;
    for (; num_left < words.size() && left > 0; ++num_left) {
      std::string& text = *words.Mutable(num_left)->mutable_text();
      text.resize(std::min(text.size(), left));
      left -= text.size();
    }
    words.DeleteSubrange(num_left, words.size() - num_left);
  }

  const bundle::TextCodec& codec_;
  const double frame_ms_;
  v1::Hypothesis& hypothesis_;
  int32_t before_ = -1;   // the last token that is part of the text
  bool goes_on_ = false;  // whether what follows may belong to the last word
  double log_prob_ = 0;   // of the last word's tokens
};

// Adds `weight` to the shares of the words that `other` has in the same place, by an alignment with
// the fewest substitutions, insertions and deletions. Subtracts the compared pairs from
// num_pairs_left; false: there are more.
bool AddShares(const Words& words, const Words& other, double weight, size_t& num_pairs_left,
               std::vector<double>& shares) {
  const auto equal = [&](int i, int j) { return words[i].text() == other[j].text(); };
  const int shortest = std::min(words.size(), other.size());
  int begin = 0;
  while (begin < shortest && equal(begin, begin)) {
    shares[static_cast<size_t>(begin++)] += weight;
  }
  int num_last = 0;
  while (begin + num_last < shortest &&
         equal(words.size() - num_last - 1, other.size() - num_last - 1)) {
    ++num_last;
    shares[static_cast<size_t>(words.size() - num_last)] += weight;
  }
  const auto rows = static_cast<size_t>(words.size() - begin - num_last);
  const auto columns = static_cast<size_t>(other.size() - begin - num_last);
  if (rows * columns > num_pairs_left) {
    return false;
  }
  num_pairs_left -= rows * columns;
  // costs[i][j]: of the first i words and j others.
  std::vector<std::vector<uint32_t>> costs(rows + 1, std::vector<uint32_t>(columns + 1));
  const auto same = [&](size_t i, size_t j) {
    return equal(begin + static_cast<int>(i) - 1, begin + static_cast<int>(j) - 1);
  };
  for (size_t i = 0; i <= rows; ++i) {
    for (size_t j = 0; j <= columns; ++j) {
      costs[i][j] = i == 0   ? static_cast<uint32_t>(j)
                    : j == 0 ? static_cast<uint32_t>(i)
                             : std::min({costs[i - 1][j] + 1, costs[i][j - 1] + 1,
                                         costs[i - 1][j - 1] + (same(i, j) ? 0 : 1)});
    }
  }
  for (size_t i = rows, j = columns; i > 0 && j > 0;) {
    const bool is_same = same(i, j);
    if (costs[i][j] == costs[i - 1][j - 1] + (is_same ? 0 : 1)) {
      shares[static_cast<size_t>(begin) + i - 1] += is_same ? weight : 0;
      --i;
      --j;
    } else if (costs[i][j] == costs[i - 1][j] + 1) {
      --i;
    } else {
      --j;
    }
  }
  return true;
}

void FillPosteriors(Hypotheses& hypotheses) {
  double most = -std::numeric_limits<double>::infinity();
  for (const v1::Hypothesis& hypothesis : hypotheses) {
    most = std::max(most, hypothesis.score());
  }
  if (!std::isfinite(most)) {
    return;
  }
  Words& words = *hypotheses[0].mutable_words();
  std::vector<double> shares(static_cast<size_t>(words.size()), 0);
  size_t num_pairs_left = kMostWordPairs;
  double sum = 0;
  for (const v1::Hypothesis& hypothesis : hypotheses) {
    const double weight = std::exp(hypothesis.score() - most);
    sum += weight;
    if (!AddShares(words, hypothesis.words(), weight, num_pairs_left, shares)) {
      return;
    }
  }
  for (int i = 0; i < words.size(); ++i) {
    words[i].set_posterior(std::min(shares[static_cast<size_t>(i)] / sum, 1.0));
  }
}

}  // namespace

void FillWords(const DecodeModel& model, Hypotheses& hypotheses) {
  for (v1::Hypothesis& hypothesis : hypotheses) {
    hypothesis.clear_words();
    if (!hypothesis.text().empty()) {
      WordReader(model, hypothesis).Run();
    }
  }
  if (!hypotheses.empty()) {
    FillPosteriors(hypotheses);
  }
}

// Align, as a call of Score: ToScoreRequest makes a pair of texts a source with one target, scored
// without end token; ToAlignResponse takes the tokens and their attention out of the answer. Errors
// of the scoring name fields of its request, which InAlignTerms renames to those of the caller's.

namespace {

// The field of the AlignRequest that "targets[0].text" and its like, of the request to score that
// was made of it, stand for.
std::string AlignedField(absl::string_view field) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"targets[0]", "target"},
      {"targets", "target"},
      {"sources", "pairs"},
      {"options.attention", "model"}};
  for (const auto& [scored, aligned] : kNames) {
    if (absl::ConsumePrefix(&field, scored)) {
      return absl::StrCat(aligned, field);
    }
  }
  return std::string(field);
}

}  // namespace

absl::StatusOr<v1::ScoreRequest> ToScoreRequest(v1::AlignRequest request) {
  if (request.pairs().empty()) {
    return status::InvalidField("pairs", "is empty; there is nothing to align");
  }
  v1::ScoreRequest score;
  score.set_model(request.model());
  score.set_version(request.version());
  for (v1::AlignPair& pair : *request.mutable_pairs()) {
    v1::ScoreSource& source = *score.add_sources();
    *source.mutable_source() = std::move(*pair.mutable_source());
    *source.add_targets() = std::move(*pair.mutable_target());
  }
  score.mutable_options()->set_end_token(false);
  score.mutable_options()->set_attention(request.soft() ? v1::ATTENTION_SOFT : v1::ATTENTION_HARD);
  return score;
}

v1::AlignResponse ToAlignResponse(v1::ScoreResponse response) {
  v1::AlignResponse answer;
  answer.set_model(response.model());
  answer.set_version(response.version());
  answer.set_numerics(response.numerics());
  for (v1::ScoreResult& result : *response.mutable_results()) {
    v1::AlignResult& out = *answer.add_results();
    if (result.has_error()) {
      *out.mutable_error() = std::move(*result.mutable_error());
      continue;
    }
    v1::Hypothesis& hypothesis = *result.mutable_scored()->mutable_targets(0)->mutable_hypothesis();
    v1::Alignment& alignment = *out.mutable_alignment();
    alignment.mutable_tokens()->Swap(hypothesis.mutable_tokens());
    alignment.mutable_positions()->Swap(hypothesis.mutable_alignment());
    if (hypothesis.has_attention()) {
      *alignment.mutable_attention() = std::move(*hypothesis.mutable_attention());
    }
    alignment.set_source_length(result.scored().source_length());
  }
  return answer;
}

absl::Status InAlignTerms(const absl::Status& status) {
  return status::WithFields(status, AlignedField);
}

}  // namespace beamwright::engine
