// Stop strings against plain searches in whole texts.
#include <random>

#include "engine/search/tries.h"
#include "gtest/gtest.h"

namespace beamwright::search {
namespace {

// The place where the answer's text ends, byte by byte; npos: nowhere.
size_t PlainEnd(const std::string& text, const std::vector<std::string>& strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& string : strings) {
      if (end >= string.size() && text.compare(end - string.size(), string.size(), string) == 0) {
        longest = std::max(longest, string.size());
      }
    }
    if (longest > 0) {
      return end - longest;
    }
  }
  return std::string::npos;
}

// The longest end of the text that a string begins with.
std::string PlainBegun(const std::string& text, const std::vector<std::string>& strings) {
  std::string begun;
  for (const std::string& string : strings) {
    for (size_t size = 1; size < string.size() && size <= text.size(); ++size) {
      if (size > begun.size() && text.substr(text.size() - size) == string.substr(0, size)) {
        begun = string.substr(0, size);
      }
    }
  }
  return begun;
}

TEST(StopStringsTest, AreFoundWhereverTokensEnd) {
  std::mt19937 random(1);
  const auto letters = [&](size_t least, size_t most) {
    std::string text;
    for (size_t i = least + random() % (most - least + 1); i > 0; --i) {
      text += "ab"[random() % 2];
    }
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> writes(6);
    for (std::string& text : writes) {
      text = letters(0, 3);
    }
    std::vector<std::string> strings(1 + random() % 3);
    for (std::string& string : strings) {
      string = letters(1, 6);
    }
    const StopStrings stop(strings, [&](int32_t token, bool is_first) {
      return (is_first ? "" : "_") + writes[static_cast<size_t>(token)];
    });
    std::vector<int32_t> tokens;
    std::string text;
    int64_t state = stop.Start(/*begins_text=*/true);
    for (int i = 0; i < 8 && !StopStrings::Stops(state); ++i) {
      tokens.push_back(static_cast<int32_t>(random() % writes.size()));
      text += (tokens.size() == 1 ? "" : "_") + writes[static_cast<size_t>(tokens.back())];
      state = stop.Next(state, tokens.back());
      const size_t end = PlainEnd(text, strings);
      ASSERT_EQ(StopStrings::Stops(state), end != std::string::npos) << text;
      const StopStrings::Ending ending = stop.Read(tokens, /*begins_text=*/true);
      ASSERT_EQ(ending.stops, end != std::string::npos) << text;
      ASSERT_EQ(ending.rest, ending.stops ? text.substr(end) : PlainBegun(text, strings)) << text;
    }
    stopped += StopStrings::Stops(state) ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
}

}  // namespace
}  // namespace beamwright::search
