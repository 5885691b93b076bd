// Decodes sources that gather behind an engine's first step, so that it finds all of them waiting.
#ifndef BEAMWRIGHT_TESTS_ENGINE_GATHERED_DECODE_H_
#define BEAMWRIGHT_TESTS_ENGINE_GATHERED_DECODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "include/beamwright/engine.h"

namespace beamwright::engine_testing {

// Holds the engine at its first step until it is opened.
class StepGate : public engine::EngineObserver {
 public:
  void OnEncode(const engine::DecodeModel&, int num_sources, int64_t, absl::Duration) override {
    groups.push_back(num_sources);
  }
  void OnStep(const engine::DecodeModel&, const engine::StepFacts&) override {
    if (!reached.HasBeenNotified()) {
      reached.Notify();
      open.WaitForNotification();
    }
  }

  std::vector<int> groups;  // sources of each encoder run; to be read when the engine is gone
  absl::Notification reached;
  absl::Notification open;
};

struct GatheredAnswers {
  std::vector<std::string> bits;  // by source: its hypotheses, or the error
  std::vector<int> groups;        // sources of each encoder run
  int num_failed = 0;             // answers that are errors
};

// together: the first source alone, then all of them at once; else one by one.
inline GatheredAnswers DecodeGathered(const std::shared_ptr<const engine::DecodeModel>& model,
                                      const std::vector<v1::Source>& sources,
                                      const v1::DecodeOptions& options,
                                      engine::EngineOptions engine_options, bool together) {
  StepGate gate;
  engine_options.observer = &gate;
  auto engine = *engine::Engine::Start(engine_options);
  GatheredAnswers answers{std::vector<std::string>(sources.size()), {}, 0};
  const auto decode = [&](size_t i, absl::BlockingCounter& left) {
    engine->Decode(model, sources[i], options, {}, [&answers, &left, i](auto decoded) {
      answers.num_failed += decoded.ok() ? 0 : 1;
      answers.bits[i] = decoded.ok() ? "" : decoded.status().ToString();
      for (int h = 0; decoded.ok() && h < decoded->hypotheses_size(); ++h) {
        answers.bits[i] += decoded->hypotheses(h).SerializeAsString();
      }
      left.DecrementCount();
    });
  };
  if (together) {
    absl::BlockingCounter left(static_cast<int>(sources.size()) + 1);
    decode(0, left);
    gate.reached.WaitForNotification();
    for (size_t i = 0; i < sources.size(); ++i) {
      decode(i, left);
    }
    gate.open.Notify();
    left.Wait();
  } else {
    gate.open.Notify();
    for (size_t i = 0; i < sources.size(); ++i) {
      absl::BlockingCounter one(1);
      decode(i, one);
      one.Wait();
    }
  }
  engine.reset();
  answers.groups = gate.groups;
  return answers;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_GATHERED_DECODE_H_
