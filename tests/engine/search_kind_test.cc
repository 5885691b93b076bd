// A search that is not a beam search over tokens goes through the same engine: a prefix search over
// CTC frames. In a step only some of its requests move on, most steps yield no token, prefixes that
// become equal are merged, and it is priced and forecast by frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "absl/synchronization/blocking_counter.h"
#include "engine/model/model_inputs.h"
#include "engine/options/decode_options.h"
#include "engine/request/prepared_source.h"
#include "engine/request/request.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::kBlank;
using engine_testing::kVocabulary;
using Labels = std::vector<int32_t>;
using ModelPtr = std::shared_ptr<const DecodeModel>;

// Requests that move on in a step; the others hold.
constexpr size_t kMostMoved = 2;
constexpr int64_t kBytesPerFrame = 1000;

// What the frames so far say of a prefix, by whether the last of them is blank.
struct Ends {
  double blank = 0;
  double label = 0;
};

struct FrameRequest : Request {
  std::vector<float> probs;  // [frames, kVocabulary]
  size_t next = 0;           // frame
  std::map<Labels, Ends> prefixes{{{}, {1, 0}}};

  absl::Status Start(const ops::ExecutionContext& /*context*/, const EncodedSources& encoded,
                     int64_t row) override {
    constexpr int kCtc = 1;  // the encoder's second result
    BW_ASSIGN_OR_RETURN(const ops::Tensor own,
                        ResultOfSource(*model->parts().encoder(), encoded.outputs[0],
                                       encoded.num_sources, row, kCtc, "frames"));
    probs.assign(own.data<float>(), own.data<float>() + own.num_elements());
    return absl::OkStatus();
  }
  absl::Status StartAlone(const ops::ExecutionContext& /*context*/) override {
    return absl::UnimplementedError("it needs an encoder");
  }
  int CountSteps(const v1::Decoded& /*answer*/) const override { return source.source_length; }

  bool done() const { return next * kVocabulary == probs.size(); }
  // A frame.
  void Advance() {
    const float* const frame = &probs[next++ * kVocabulary];
    std::map<Labels, Ends> extended;
    for (const auto& [prefix, ends] : prefixes) {
      extended[prefix].blank += (ends.blank + ends.label) * frame[kBlank];
      for (int32_t label = 0; label < kVocabulary; ++label) {
        if (label == kBlank) {
          continue;
        }
        const bool repeats = !prefix.empty() && prefix.back() == label;
        if (repeats) {
          extended[prefix].label += ends.label * frame[label];
        }
        Labels longer = prefix;
        longer.push_back(label);
        extended[longer].label += (repeats ? ends.blank : ends.blank + ends.label) * frame[label];
      }
    }
    prefixes = std::move(extended);
  }
  v1::Decoded Answer() const {
    const auto best =
        std::max_element(prefixes.begin(), prefixes.end(), [](const auto& a, const auto& b) {
          return a.second.blank + a.second.label < b.second.blank + b.second.label;
        });
    v1::Decoded answer;
    v1::Hypothesis& hypothesis = *answer.add_hypotheses();
    hypothesis.mutable_tokens()->Assign(best->first.begin(), best->first.end());
    hypothesis.set_log_prob(static_cast<float>(std::log(best->second.blank + best->second.label)));
    answer.set_steps(static_cast<int>(next));
    return answer;
  }
};

class FrameDriver : public Driver {
 public:
  explicit FrameDriver(ModelPtr model) : model_(std::move(model)) {}

  void Join(std::unique_ptr<Request> request) override {
    requests_.emplace_back(static_cast<FrameRequest*>(request.release()));
  }
  absl::Duration Step(const ops::ExecutionContext& /*context*/, EngineObserver* /*observer*/,
                      Underway* /*underway*/) override {
    AnswerMeanwhile(SteadyNow(), absl::OkStatus(), nullptr);
    size_t num_moved = 0;
    for (const auto& request : requests_) {
      if (request->is_answered || num_moved == kMostMoved) {
        continue;
      }
      ++num_moved;
      request->Advance();
      request->row_steps += request->beam_size;
      if (request->done()) {
        ++num_done_;
        request->Give(request->Answer());
      }
    }
    std::erase_if(requests_, [](const auto& request) { return request->is_answered; });
    // Others hold next time.
    std::rotate(requests_.begin(), requests_.begin() + (requests_.empty() ? 0 : 1),
                requests_.end());
    return absl::ZeroDuration();
  }
  void AnswerMeanwhile(absl::Time now, const absl::Status& end,
                       EngineObserver* /*observer*/) override {
    for (const auto& request : requests_) {
      const absl::Status status = end.ok() ? request->CheckAlive(now) : end;
      if (!status.ok()) {
        request->Fail(status);
      }
    }
  }
  void FailAll(const absl::Status& why) override {
    has_failed_ = true;
    End(why);
  }
  void End(const absl::Status& why) override {
    for (const auto& request : requests_) {
      request->Fail(why);
    }
    requests_.clear();
  }
  Reserved reserved() const override { return ReservedFor(requests_); }
  int64_t most_bytes() const override { return 0; }
  int64_t num_done() const override { return num_done_; }
  bool has_failed() const override { return has_failed_; }
  ModelPtr Suspend() override { return std::move(model_); }
  void Resume(ModelPtr model) override { model_ = std::move(model); }

