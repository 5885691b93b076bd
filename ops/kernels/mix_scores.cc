#include "ops/kernels/mix_scores.h"

#include <limits>

#include "ops/base/status.h"
#include "ops/kernels/math.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kRounding = 0.01f;

bool Fits(float x, ScoreKind kind) {
  switch (kind) {
    case ScoreKind::kLogits:
      return x < kInfinity;  // NaN compares false
    case ScoreKind::kLogProbs:
      return x <= kRounding;
    case ScoreKind::kProbabilities:
      return x >= 0 && x <= 1 + kRounding;
  }
  return false;
}

}  // namespace

absl::Status ToLogProbs(absl::Span<const float> scores, ScoreKind kind, absl::Span<float> log_probs,
                        float* shift_taken) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!Fits(scores[i], kind)) {
      return Invalid("scores[", i, "]: ", scores[i],
                     kind == ScoreKind::kLogits ? " is not a number below infinity"
                     : kind == ScoreKind::kLogProbs
                         ? " is not a log-probability, expected at most 0"
                         : " is not a probability, expected [0, 1]");
    }
  }
  const float shift = kind == ScoreKind::kLogits ? LogSumExp(scores) : 0;
  if (shift_taken != nullptr) {
    *shift_taken = shift;
  }
  const bool is_prob = kind == ScoreKind::kProbabilities;
  const float* const x = scores.data();
  float* const out = log_probs.data();
  const size_t count = scores.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      const float log_prob = is_prob ? Log(x[i]) : x[i] == -kInfinity ? -kInfinity : x[i] - shift;
      out[i] = log_prob > 0 ? 0 : log_prob;
    }
  });
  return absl::OkStatus();
}

absl::Status MixScores(absl::Span<MixPart> parts, MixKind kind, std::vector<float>& scratch,
                       std::vector<float>& logits) {
  const size_t count = parts.empty() ? 0 : parts[0].scores.size();
  scratch.resize(count);
  logits.assign(count, 0);
  float* const out = logits.data();
  const float* const x = scratch.data();
  for (size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].scores.size() != count) {
      return Invalid("decoder ", part, " gave ", parts[part].scores.size(),
                     " scores, the first one ", count);
    }
    BW_RETURN_IF_ERROR(Annotate(ToLogProbs(parts[part].scores, parts[part].kind,
                                           absl::MakeSpan(scratch), &parts[part].shift),
                                absl::StrCat("decoder ", part)));
    const float weight = parts[part].weight;
    const bool probs = kind == MixKind::kProbs;
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        out[i] = out[i] + weight * (probs ? Exp(x[i]) : x[i]);
      }
    });
  }
  if (kind == MixKind::kProbs) {
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        out[i] = Log(out[i]);
      }
    });
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
