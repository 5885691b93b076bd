// Forms as clients send them, and bodies that no client sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/request_parts.h"
#include "server/http/transcription.h"

namespace beamwright::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kType[] = "multipart/form-data; boundary=XyZ";

std::string Part(const std::string& name, const std::string& content) {
  return absl::StrCat("--XyZ\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n",
                      content, "\r\n");
}

std::string MessageOf(const std::string& type, const std::string& body) {
  return std::string(ParseForm(type, body).status().message());
}

TEST(MultipartTest, ReadsPartsAsCurlAndBrowsersWriteThem) {
  const std::string file = std::string("RIFF\0\r\n--Xy\r\n--\r\n", 18);
  const std::string body = absl::StrCat(
      "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".wav\"\r\n",
      "Content-Type: audio/wav\r\n\r\n", file, "\r\n", Part("model", "digits-en"), Part("x", ""),
      "--XyZ--\r\n");
  for (const std::string& type :
       {std::string(kType), std::string("Multipart/Form-Data; charset=utf-8; boundary=\"XyZ\"")}) {
    const auto parts = ParseForm(type, body);
    ASSERT_TRUE(parts.ok()) << parts.status();
    ASSERT_EQ(parts->size(), 3U);
    EXPECT_EQ((*parts)[0].name, "file");
    EXPECT_EQ((*parts)[0].content, file);
    EXPECT_EQ((*parts)[1].content, "digits-en");
    EXPECT_EQ((*parts)[2].content, "");
  }
  EXPECT_TRUE(ParseForm(kType, "--XyZ--").ok());
}

TEST(MultipartTest, RefusesBodiesThatNoClientSends) {
  const std::string good = Part("a", "b") + "--XyZ--\r\n";
  EXPECT_THAT(MessageOf("application/json", good), HasSubstr("is sent as multipart/form-data"));
  EXPECT_THAT(MessageOf("multipart/form-data", good), HasSubstr("boundary is not"));
  EXPECT_THAT(MessageOf("multipart/form-data; boundary=a\tb", good), HasSubstr("boundary is not"));
  EXPECT_THAT(MessageOf("multipart/form-data; boundary=" + std::string(71, 'a'), good),
              HasSubstr("boundary is not"));
  EXPECT_THAT(MessageOf("multipart/form-data; boundary=XyZ; boundary=a", good),
              HasSubstr("two boundaries"));
  EXPECT_THAT(MessageOf("multipart/form-data; boundary=\"XyZ", good), HasSubstr("does not end"));
  EXPECT_THAT(MessageOf(kType, "preamble\r\n" + good), HasSubstr("does not begin with"));
  EXPECT_THAT(MessageOf(kType, good + "more"), HasSubstr("bytes follow"));
  EXPECT_THAT(MessageOf(kType, "--XyZ and more"), HasSubstr("a boundary is not followed"));
  EXPECT_THAT(MessageOf(kType, good.substr(0, good.size() - 12)), HasSubstr("last boundary"));
  EXPECT_THAT(MessageOf(kType, "--XyZ\r\nContent-Type: a\r\n\r\nb\r\n--XyZ--"),
              HasSubstr("has no name"));
  EXPECT_THAT(MessageOf(kType, "--XyZ\r\nno colon\r\n\r\nb\r\n--XyZ--"), HasSubstr("has no ':'"));
  EXPECT_THAT(
      MessageOf(
          kType,
          "--XyZ\r\nContent-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\n\r\n--XyZ--"),
      HasSubstr("two names"));
  EXPECT_THAT(MessageOf(kType,
                        "--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n"
                        "Content-Transfer-Encoding: base64\r\n\r\n\r\n--XyZ--"),
              HasSubstr("transfer encoding"));
  EXPECT_THAT(MessageOf(kType, "--XyZ\r\nA: " + std::string(kMaxFormHeadBytes, 'a')),
              HasSubstr("head does not end"));
  std::string many;
  for (size_t i = 0; i <= kMaxFormParts; ++i) {
    many += Part("a", "b");
  }
  EXPECT_THAT(MessageOf(kType, many + "--XyZ--"), HasSubstr("more than 64 parts"));
}

// Whatever the bytes: parts or an error. Parts are never longer than the body.
TEST(MultipartTest, SurvivesNoise) {
  const std::string good = Part("file", "RIFF") + Part("model", "m") + "--XyZ--\r\n";
  std::mt19937 random(43);
  for (int round = 0; round < 20000; ++round) {
    std::string body = good;
    std::string type = kType;
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      std::string& text = random() % 8 == 0 ? type : body;
      constexpr char kBytes[] = "\r\n-;:=\"\\ XyZ\0a";
      const char byte = kBytes[random() % (sizeof(kBytes) - 1)];
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 9);
        text += byte;
      } else {
        text[at] = byte;
      }
    }
    const auto parts = ParseForm(type, body);
    size_t size = 0;
    if (parts.ok()) {
      for (const FormPart& part : *parts) {
        size += part.content.size();
      }
    }
    EXPECT_LE(size, body.size());
    ReadTranscriptionForm(type, body).status().IgnoreError();
  }
}