 private:
  ModelPtr model_;
  std::vector<std::unique_ptr<FrameRequest>> requests_;
  int64_t num_done_ = 0;
  bool has_failed_ = false;
};

class FrameKind : public SearchKind {
 public:
  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(const EngineOptions& limits, ModelPtr model,
                                                       PreparedSource source,
                                                       const ResolvedOptions& options,
                                                       const CallOptions& call) const override {
    auto request = std::make_unique<FrameRequest>();
    request->source = std::move(source);
    request->call = call;
    request->accepted = SteadyNow();
    request->started = absl::InfinitePast();
    request->beam_size = options.search.beam_size;
    request->max_steps = request->source.source_length;
    request->knows_steps = true;
    request->price_bytes = kBytesPerFrame * request->source.source_length;
    if (request->price_bytes > limits.max_bytes) {
      return absl::ResourceExhaustedError("too many frames");
    }
    request->model = std::move(model);
    return request;
  }
  absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      const EngineOptions& /*limits*/, ModelPtr /*model*/, const v1::ScoreSource& /*source*/,
      const v1::ScoreOptions& /*options*/, const CallOptions& /*call*/) const override {
    return absl::UnimplementedError("frames are not scored");
  }
  std::unique_ptr<Driver> MakeDriver(ModelPtr model) const override {
    return std::make_unique<FrameDriver>(std::move(model));
  }
};

