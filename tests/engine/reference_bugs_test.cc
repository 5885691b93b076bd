// Faults that were found in other decoders, as tests of this one: each names where it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/synchronization/blocking_counter.h"
#include "engine/beam/beam_request.h"
#include "include/beamwright/engine.h"
#include "ops/loop/loop_body.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::kVocabulary;
using engine_testing::RandomTable;
using engine_testing::TableBundle;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

class ReferenceBugsTest : public ::testing::Test {
 protected:
  // Answers of all sources in one batch.
  std::vector<absl::StatusOr<v1::Decoded>> Together(const std::vector<v1::Source>& sources,
                                                    const v1::DecodeOptions& options) {
    const auto engine = *Engine::Start({2, 1024, 10000});
    std::vector<absl::StatusOr<v1::Decoded>> answers(sources.size());
    absl::BlockingCounter left(static_cast<int>(sources.size()));
    for (size_t i = 0; i < sources.size(); ++i) {
      engine->Decode(model_, sources[i], options, {}, [&, i](absl::StatusOr<v1::Decoded> decoded) {
        answers[i] = std::move(decoded);
        left.DecrementCount();
      });
    }
    left.Wait();
    return answers;
  }
  absl::StatusOr<v1::Decoded> Alone(const v1::Source& source, const v1::DecodeOptions& options) {
    return Together({source}, options)[0];
  }

  std::shared_ptr<const DecodeModel> model_ =
      *DecodeModel::Compile(TableBundle(RandomTable(31), {}));
};

// ONNX Runtime's beam scorer read the best live sum of another batch entry (stride of one buffer,
// offset of another), so that neighbours decided when a search ended. Transformers' stop heuristic
// looked at the whole batch (PR 38778).
TEST_F(ReferenceBugsTest, ASearchEndsByItsOwnSums) {
  std::vector<v1::Source> sources;
  for (int32_t i = 0; i < 40; ++i) {
    sources.push_back(Ids({i}));
  }
  v1::DecodeOptions options;
  options.set_length_penalty(v1::LENGTH_PENALTY_POW);
  options.set_max_length(30);
  const auto answers = Together(sources, options);
  std::map<int, int> steps;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto alone = Alone(sources[i], options);
    ASSERT_TRUE(answers[i].ok() && alone.ok());
    EXPECT_EQ(answers[i]->steps(), alone->steps());
    EXPECT_EQ(answers[i]->hypotheses(0).score(), alone->hypotheses(0).score());
    ++steps[alone->steps()];
  }
  EXPECT_GT(steps.size(), 2u) << "the sources must differ in length, or this shows nothing";
}

// TensorFlow Addons' GatherTree refused parents above the beam width, not those equal to it. Here
// paths that name a slot outside the search's own are refused before they are followed.
TEST_F(ReferenceBugsTest, ASlotBeyondTheLastIsNotFollowed) {
  search::SearchOptions options;
  options.beam_size = 2;
  options.vocabulary_size = 3;
  options.max_length = 1;
  options.end_tokens = {0};
  auto search = search::BeamSearch::Create(options);
  ASSERT_TRUE(search.ok());
  const std::vector<int32_t> tokens = {1, 2};
  const std::vector<float> log_probs = {-1, -2};
  ASSERT_TRUE(search->Advance({search::RowCandidates{tokens, log_probs}}).ok());
  for (const int32_t slot : {search->num_slots(), -1}) {
    const std::vector<int32_t> paths(static_cast<size_t>(search->num_slots()), slot);
    EXPECT_EQ(search->Collect({paths, search->num_slots()}).status().code(),
              absl::StatusCode::kInternal);
  }
}

// CTranslate2 picked rows of the vocabulary's scores by a product of batch and beam.
TEST_F(ReferenceBugsTest, AlternativesOfAPositionAreThoseOfItsOwnRow) {
  v1::DecodeOptions options;
  options.set_beam_size(6);
  options.set_n_best(6);
  options.set_top_tokens(kVocabulary);
  std::vector<v1::Source> sources = {Ids({1}), Ids({2, 3}), Ids({9})};
  for (const auto& answer : Together(sources, options)) {
    ASSERT_TRUE(answer.ok());
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      for (int i = 0; i < hypothesis.tokens_size(); ++i) {
        // The token itself is among all tokens of its row, with the log-probability it counts with.
        const v1::TopTokens& tops = hypothesis.top_tokens(i);
        const auto at = std::find(tops.tokens().begin(), tops.tokens().end(), hypothesis.tokens(i));
        ASSERT_NE(at, tops.tokens().end());
        EXPECT_EQ(tops.log_probs(static_cast<int>(at - tops.tokens().begin())),
                  hypothesis.token_log_probs(i));
      }
    }
  }
}

// TensorFlow's dynamic_decode recorded lengths by slot, not by path (TF #13536).
TEST_F(ReferenceBugsTest, LengthsAreThoseOfThePath) {
  v1::DecodeOptions options;
  options.set_beam_size(8);
  options.set_n_best(8);
  options.set_max_length(12);
  options.set_stop(v1::STOP_MODE_NEVER);
  const auto answer = Alone(Ids({5}), options);
  ASSERT_TRUE(answer.ok());
  std::map<int, int> lengths;
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    EXPECT_EQ(hypothesis.tokens_size(), hypothesis.token_log_probs_size());
    EXPECT_EQ(std::count(hypothesis.tokens().begin(), hypothesis.tokens().end() - 1, 1), 0)
        << "nothing follows an end token";
    ++lengths[hypothesis.tokens_size()];
  }
  EXPECT_GT(lengths.size(), 1u);
}

