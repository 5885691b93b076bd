// The reader of n-gram models: whatever the bytes, a model whose probabilities are probabilities,
// or an error.
#include <vector>

#include "engine/fusion/arpa.h"
#include "ops/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using beamwright::fusion::NgramModel;
  constexpr int kTokens = 4;
  const auto model = beamwright::fusion::ReadArpa({reinterpret_cast<const char*>(data), size},
                                                  {kTokens, {0}}, [](absl::string_view word) {
                                                    return word == "a" ? 1 : word == "b" ? 2 : -1;
                                                  });
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
