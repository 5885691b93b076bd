// Random models for search tests: what comes next is a pure function of the tokens so far, as if
// looked up in a table with a line per prefix. Nothing is stored, and two searches that disagree
// about any prefix see different numbers.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_TABLE_MODEL_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_TABLE_MODEL_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace beamwright::search_testing {

class TableModel {
 public:
  enum class Kind {
    kSoftmax,  // log-softmax of logits spread over [-3, 3)
    kSparse,   // the same, but half of the tokens are impossible: rows can be left without any
    kTies,     // log-probabilities -0.5, -1 or -1.5: sums are exact and often equal
    kTiny,  // log-probabilities so small compared with the first that sums of doubles absorb them
  };

  TableModel(uint64_t seed, int vocabulary_size, Kind kind)
      : seed_(seed), vocabulary_size_(vocabulary_size), kind_(kind) {}

  // Log-probabilities [vocabulary_size]; banned tokens have -infinity and no share in the sum.
  std::vector<float> LogProbs(const std::vector<int32_t>& prefix,
                              const std::vector<int32_t>& banned) const {
    std::vector<float> values(static_cast<size_t>(vocabulary_size_));
    for (int token = 0; token < vocabulary_size_; ++token) {
      values[static_cast<size_t>(token)] = Value(prefix, token);
    }
    for (const int32_t token : banned) {
      values[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
    }
    if (kind_ == Kind::kSoftmax || kind_ == Kind::kSparse) {
      double sum = 0;
      for (const float value : values) {
        sum += std::exp(static_cast<double>(value));
      }
      for (float& value : values) {
        value -= sum > 0 ? static_cast<float>(std::log(sum)) : 0;
      }
    }
    return values;
  }

 private:
  static uint64_t Mix(uint64_t x) {  // the finaliser of splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  float Value(const std::vector<int32_t>& prefix, int token) const {
    uint64_t hash = Mix(seed_);
    for (const int32_t previous : prefix) {
      hash = Mix(hash ^ (static_cast<uint64_t>(previous) + 1));
    }
    hash = Mix(hash ^ (static_cast<uint64_t>(token) << 32));
    switch (kind_) {
      case Kind::kTies:
        return -0.5f * static_cast<float>(1 + hash % 3);
      case Kind::kTiny:
        return prefix.empty() ? -1.0f : -1e-20f * static_cast<float>(1 + hash % 4);
      case Kind::kSparse:
        if (hash % 2 == 0) {
          return -std::numeric_limits<float>::infinity();
        }
        break;
      case Kind::kSoftmax:
        break;
    }
    return static_cast<float>(static_cast<double>(hash >> 11) * 0x1p-53 * 6 - 3);
  }

  uint64_t seed_;
  int vocabulary_size_;
  Kind kind_;
};

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_TABLE_MODEL_H_