// CTranslate2 before 2.5.1 gathered beams in place and read rows that it had overwritten.
TEST_F(ReferenceBugsTest, RowsMayBeRepeatedAndSwapped) {
  const std::vector<int32_t> values = {10, 11, 20, 21, 30, 31};
  const ops::Tensor rows = ops::Tensor::Of<int32_t>({3, 2}, values);
  const std::vector<int32_t> parents = {1, 0, 0, 2, 1};
  ops::Tensor gathered;
  ASSERT_TRUE(ops::GatherRows(rows, {}, 0, parents, gathered));
  EXPECT_THAT(gathered.span<int32_t>(), ElementsAre(20, 21, 10, 11, 10, 11, 30, 31, 20, 21));
}

// TensorRT-LLM compared the end token with a slot's number, and wrote past a full list (PR 15621).
TEST_F(ReferenceBugsTest, EndTokensAreNoSlotsAndFullListsStayFull) {
  search::SearchOptions options;
  options.beam_size = 8;
  options.n_best = 2;
  options.vocabulary_size = 16;
  options.max_length = 5;
  options.end_tokens = {0, 1, 2, 3, 4, 5, 6, 7};  // all numbers of rows
  options.stop = search::StopMode::kNever;
  auto search = search::BeamSearch::Create(options);
  ASSERT_TRUE(search.ok());
  std::vector<int32_t> tokens(16);
  std::vector<float> log_probs(16);
  for (int32_t i = 0; i < 16; ++i) {
    tokens[static_cast<size_t>(i)] = i;
    log_probs[static_cast<size_t>(i)] = -1 - static_cast<float>(i) / 16;
  }
  while (!search->done()) {
    const std::vector<search::RowCandidates> rows(static_cast<size_t>(search->num_rows()),
                                                  {tokens, log_probs});
    for (const int32_t token : search->tokens()) {
      EXPECT_GE(token, search->history().num_steps() == 0 ? 0 : 8) << "an end token lives on";
    }
    ASSERT_TRUE(search->Advance(rows).ok());
  }
  EXPECT_EQ(search->num_finished(), 5 * 8);
  const search::BeamSearch* const one = &*search;
  const auto lists = Finalise(ops::ExecutionContext(), absl::MakeConstSpan(&one, 1));
  ASSERT_TRUE(lists[0].ok()) << lists[0].status();
  EXPECT_THAT(*lists[0], SizeIs(2));
}

// Marian #582: an empty sentence in a batch broke the pruning of the others.
TEST_F(ReferenceBugsTest, AnEmptySourceFailsAlone) {
  const auto answers = Together({Ids({1, 2}), Ids({}), Ids({3})}, {});
  EXPECT_TRUE(answers[0].ok());
  EXPECT_THAT(answers[1].status().message(), HasSubstr("source is empty"));
  EXPECT_TRUE(answers[2].ok());
}

// Transformers #14612: scores of tokens were read by a row's number at that step, not along the
// path.
TEST_F(ReferenceBugsTest, TokenScoresFollowThePath) {
  v1::DecodeOptions options;
  options.set_beam_size(8);
  options.set_n_best(8);
  const std::vector<float> table = RandomTable(31);
  const auto answer = Alone(Ids({17}), options);
  ASSERT_TRUE(answer.ok());
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    int64_t state = engine_testing::NextState(17, engine_testing::kBegin);
    for (int i = 0; i < hypothesis.tokens_size(); ++i) {
      EXPECT_EQ(hypothesis.token_log_probs(i),
                table[static_cast<size_t>(state * kVocabulary + hypothesis.tokens(i))]);
      state = engine_testing::NextState(state, hypothesis.tokens(i));
    }
  }
}

// Sherpa's offline decoder counted a hotword's bonus in the model's score and once more in
// addition.
TEST_F(ReferenceBugsTest, ABonusCountsOnceAndBesideTheLogProbability) {
  v1::DecodeOptions options;
  options.set_beam_size(8);
  options.set_n_best(8);
  v1::Hotword& hotword = *options.add_hotwords();
  hotword.mutable_ids()->add_ids(3);
  hotword.set_bonus(0.5f);
  const auto answer = Alone(Ids({17}), options);
  ASSERT_TRUE(answer.ok());
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    const auto count = std::count(hypothesis.tokens().begin(), hypothesis.tokens().end(), 3);
    EXPECT_EQ(hypothesis.reward(), 0.5 * static_cast<double>(count));
    double sum = 0;
    for (const float log_prob : hypothesis.token_log_probs()) {
      sum += static_cast<double>(log_prob);
    }
    EXPECT_EQ(hypothesis.log_prob(), sum);
    EXPECT_EQ(hypothesis.score(), hypothesis.log_prob() + hypothesis.reward());
  }
}

}  // namespace
}  // namespace beamwright::engine
