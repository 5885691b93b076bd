#include "server/search/options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ops/base/status.h"

namespace beamwright::search {
namespace {

class Faults {
 public:
  void CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      Add(field, " is ", value, ", must be in [", low, ", ", high, "]");
    }
  }

  void CheckPositive(absl::string_view field, double value) {
    if (!(value > 0) || !std::isfinite(value)) {
      Add(field, " is ", value, ", must be finite and greater than 0");
    }
  }

  void CheckSequences(absl::string_view field, const std::vector<TokenSequence>& sequences,
                      int size) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::string name = absl::StrCat(field, "[", i, "]");
      if (sequences[i].empty()) {
        Add(name, " is empty");
      }
      CheckTokens(name, sequences[i], size);
    }
  }

  void CheckTokens(absl::string_view field, const std::vector<int32_t>& tokens, int size) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= size) {
        Add(field, "[", i, "] is ", tokens[i], ", must be in [0, vocabulary_size = ", size, ")");
      }
    }
  }

  template <typename... Pieces>
  void Add(const Pieces&... pieces) {
    faults_.push_back(absl::StrCat(pieces...));
  }

  absl::Status Result() const {
    return faults_.empty() ? absl::OkStatus()
                           : Invalid("search options: ", absl::StrJoin(faults_, "; "));
  }

 private:
  std::vector<std::string> faults_;
};

void CheckProcessors(const SearchOptions& options, Faults& faults) {
  const ProcessorOptions& processors = options.processors;
  const int size = options.vocabulary_size;
  faults.CheckPositive("repetition_penalty", processors.repetition_penalty);
  faults.CheckPositive("temperature", processors.temperature);
  faults.CheckRange("no_repeat_ngram", processors.no_repeat_ngram, 0, kMaxLength);
  faults.CheckTokens("suppressed", processors.suppressed, size);
  faults.CheckTokens("suppressed_at_begin", processors.suppressed_at_begin, size);
  faults.CheckSequences("suppressed_sequences", processors.suppressed_sequences, size);
  if (processors.min_length < 0 || processors.min_length > options.max_length) {
    faults.Add("min_length is ", processors.min_length,
               ", must be in [0, max_length = ", options.max_length, "]");
  }
}

}  // namespace

absl::Status Validate(const SearchOptions& options) {
  Faults faults;
  faults.CheckRange("beam_size", options.beam_size, 1, kMaxBeamSize);
  if (options.n_best < 1 || options.n_best > options.beam_size) {
    faults.Add("n_best is ", options.n_best, ", must be in [1, beam_size = ", options.beam_size,
               "]");
  }
  if (options.length_penalty > LengthPenalty::kGnmt) {
    faults.Add("length_penalty is ", static_cast<int>(options.length_penalty),
               ", must be none, pow or gnmt");
  }
  if (!(std::abs(options.alpha) <= kMaxAbsAlpha)) {
    faults.Add("alpha is ", options.alpha, ", must be in [", -kMaxAbsAlpha, ", ", kMaxAbsAlpha,
               "]");
  }
  if (options.stop > StopMode::kNever) {
    faults.Add("stop is ", static_cast<int>(options.stop), ", must be safe, first, count or never");
  }
  faults.CheckPositive("patience", options.patience);
  faults.CheckRange("max_length", options.max_length, 1, kMaxLength);
  if (options.vocabulary_size < 1) {
    faults.Add("vocabulary_size is ", options.vocabulary_size, ", must be at least 1");
  }
  if (options.begin_token < 0) {
    faults.Add("begin_token is ", options.begin_token, ", must be at least 0");
  }
  faults.CheckTokens("end_tokens", options.end_tokens, options.vocabulary_size);
  faults.CheckTokens("banned_tokens", options.banned_tokens, options.vocabulary_size);
  for (size_t i = 0; i < options.banned_tokens.size(); ++i) {
    const int32_t token = options.banned_tokens[i];
    if (std::count(options.end_tokens.begin(), options.end_tokens.end(), token) > 0) {
      faults.Add("banned_tokens[", i, "] is ", token, ", which is an end token");
    }
  }
  CheckProcessors(options, faults);
  return faults.Result();
}

}  // namespace beamwright::search
