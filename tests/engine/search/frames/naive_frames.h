// What searches over frames are held against: tiny random models, and every alignment of their
// frames written out one by one. Shares no code with the searches, and is as slow as it looks.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_FRAMES_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_FRAMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "tests/support/sanitized.h"

namespace beamwright::search::frames_testing {

using Labels = std::vector<int32_t>;

// Cases of a test that would try `count` of them: fewer where sanitizers make each cost many times.
inline constexpr int Trials(int count) { return testing_support::kSanitized ? count / 10 : count; }

// One label of an alignment.
struct NaiveTime {
  int64_t frame = 0;
  int duration = 0;
  double log_prob = 0;
};

// A labelling's alignments.
struct NaiveSum {
  double probability = 0;        // of all
  double best = -1e300;          // logarithm, of the best
  std::vector<NaiveTime> times;  // of the best
  bool is_tied = false;          // another alignment is as good, within rounding
};
using NaiveSums = std::map<Labels, NaiveSum>;

// log_probs: [frames][vocabulary].
using CtcTable = std::vector<std::vector<float>>;
// Rows of a transducer: by frame and the labels before.
struct NaiveRow {
  std::vector<float> log_probs;           // [vocabulary]
  std::vector<float> duration_log_probs;  // [durations]
};
using Joiner = std::function<const NaiveRow&(int64_t frame, const Labels& labels)>;

// What scorers that come with rows say of all labels behind these.
using RowScorers = std::vector<std::function<std::vector<float>(const Labels&)>>;

// A random distribution; with chance `zeros` per element, probability 0.
std::vector<float> RandomLogProbs(size_t size, double zeros, std::mt19937& random);
CtcTable RandomCtc(int num_frames, int vocabulary, double zeros, std::mt19937& random);
// Rows are made when they are asked for, each from seed, frame and labels alone.
Joiner RandomJoiner(uint32_t seed, int vocabulary, int num_durations, double zeros);

// Every alignment, frame by frame.
NaiveSums AllCtc(const CtcTable& table, int blank);

struct NaiveTransducer {
  int vocabulary = 0;
  int blank = 0;
  int64_t num_frames = 0;
  std::vector<int> durations;  // empty: a label takes 0 frames, a blank 1
  int max_symbols = 0;         // 0: any number
  size_t max_labels = 100;
};
// Every alignment, symbol by symbol.
NaiveSums AllTransducer(const NaiveTransducer& model, const Joiner& joiner);

// Labellings by score, as an answer lists them; `score` of labels and their sum.
struct NaiveAnswer {
  Labels labels;
  double score = 0;
};
std::vector<NaiveAnswer> Ranked(const NaiveSums& sums,
                                const std::function<double(const Labels&, const NaiveSum&)>& score);

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_FRAMES_H_
