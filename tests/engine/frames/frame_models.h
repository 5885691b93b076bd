// Models that are searched by frames, in the engine: what tests of CTC and of transducers share.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_FRAME_MODELS_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_FRAME_MODELS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "include/beamwright/engine.h"
#include "tests/engine/frames/ctc_bundle.h"

namespace beamwright::engine_testing {

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

inline ModelPtr Compiled(bundle::Bundle bundle, const engine::CompileOptions& options = {}) {
  auto model = engine::DecodeModel::Compile(std::move(bundle), options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

inline std::unique_ptr<engine::Engine> Started(int64_t max_bytes = int64_t{1} << 30) {
  engine::EngineOptions options;
  options.num_threads = 1;
  options.max_bytes = max_bytes;
  return *engine::Engine::Start(options);
}

// The message with which a source, or its options, are refused.
inline std::string FaultOf(const ModelPtr& model, const v1::Source& source,
                           const v1::DecodeOptions& options = {}) {
  const auto answer = Started()->DecodeAndWait(model, source, options);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  return std::string(answer.status().message());
}

// The best n of all labellings, most probable first.
inline std::vector<std::pair<Labels, Alignments>> BestOf(const std::map<Labels, Alignments>& all,
                                                         size_t n) {
  std::vector<std::pair<Labels, Alignments>> sorted(all.begin(), all.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.sum > b.second.sum; });
  sorted.resize(std::min(n, sorted.size()));
  return sorted;
}

inline std::string Bits(const v1::Decoded& decoded) {
  std::string bits;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    bits += hypothesis.SerializeAsString();
  }
  return bits;
}

// Requests by number, for Promise 1.
struct NumberedRequests {
  int count = 0;
  std::function<v1::Source(int)> source;
  std::function<v1::DecodeOptions(int)> options;
};

// What comes of all of them at once.
inline std::vector<std::string> DecodeTogether(const ModelPtr& model,
                                               const NumberedRequests& requests, int threads,
                                               int streams) {
  engine::EngineOptions options;
  options.num_threads = threads;
  options.num_streams = streams;
  const auto engine = *engine::Engine::Start(options);
  std::vector<std::string> answers(static_cast<size_t>(requests.count));
  absl::BlockingCounter open(requests.count);
  for (int i = 0; i < requests.count; ++i) {
    engine->Decode(model, requests.source(i), requests.options(i), {}, [&, i](auto answer) {
      EXPECT_TRUE(answer.ok()) << answer.status();
      answers[static_cast<size_t>(i)] = answer.ok() ? Bits(*answer) : "";
      open.DecrementCount();
    });
  }
  open.Wait();
  return answers;
}

// That they answer alike alone and together with these threads and streams.
inline void ExpectSameBits(const ModelPtr& model, const NumberedRequests& requests,
                           const std::vector<std::pair<int, int>>& threads_and_streams) {
  ASSERT_NE(model, nullptr);
  const auto alone = Started();
  std::vector<std::string> expected;
  for (int i = 0; i < requests.count; ++i) {
    const auto answer = alone->DecodeAndWait(model, requests.source(i), requests.options(i));
    ASSERT_TRUE(answer.ok()) << answer.status();
    expected.push_back(Bits(*answer));
  }
  for (const auto& [threads, streams] : threads_and_streams) {
    EXPECT_EQ(DecodeTogether(model, requests, threads, streams), expected)
        << threads << " threads, " << streams << " streams";
  }
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_FRAME_MODELS_H_
