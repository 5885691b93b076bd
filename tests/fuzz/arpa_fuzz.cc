// The readers of n-gram models, ARPA's and KenLM's, in gzip or not: whatever the bytes, a model
// whose probabilities are probabilities, or an error.
#include <string>
#include <vector>

#include "engine/fusion/ngram_files.h"
#include "ops/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using beamwright::fusion::NgramModel;
  constexpr int kTokens = 4;
  std::string content(reinterpret_cast<const char*>(data), size);
  if (beamwright::fusion::IsGzip(content)) {
    content = beamwright::fusion::UnpackGzip(content).value_or("");
  }
  const auto token_of = [](absl::string_view word) {
    return word == "a" ? 1 : word == "b" ? 2 : -1;
  };
  const auto word_of = [](int32_t token) { return std::string(1, "?ab!"[token]); };
  const auto model =
      beamwright::fusion::IsKenlm(content)
          ? beamwright::fusion::ReadKenlm(content, {kTokens, {0}}, {token_of, word_of})
          : beamwright::fusion::ReadArpa(content, {kTokens, {0}}, token_of);
  if (!model.ok()) {
    return 0;
  }
  NgramModel::State state = (*model)->Start();
  for (const int32_t token : {1, 2, 2, 3, 1}) {
    std::vector<float> log_probs(kTokens);
    (*model)->Score(state, absl::MakeSpan(log_probs));
    for (const float log_prob : log_probs) {
      BW_CHECK(log_prob <= 0);
    }
    state = (*model)->Next(state, token);
  }
  return 0;
}
