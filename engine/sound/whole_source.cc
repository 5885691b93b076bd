// Normalizations of features that need all frames of a source, or all its samples: a floor below
// the largest value as Whisper has it (RaiseToRange), mean and deviation of each column as NeMo has
// it (NormalizeColumns), those of the samples as wav2vec 2.0 has it (NormalizeSamples). Sums are
// taken in double.
//
// Also here: stacking of neighbouring frames (StackFrames), in which the first and last frame are
// repeated at the ends, and mean and scale from a Kaldi file (ParseCmvn, ApplyCmvn).
#include "engine/sound/whole_source.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright::sound {
namespace {

constexpr double kNemoEpsilon = 1e-5;
constexpr double kSampleEpsilon = 1e-7;

// The numbers between the first brackets behind `name`.
absl::StatusOr<std::vector<float>> NumbersBehind(absl::string_view text, absl::string_view name) {
  const size_t begin = text.find('[', std::min(text.find(name), text.size()));
  const size_t end = text.find(']', std::min(begin, text.size()));
  if (end == absl::string_view::npos) {
    return Invalid("has no ", name, " with numbers in brackets");
  }
  std::vector<float> numbers;
  const absl::string_view inside = text.substr(begin + 1, end - begin - 1);
  for (const absl::string_view word :
       absl::StrSplit(inside, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    float number = 0;
    if (!absl::SimpleAtof(word, &number) || !std::isfinite(number)) {
      return Invalid(name, ": '", word, "' is not a number");
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void RaiseToRange(float range, std::vector<float>& features) {
  if (range <= 0 || features.empty()) {
    return;
  }
  const float least = *std::max_element(features.begin(), features.end()) - range;
  for (float& feature : features) {
    feature = std::max(feature, least);
  }
}

void NormalizeColumns(size_t columns, std::vector<float>& features) {
  const size_t frames = features.size() / columns;
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    double squares = 0;
    for (size_t frame = 0; frame < frames; ++frame) {
      sum += features[frame * columns + column];
    }
    const double mean = sum / static_cast<double>(frames);
    for (size_t frame = 0; frame < frames; ++frame) {
      const double away = features[frame * columns + column] - mean;
      squares += away * away;
    }
    const double deviation = frames > 1 ? std::sqrt(squares / static_cast<double>(frames - 1)) : 0;
    for (size_t frame = 0; frame < frames; ++frame) {
      float& value = features[frame * columns + column];
      value = static_cast<float>((value - mean) / (deviation + kNemoEpsilon));
    }
  }
}

void NormalizeSamples(std::vector<float>& samples) {
  const auto count = static_cast<double>(samples.size());
  double sum = 0;
  double squares = 0;
  for (const float sample : samples) {
    sum += sample;
  }
  for (const float sample : samples) {
    squares += (sample - sum / count) * (sample - sum / count);
  }
  for (float& sample : samples) {
    sample =
        static_cast<float>((sample - sum / count) / std::sqrt(squares / count + kSampleEpsilon));
  }
}

void StackFrames(int columns, int stack, int shift, std::vector<float>& features) {
  if (stack == 1) {
    return;
  }
  const int64_t frames = static_cast<int64_t>(features.size()) / columns;
  std::vector<float> stacked;
  for (int64_t first = 0; first < frames; first += shift) {
    for (int64_t i = 0; i < stack; ++i) {
      const int64_t frame = std::clamp<int64_t>(first + i - (stack - 1) / 2, 0, frames - 1);
      const auto begin = features.begin() + frame * columns;
      stacked.insert(stacked.end(), begin, begin + columns);
    }
  }
  features = std::move(stacked);
}

absl::StatusOr<Cmvn> ParseCmvn(absl::string_view text) {
  Cmvn cmvn;
  BW_ASSIGN_OR_RETURN(cmvn.shift, NumbersBehind(text, "<AddShift>"));
  BW_ASSIGN_OR_RETURN(cmvn.scale, NumbersBehind(text, "<Rescale>"));
  if (cmvn.shift.empty() || cmvn.shift.size() != cmvn.scale.size()) {
    return Invalid("<AddShift> has ", cmvn.shift.size(), " numbers and <Rescale> ",
                   cmvn.scale.size());
  }
  return cmvn;
}

void ApplyCmvn(const Cmvn& cmvn, std::vector<float>& features) {
  const size_t columns = cmvn.shift.size();
  for (size_t i = 0; columns > 0 && i < features.size(); ++i) {
    features[i] = (features[i] + cmvn.shift[i % columns]) * cmvn.scale[i % columns];
  }
}

}  // namespace beamwright::sound