ModelPtr Compiled(const SearchKind* kind) {
  CompileOptions options;
  options.search = kind;
  auto model = DecodeModel::Compile(engine_testing::FusedBundle({}), options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<Engine> Started(EngineObserver* observer = nullptr, int max_rows = 1000) {
  EngineOptions options;
  options.num_threads = 1;
  options.max_rows = max_rows;
  options.observer = observer;
  return *Engine::Start(options);
}

v1::Source Ids(const Labels& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  return source;
}

v1::DecodeOptions Options() {
  v1::DecodeOptions options;
  options.set_beam_size(3);
  return options;
}

// The probability of every labelling, from all ways to spell it frame by frame.
std::map<Labels, double> AllLabellings(const Labels& ids) {
  const std::vector<float> table = engine_testing::CtcTable();
  std::map<Labels, double> sums;
  std::vector<int32_t> path(ids.size());
  const auto num_paths = static_cast<int64_t>(std::pow(kVocabulary, ids.size()));
  for (int64_t number = 0; number < num_paths; ++number) {
    double probability = 1;
    Labels labels;
    int32_t last = kBlank;
    int64_t rest = number;
    for (const int32_t id : ids) {
      const auto column = static_cast<int32_t>(rest % kVocabulary);
      rest /= kVocabulary;
      probability *= table[static_cast<size_t>(id * kVocabulary + column)];
      if (column != kBlank && column != last) {
        labels.push_back(column);
      }
      last = column;
    }
    sums[labels] += probability;
  }
  return sums;
}

TEST(SearchKindTest, AnotherSearchSharesTheEngineWithBeamSearch) {
  const FrameKind kind;
  const ModelPtr frames = Compiled(&kind);
  const ModelPtr tokens = Compiled(nullptr);
  const auto engine = Started();
  constexpr int kSources = 24;
  std::vector<Labels> sources;
  for (int i = 0; i < kSources; ++i) {
    Labels& ids = sources.emplace_back();
    for (int frame = 0; frame <= i % 5; ++frame) {
      ids.push_back((i * 7 + frame * frame * 3) % engine_testing::kSourceIds);
    }
  }
  std::vector<absl::StatusOr<v1::Decoded>> answers(kSources);
  std::vector<absl::StatusOr<v1::Decoded>> decoded(kSources);
  absl::BlockingCounter open(2 * kSources);
  for (size_t i = 0; i < kSources; ++i) {
    engine->Decode(frames, Ids(sources[i]), Options(), {}, [&, i](auto answer) {
      answers[i] = std::move(answer);
      open.DecrementCount();
    });
    engine->Decode(tokens, Ids(sources[i]), Options(), {}, [&, i](auto answer) {
      decoded[i] = std::move(answer);
      open.DecrementCount();
    });
  }
  open.Wait();
  for (size_t i = 0; i < kSources; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
    EXPECT_EQ(answers[i]->steps(), sources[i].size());
    const v1::Hypothesis& best = answers[i]->hypotheses(0);
    const std::map<Labels, double> all = AllLabellings(sources[i]);
    const auto found = all.find(Labels(best.tokens().begin(), best.tokens().end()));
    ASSERT_NE(found, all.end());
    EXPECT_NEAR(best.log_prob(), std::log(found->second), 1e-5);
    for (const auto& [labels, probability] : all) {
      EXPECT_LE(probability, found->second * (1 + 1e-5));
    }
    const auto alone = Started()->DecodeAndWait(tokens, Ids(sources[i]), Options());
    ASSERT_TRUE(alone.ok() && decoded[i].ok());
    EXPECT_EQ(alone->hypotheses(0).SerializeAsString(),
              decoded[i]->hypotheses(0).SerializeAsString());
  }
  EXPECT_TRUE(engine->idle());
  EXPECT_EQ(engine->load().bytes, 0);
}

TEST(SearchKindTest, ADriverIsParkedAndUsedAgain) {
  const FrameKind kind;
  const ModelPtr model = Compiled(&kind);
  {
    const auto engine = Started();
    EXPECT_TRUE(engine->DecodeAndWait(model, Ids({1, 2}), Options()).ok());
    EXPECT_TRUE(engine->DecodeAndWait(model, Ids({3}), Options()).ok());
  }
  EXPECT_EQ(model->parked_drivers().num_drivers(), 1);
}

// Of the last source that ended.
class LastFacts : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {}
  void OnStep(const DecodeModel&, const StepFacts&) override {}
  void OnEnd(const DecodeModel& /*model*/, const SourceFacts& facts) override { last = facts; }
  SourceFacts last;
};

TEST(SearchKindTest, PricesWorkAndErrorsAreTheKindsOwn) {
  const FrameKind kind;
  const ModelPtr model = Compiled(&kind);
  LastFacts facts;
  const auto engine = Started(&facts);
  ASSERT_TRUE(engine->DecodeAndWait(model, Ids({1, 2, 3, 4}), Options()).ok());
  engine->Drain();
  EXPECT_EQ(facts.last.row_steps, 4 * 3);
  EXPECT_TRUE(absl::IsUnavailable(engine->DecodeAndWait(model, Ids({1}), Options()).status()));
  EXPECT_TRUE(
      absl::IsUnimplemented(Started()->ScoreAndWait(model, v1::ScoreSource(), {}).status()));
  EngineOptions small;
  small.num_threads = 1;
  small.max_bytes = 3 * kBytesPerFrame;
  const auto tight = *Engine::Start(small);
  EXPECT_TRUE(tight->DecodeAndWait(model, Ids({1, 2, 3}), Options()).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      tight->DecodeAndWait(model, Ids({1, 2, 3, 4}), Options()).status()));
}

TEST(SearchKindTest, EveryRequestIsAnsweredWhenTheEngineEnds) {
  const FrameKind kind;
  const ModelPtr model = Compiled(&kind);
  const auto engine = Started(nullptr, /*max_rows=*/3);
  constexpr int kSources = 50;
  absl::BlockingCounter open(kSources);
  std::atomic<int> num_failed{0};
  for (int i = 0; i < kSources; ++i) {
    engine->Decode(model, Ids({i % 5, 1, 2, 3, 4}), Options(), {}, [&](auto answer) {
      num_failed += answer.ok() || absl::IsAborted(answer.status()) ? 0 : 1;
      open.DecrementCount();
    });
  }
  engine->End(absl::AbortedError("the end"));
  open.Wait();
  EXPECT_EQ(num_failed, 0);
}

TEST(SearchKindTest, AnExpiredDeadlineIsTold) {
  const FrameKind kind;
  const ModelPtr model = Compiled(&kind);
  CallOptions call;
  call.deadline = SteadyNow() - absl::Seconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Started()->DecodeAndWait(model, Ids({1, 2}), Options(), call).status()));
}

}  // namespace
}  // namespace beamwright::engine
