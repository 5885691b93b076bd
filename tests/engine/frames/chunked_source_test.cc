// Which chunks there are of a source, and what they hold, by index arithmetic.
#include "engine/frames/chunked_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

// Features come in pieces of this size, with empty ones in between. Chunk k begins at k * shift. It
// can be read with its last feature; after the end those are read that begin before the last
// feature, or the tail's.
void ExpectChunks(const StreamingPart& streaming, int num_features, int piece) {
  ChunkedSource source(streaming);
  EXPECT_TRUE(source.is_empty());
  const auto chunk = static_cast<int>(streaming.chunk);
  int first = 0;  // feature of the next chunk
  for (int there = 0; there < num_features;) {
    const int size = std::min(piece, num_features - there);
    std::vector<float> features;
    for (int i = there; i < there + size; ++i) {
      features.insert(features.end(), {Value(i, 0), Value(i, 1)});
    }
    there += size;
    source.Add(ops::Tensor::Of<float>({1, size, kWidth}, features));
    source.Add(ops::Tensor::Zeros(ops::DType::kF32, {1, 0, kWidth}));
    EXPECT_FALSE(source.is_empty());
    EXPECT_EQ(source.num_unread_bytes() > 0, source.has_chunk());
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
  EXPECT_EQ(source.num_unread_bytes(), 0);
}

TEST(ChunkedSourceTest, ChunksAreReadWithTheirLastFeatureAndToTheEnd) {
  for (const bool width_first : {false, true}) {
    for (int chunk = 1; chunk <= 5; ++chunk) {
      for (int shift = 1; shift <= chunk; ++shift) {
        for (int tail = 0; tail <= 3; ++tail) {
          for (int num_features = 1; num_features <= 12; ++num_features) {
            SCOPED_TRACE(absl::StrCat("chunk ", chunk, ", shift ", shift, ", tail ", tail, ", ",
                                      num_features, " features, width first ", width_first));
            for (const int piece : {1, 2, 5}) {
              ExpectChunks(Streaming(chunk, shift, tail, width_first), num_features, piece);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::engine
