#include "ops/base/utf8.h"

#include <gtest/gtest.h>
#include <iconv.h>
#include <locale.h>
#include <wctype.h>

#include <random>

namespace beamwright {
namespace {

// The C library's own converter: does it take `text` for UTF-8?
bool LibraryAccepts(std::string text) {
  iconv_t converter = iconv_open("UCS-4LE", "UTF-8");
  char* in = text.data();
  size_t in_left = text.size();
  std::string out(4 * text.size() + 4, '\0');
  char* out_at = out.data();
  size_t out_left = out.size();
  const bool good = iconv(converter, &in, &in_left, &out_at, &out_left) != static_cast<size_t>(-1);
  iconv_close(converter);
  // glibc still takes what is beyond Unicode (F4 90 and up); look at what came out.
  for (size_t i = 0; good && i + 4 <= static_cast<size_t>(out_at - out.data()); i += 4) {
    const auto byte = [&](size_t k) {
      return static_cast<uint32_t>(static_cast<uint8_t>(out[i + k]));
    };
    if ((byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24) > 0x10FFFF) {
      return false;
    }
  }
  return good;
}

std::string FromWide(wint_t c) {
  std::string text;
  const auto append = [&](wint_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    append(c);
    return text;
  }
  if (c < 0x800) {
    append(0xC0 + c / 64);
  } else {
    append(0xE0 + c / 4096);
    append(0x80 + c / 64 % 64);
  }
  append(0x80 + c % 64);
  return text;
}

TEST(Utf8Test, AgreesWithTheLibraryOnAllShortByteStrings) {
  for (int a = 0; a < 256; ++a) {
    const std::string one = {static_cast<char>(a)};
    EXPECT_EQ(CheckUtf8(one).ok(), LibraryAccepts(one)) << a;
    for (int b = 0; b < 256; ++b) {
      const std::string two = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(CheckUtf8(two).ok(), LibraryAccepts(two)) << a << " " << b;
    }
  }
}

TEST(Utf8Test, AgreesWithTheLibraryOnEdgesOfLongForms) {
  const std::vector<int> leads = {0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                  0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
  const std::vector<int> seconds = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0};
  const std::vector<int> rest = {0x41, 0x7F, 0x80, 0xBF, 0xC0};
  for (const int a : leads) {
    for (const int b : seconds) {
      for (const int c : rest) {
        for (const int d : rest) {
          const std::string text = {static_cast<char>(a), static_cast<char>(b),
                                    static_cast<char>(c), static_cast<char>(d)};
          for (size_t length = 1; length <= 4; ++length) {
            ASSERT_EQ(CheckUtf8(text.substr(0, length)).ok(),
                      LibraryAccepts(text.substr(0, length)))
                << a << " " << b << " " << c << " " << d << " length " << length;
          }
        }
      }
    }
  }
}

TEST(Utf8Test, NamesTheOffset) {
  EXPECT_EQ(CheckUtf8("ab\xC3\xA9\xFFz").message(), "not UTF-8 at byte 4");
  std::vector<absl::string_view> characters;
  EXPECT_EQ(SplitCharacters("ab\xC3", characters).message(), "not UTF-8 at byte 2");
}

TEST(Utf8Test, SplitsIntoCharacters) {
  std::vector<absl::string_view> characters;
  ASSERT_TRUE(SplitCharacters("aé€😀", characters).ok());
  EXPECT_EQ(characters, (std::vector<absl::string_view>{"a", "é", "€", "😀"}));
  EXPECT_EQ(CountCharacters("aé€😀"), 4);
  EXPECT_EQ(CountCharacters(""), 0);
}

TEST(LowercaseLatinTest, AgreesWithTheLibrarysTableUpToLatinExtendedA) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  ASSERT_NE(locale, nullptr);
  for (wint_t c = 1; c < 0x180; ++c) {
    EXPECT_EQ(LowercaseLatin(FromWide(c)), FromWide(towlower_l(c, locale))) << std::hex << c;
  }
  freelocale(locale);
}

TEST(LowercaseLatinTest, LeavesTheRestAlone) {
  const std::string rest = "Ω Ж 😀 \xFF\xC3 ẞ";
  EXPECT_EQ(LowercaseLatin("AB " + rest), "ab " + rest);
}

TEST(LowercaseLatinTest, IsIdempotentAndKeepsTheNumberOfCharacters) {
  std::mt19937 random(7);
  for (int run = 0; run < 500; ++run) {
    std::string text;
    const int length = static_cast<int>(random() % 20);
    for (int i = 0; i < length; ++i) {
      text += FromWide(1 + static_cast<wint_t>(random() % 0x2FF));
    }
    const std::string lower = LowercaseLatin(text);
    EXPECT_EQ(LowercaseLatin(lower), lower);
    std::vector<absl::string_view> before;
    std::vector<absl::string_view> after;
    ASSERT_TRUE(SplitCharacters(text, before).ok());
    ASSERT_TRUE(SplitCharacters(lower, after).ok());
    EXPECT_EQ(before.size(), after.size());
  }
}

}  // namespace
}  // namespace beamwright
