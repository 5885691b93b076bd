// CtcSearch against all alignments.
#include "engine/search/frames/ctc_search.h"

#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/expect_answers.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/run_ctc.h"

namespace beamwright::search {
namespace {

using frames_testing::AllCtc;
using frames_testing::CtcTable;
using frames_testing::ExpectAll;
using frames_testing::RandomCtc;
using frames_testing::RunCtc;

FrameOptions WideOptions(int vocabulary, int blank) {
  FrameOptions options;
  options.kind = FrameKind::kCtc;
  options.vocabulary_size = vocabulary;
  options.blank = blank;
  options.beam_size = options.n_best = kMaxBeamSize;
  return options;
}

TEST(CtcSearchTest, AWideBeamFindsEveryLabelling) {
  std::mt19937 random(1);
  for (int i = 0; i < frames_testing::Trials(10000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int vocabulary = 2 + static_cast<int>(random() % 3);
    const int num_frames = static_cast<int>(random() % (vocabulary == 4 ? 4 : 5));
    const int blank = static_cast<int>(random() % static_cast<uint32_t>(vocabulary));
    const CtcTable table = RandomCtc(num_frames, vocabulary, i % 4 == 0 ? 0.2 : 0, random);
    FrameOptions options = WideOptions(vocabulary, blank);
    options.recombine = i % 3 == 0 ? Recombine::kMax : Recombine::kSum;
    ExpectAll(RunCtc(options, table), AllCtc(table, blank), options.recombine == Recombine::kMax);
  }
}

}  // namespace
}  // namespace beamwright::search
