// Which chunks there are of a source, and what they hold, by index arithmetic.
#include "engine/frames/chunked_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace beamwright::engine {
namespace {

constexpr int kWidth = 2;
constexpr float kSilence = -7;

StreamingPart Streaming(int chunk, int shift, int tail, bool width_first) {
  StreamingPart streaming;
  streaming.chunk = chunk;
  streaming.shift = shift;
  streaming.tail = tail;
  streaming.silence = kSilence;
  streaming.width = kWidth;
  streaming.width_first = width_first;
  return streaming;
}

float Value(int feature, int i) { return static_cast<float>(100 * feature + i); }

void ExpectChunk(const ChunkedSource& source, const StreamingPart& streaming, int first,
                 int num_features) {
  const auto chunk = static_cast<int>(streaming.chunk);
  std::vector<float> values(static_cast<size_t>(chunk * kWidth));
  source.CopyChunk(values.data());
  for (int frame = 0; frame < chunk; ++frame) {
    for (int i = 0; i < kWidth; ++i) {
      const int at = streaming.width_first ? i * chunk + frame : frame * kWidth + i;
      EXPECT_EQ(values[static_cast<size_t>(at)],
                first + frame < num_features ? Value(first + frame, i) : kSilence)
          << "feature " << first + frame;
    }
  }
}

// Features come one at a time. Chunk k begins at k * shift. It can be read with its last feature;
// after the end those are read that begin before the last feature, or the tail's.
void ExpectChunks(const StreamingPart& streaming, int num_features) {
  ChunkedSource source(streaming);
  EXPECT_TRUE(source.is_empty());
  const auto chunk = static_cast<int>(streaming.chunk);
  int first = 0;  // feature of the next chunk
  for (int there = 1; there <= num_features; ++there) {
    const std::vector<float> feature = {Value(there - 1, 0), Value(there - 1, 1)};
    source.Add(ops::Tensor::Of<float>({1, 1, kWidth}, feature));
    EXPECT_FALSE(source.is_empty());
    while (first + chunk <= there) {
      ASSERT_TRUE(source.has_chunk()) << first;
      ExpectChunk(source, streaming, first, there);
      source.Advance({});
      first += static_cast<int>(streaming.shift);
    }
    ASSERT_FALSE(source.has_chunk()) << first << " of " << there;
    ASSERT_FALSE(source.is_exhausted());
  }
  source.Finish();
  for (; first < num_features + static_cast<int>(streaming.tail);
       first += static_cast<int>(streaming.shift)) {
    ASSERT_TRUE(source.has_chunk()) << first;
    ASSERT_FALSE(source.is_exhausted());
    ExpectChunk(source, streaming, first, num_features);
    source.Advance({});
  }
  EXPECT_FALSE(source.has_chunk());
  EXPECT_TRUE(source.is_exhausted());
}

TEST(ChunkedSourceTest, ChunksAreReadWithTheirLastFeatureAndToTheEnd) {
  for (const bool width_first : {false, true}) {
    for (int chunk = 1; chunk <= 5; ++chunk) {
      for (int shift = 1; shift <= chunk; ++shift) {
        for (int tail = 0; tail <= 3; ++tail) {
          for (int num_features = 1; num_features <= 12; ++num_features) {
            SCOPED_TRACE(absl::StrCat("chunk ", chunk, ", shift ", shift, ", tail ", tail, ", ",
                                      num_features, " features, width first ", width_first));
            ExpectChunks(Streaming(chunk, shift, tail, width_first), num_features);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::engine
