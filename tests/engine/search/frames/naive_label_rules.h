// What options of labels mean, read off whole label sequences.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_LABEL_RULES_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_LABEL_RULES_H_

#include <cstdint>
#include <vector>

#include "engine/search/frames/frame_options.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

class NaiveLabelRules {
 public:
  // entries: what options.allowed was made of. row_scorers: of options.scorers.
  NaiveLabelRules(FrameOptions options, std::vector<Labels> entries, RowScorers row_scorers = {});

  bool MayFollow(const Labels& labels, int32_t label) const;
  bool MayEnd(const Labels& labels) const;
  // Of answers: what they may be, and what their scores gain.
  bool IsAnswer(const Labels& labels) const;
  double Gain(const Labels& labels, bool ended) const;
  // Of ranks alone.
  double Promise(const Labels& labels) const;
  double StartGain(int32_t label) const;
  // Whether the label goes on with a hotword that has begun.
  bool GoesOn(const Labels& labels, int32_t label) const;

  // The row as temperature and blank penalty make it.
  std::vector<double> Row(const std::vector<float>& log_probs) const;

 private:
  double ScorersGain(const Labels& labels, bool ended) const;

  FrameOptions options_;
  std::vector<Labels> entries_;
  RowScorers row_scorers_;
};

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_LABEL_RULES_H_
