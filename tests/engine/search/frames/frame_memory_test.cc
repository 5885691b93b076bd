// Frames of blank cost no memory, and steady frames allocate nothing.
#include <random>
#include <string>
#include <vector>

#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/transducer_search.h"
#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/ops/loop/counted_allocations.h"
#include "tests/support/sanitized.h"

namespace beamwright::search {
namespace {

using frames_testing::RandomLogProbs;
using testing_support::CountAllocations;
using testing_support::CountedAllocations;
using testing_support::kSanitized;
using testing_support::StopCounting;

constexpr int kVocabulary = 8;
constexpr int kNumFrames = kSanitized ? 50000 : 1000000;
constexpr int kWarmUp = 3000;

// Labels have small chances, so that hypotheses with one more come and go.
std::vector<float> BlankRow(std::mt19937& random) {
  std::vector<float> row = RandomLogProbs(kVocabulary, 0, random);
  row[0] = -1e-5f;
  for (size_t i = 1; i < row.size(); ++i) {
    row[i] -= 12;
  }
  return row;
}

FrameOptions Options(FrameKind kind) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = kVocabulary;
  options.hotwords = {{{1, 2, 3}, 2}, {{2, 2}, 1}};
  options.suppressed_sequences = {{5, 6}};
  return options;
}

TEST(FrameMemoryTest, AMillionFramesOfBlankInCtcAllocateNothing) {
  std::mt19937 random(15);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 100; ++i) {
    rows.push_back(BlankRow(random));
  }
  CtcSearch search(*FramePlan::Create(Options(FrameKind::kCtc)));
  search.AddFrames(kWarmUp + kNumFrames);
  for (int i = 0; i < kWarmUp; ++i) {
    const bool speaks = i < 300;
    ASSERT_TRUE(search.Advance(speaks ? RandomLogProbs(kVocabulary, 0, random) : rows[0]).ok());
  }
  CountAllocations();
  bool ok = true;
  for (size_t i = 0; i < kNumFrames; ++i) {
    ok = ok && search.Advance(rows[i % rows.size()]).ok();
  }
  const CountedAllocations counted = StopCounting();
  EXPECT_TRUE(ok);
  EXPECT_EQ(counted.count, 0) << counted.callers;
  EXPECT_GE(search.trailing_blanks(), kNumFrames);
}

// One round: every row of the joiner looks like `row`.
bool Round(const std::vector<float>& row, TransducerSearch& search,
           std::vector<FrameCandidates>& found) {
  static const std::vector<int32_t> labels = {1, 2, 3, 4, 5, 6, 7};
  static std::vector<std::vector<float>> watched;
  found.clear();
  watched.resize(std::max(watched.size(), search.rows().size()));
  for (size_t i = 0; i < search.rows().size(); ++i) {
    watched[i].clear();
    for (const int32_t token : search.rules()[i].watched) {
      watched[i].push_back(row[static_cast<size_t>(token)]);
    }
    found.push_back({labels, absl::MakeConstSpan(row).subspan(1), watched[i], {}, nullptr});
  }
  return search.Advance(found).ok();
}

TEST(FrameMemoryTest, AMillionFramesOfBlankInATransducerAllocateNothing) {
  std::mt19937 random(16);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 100; ++i) {
    rows.push_back(BlankRow(random));
  }
  TransducerSearch search(*FramePlan::Create(Options(FrameKind::kTransducer)));
  search.AddFrames(kWarmUp + kNumFrames);
  std::vector<FrameCandidates> found;
  for (int i = 0; i < kWarmUp; ++i) {
    const bool speaks = i < 300;
    ASSERT_TRUE(Round(speaks ? RandomLogProbs(kVocabulary, 0, random) : rows[0], search, found));
  }
  CountAllocations();
  bool ok = true;
  for (size_t i = 0; i < kNumFrames; ++i) {
    ok = ok && Round(rows[i % rows.size()], search, found);
  }
  const CountedAllocations counted = StopCounting();
  EXPECT_TRUE(ok);
  EXPECT_EQ(counted.count, 0) << counted.callers;
  EXPECT_GE(search.trailing_blanks(), kNumFrames);
  EXPECT_LE(search.num_slots(), MaxSlots(Options(FrameKind::kTransducer)));
}

// A beam of 4, whose hypotheses come and go with every frame.
void ExpectLittleHeld(const FrameSearch& search) {
  // The labels' nodes, and for each hypothesis the times of two best paths.
  ASSERT_LE(search.num_held(), 9 * (static_cast<size_t>(search.num_labels()) + 8));
}

TEST(FrameMemoryTest, SpeechHoldsWhatItsHypothesesNeed) {
  std::mt19937 random(17);
  constexpr int kFrames = 20000;
  CtcSearch ctc(*FramePlan::Create(Options(FrameKind::kCtc)));
  TransducerSearch transducer(*FramePlan::Create(Options(FrameKind::kTransducer)));
  ctc.AddFrames(kFrames);
  transducer.AddFrames(kFrames);
  std::vector<FrameCandidates> found;
  for (int i = 0; i < kFrames && !HasFailure(); ++i) {
    std::vector<float> row = RandomLogProbs(kVocabulary, 0, random);
    for (float& log_prob : row) {
      log_prob -= 3;
    }
    row[0] = -0.05f;
    ASSERT_TRUE(ctc.Advance(row).ok());
    ASSERT_TRUE(Round(row, transducer, found));
    ExpectLittleHeld(ctc);
    ExpectLittleHeld(transducer);
  }
  EXPECT_GT(ctc.num_labels(), 50);
  EXPECT_GT(transducer.num_labels(), 50);
}

}  // namespace
}  // namespace beamwright::search
