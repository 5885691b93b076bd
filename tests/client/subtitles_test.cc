// Subtitles of segments.
#include <gtest/gtest.h>

#include "client/cli/answers.h"

namespace beamwright::client {
namespace {

TEST(SubtitleTest, StandsWhereTheWordsAreHeard) {
  v1::RecognizedSegment segment;
  segment.set_num_frames(100);
  segment.set_begin_ms(3'601'000);
  segment.set_end_ms(3'605'000);
  v1::Hypothesis& best = *segment.add_hypotheses();
  best.set_text("two --> words");
  best.add_tokens(1);
  best.add_token_frames(10);
  best.add_token_durations(1);
  best.add_tokens(2);
  best.add_token_frames(50);
  best.add_token_durations(5);
  EXPECT_EQ(Subtitle(SubtitleForm::kSrt, 3, segment),
            "3\n01:00:01,400 --> 01:00:03,200\ntwo -> words\n\n");
  EXPECT_EQ(Subtitle(SubtitleForm::kVtt, 3, segment),
            "01:00:01.400 --> 01:00:03.200\ntwo -&gt; words\n\n");
  best.set_text("<b>R&D");
  EXPECT_EQ(Subtitle(SubtitleForm::kVtt, 3, segment),
            "01:00:01.400 --> 01:00:03.200\n&lt;b&gt;R&amp;D\n\n");
}

}  // namespace
}  // namespace beamwright::client