TEST(TranscriptionFormTest, ReadsFieldsAndRefusesOthers) {
  const auto read = [](const std::string& parts) {
    return ReadTranscriptionForm(kType, parts + "--XyZ--\r\n");
  };
  const std::string needed = Part("file", "RIFF") + Part("model", "m");
  const auto form = read(needed + Part("response_format", "verbose_json") + Part("language", "en") +
                         Part("timestamp_granularities[]", "segment") +
                         Part("timestamp_granularities[]", "word") + Part("stream", "True") +
                         Part("temperature", "0.5") + Part("prompt", "a, b") +
                         Part("options", R"({"beam_size": 8})"));
  ASSERT_TRUE(form.ok()) << form.status();
  EXPECT_EQ(form->file, "RIFF");
  EXPECT_EQ(form->config.model(), "m");
  EXPECT_EQ(form->config.options().beam_size(), 8);
  EXPECT_EQ(form->format, TranscriptFormat::kVerboseJson);
  EXPECT_TRUE(form->has_words && form->streams);
  EXPECT_EQ(form->language + form->prompt, "ena, b");
  const auto newer = read(needed + Part("include[]", "logprobs") + Part("keywords[]", "a b") +
                          Part("keywords[]", "c") + Part("languages[]", "de") +
                          Part("chunking_strategy[type]", "server_vad") +
                          Part("chunking_strategy[silence_duration_ms]", "500") +
                          Part("chunking_strategy[prefix_padding_ms]", "300") +
                          Part("chunking_strategy[threshold]", "0.5"));
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_TRUE(newer->has_log_probs);
  EXPECT_THAT(newer->keywords, ElementsAre("a b", "c"));
  EXPECT_EQ(newer->language, "de");
  EXPECT_EQ(newer->config.endpoint().pause_ms(), 500);
  const auto in_json =
      read(needed + Part("languages", "de") + Part("languages", "en") +
           Part("chunking_strategy", R"({"type": "server_vad", "silence_duration_ms": 700})"));
  ASSERT_TRUE(in_json.ok()) << in_json.status();
  EXPECT_EQ(in_json->config.endpoint().pause_ms(), 700);
  EXPECT_EQ(in_json->language, "");
  const auto automatic = read(needed + Part("chunking_strategy", "auto"));
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  EXPECT_FALSE(automatic->config.has_endpoint());
  const auto message = [&](const std::string& parts) {
    return std::string(read(parts).status().message());
  };
  EXPECT_THAT(message(Part("model", "m")), HasSubstr("file"));
  EXPECT_THAT(message(Part("file", "m")), HasSubstr("model"));
  EXPECT_THAT(message(needed + Part("model", "n")), HasSubstr("given twice"));
  EXPECT_EQ(message(needed + Part("prompt", std::string(16 << 10, 'a'))), "");
  EXPECT_THAT(message(needed + Part("prompt", std::string((16 << 10) + 1, 'a'))),
              HasSubstr("prompt: 16385 bytes; at most 16384 are allowed"));
  EXPECT_THAT(message(needed + Part("beam", "n")), HasSubstr("is no field of a transcription"));
  EXPECT_THAT(message(needed + Part("stream", "yes")), HasSubstr("neither true nor false"));
  EXPECT_THAT(message(needed + Part("temperature", "nan")), HasSubstr("from 0 to 1"));
  EXPECT_THAT(message(needed + Part("response_format", "xml")), HasSubstr("verbose_json"));
  EXPECT_THAT(message(needed + Part("timestamp_granularities[]", "char")), HasSubstr("neither"));
  EXPECT_THAT(message(needed + Part("options", R"({"beam": 8})")), HasSubstr("beam"));
  EXPECT_THAT(message(needed + Part("options", std::string((1 << 20) + 1, ' '))),
              HasSubstr("at most 1048576"));
  EXPECT_THAT(message(needed + Part("include[]", "words")), HasSubstr("is not logprobs"));
  EXPECT_THAT(
      message(needed + Part("include[]", "logprobs") + Part("response_format", "verbose_json")),
      HasSubstr("need the response_format json"));
  EXPECT_THAT(message(needed + Part("known_speaker_names[]", "agent")), HasSubstr("is not served"));
  EXPECT_THAT(message(needed + Part("response_format", "diarized_json")),
              HasSubstr("verbose_json"));
  EXPECT_THAT(message(needed + Part("model[]", "m")), HasSubstr("is no field"));
  EXPECT_THAT(message(needed + Part("chunking_strategy", "none")), HasSubstr("neither auto"));
  EXPECT_THAT(message(needed + Part("chunking_strategy", "[]")), HasSubstr("neither auto"));
  EXPECT_THAT(message(needed + Part("chunking_strategy", R"({"type": "semantic"})")),
              HasSubstr("chunking_strategy[type]: is not server_vad"));
  EXPECT_THAT(message(needed + Part("chunking_strategy", R"({"type": null})")),
              HasSubstr("is not server_vad"));
  for (const char* const wrong : {"0", "600001", "1.5", "nan", ""}) {
    EXPECT_THAT(message(needed + Part("chunking_strategy[silence_duration_ms]", wrong)),
                HasSubstr("is not a whole number from 1 to 600000"));
  }
  EXPECT_THAT(message(needed + Part("chunking_strategy[prefix_padding_ms]", "-1")),
              HasSubstr("from 0 to"));
  EXPECT_THAT(message(needed + Part("chunking_strategy[threshold]", "1.1")),
              HasSubstr("from 0 to 1"));
  EXPECT_THAT(message(needed + Part("chunking_strategy[eagerness]", "low")),
              HasSubstr("is no member"));
  EXPECT_THAT(message(needed + Part("chunking_strategy[", "low")), HasSubstr("is no field"));
}

}  // namespace
}  // namespace beamwright::http
