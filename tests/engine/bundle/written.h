// What TextCodec::Written promises of every codec.
#ifndef BEAMWRIGHT_TESTS_ENGINE_BUNDLE_WRITTEN_H_
#define BEAMWRIGHT_TESTS_ENGINE_BUNDLE_WRITTEN_H_

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/bundle/text_codec.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {

// Random ids, some of them outside the vocabulary: what they write in a row is what Decode writes.
// drops_spaces: Decode may leave out all spaces at the beginning; ids are of the vocabulary alone.
inline void ExpectWrittenInARow(const TextCodec& codec, bool drops_spaces = false) {
  const auto shown = [=](std::string text) {
    return drops_spaces ? std::string(absl::StripLeadingAsciiWhitespace(text)) : text;
  };
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(random() % 7);
    std::string bytes;
    std::vector<size_t> starts;
    int32_t last = -1;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() %
                                static_cast<size_t>(codec.size() + (drops_spaces ? 0 : 1)));
      starts.push_back(bytes.size());
      bytes += codec.WrittenBehind(id, last);
      last = codec.Written(id, false).empty() && last < 0 ? -1 : id;
    }
    const std::string text = shown(codec.Decode(ids));
    const std::string written = shown(ValidUtf8(bytes));
    ASSERT_TRUE(text == written || text == absl::StripSuffix(written, " ")) << written;
    // Where a character begins, what follows can be left out.
    for (const size_t start : starts) {
      if (start < bytes.size() && (bytes[start] & 0xC0) != 0x80) {
        const std::string before = shown(codec.DecodeBefore(ids, bytes.substr(start)));
        ASSERT_EQ(before, shown(ValidUtf8(bytes.substr(0, start)))) << written;
      }
    }
  }
}

// The text of an answer, read as a target, is tokens that write the same text but for white space.
// Random ids, where they write whole characters.
inline void ExpectReadAgain(const TextCodec& codec) {
  std::mt19937 random(6);
  int read = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(1 + random() % 6);
    for (int32_t& id : ids) {
      do {
        id = static_cast<int32_t>(random() % static_cast<size_t>(codec.size()));
      } while (id == codec.unknown_id());
    }
    const std::string text = codec.Decode(ids);
    if (absl::StripAsciiWhitespace(text).empty() || absl::StrContains(text, "\xEF\xBF\xBD")) {
      continue;
    }
    const absl::StatusOr<std::vector<int32_t>> again = codec.EncodePart(text);
    ASSERT_TRUE(again.ok()) << again.status() << " of '" << text << "'";
    const auto without_space = [](std::string written) {
      return absl::StrReplaceAll(written, {{" ", ""}, {"\t", ""}, {"\n", ""}, {"\r", ""}});
    };
    ASSERT_EQ(without_space(codec.Decode(*again)), without_space(text));
    ++read;
  }
  EXPECT_GT(read, 50);
}

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_TESTS_ENGINE_BUNDLE_WRITTEN_H_
