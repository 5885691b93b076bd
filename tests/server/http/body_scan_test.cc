#include "server/http/body_scan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "server/http/message_json.h"
#include "server/http/request_parts.h"
#include "server/http/routes.h"
#include "server/http/translate_json.h"

namespace beamwright::http {
namespace {

struct Form {
  std::string path;
  std::string type;
  std::string json_length;
  // As the handler of the path reads a body.
  std::function<absl::Status(const std::string& body)> read;
};

RequestHead HeadOf(const Form& form) {
  RequestHead head;
  head.path = form.path;
  head.fields = {{"content-type", form.type}};
  if (!form.json_length.empty()) {
    head.fields.emplace_back(kJsonLength, form.json_length);
  }
  return head;
}

Form Decode() {
  return {"/v1/models/m:decode", "application/json", "", [](const std::string& body) {
            v1::DecodeRequest request;
            return ReadRequest(body, request);
          }};
}

Form Completions() {
  return {kCompletions, "", "",
          [](const std::string& body) { return ReadCompletionBody(body).status(); }};
}

Form Infer(const std::string& json_length) {
  return {"/v2/models/m/infer", "application/octet-stream", json_length,
          [json_length](const std::string& body) {
            return ParseInferBody(body, json_length).status();
          }};
}

Form Translate(const std::string& path, const std::string& type) {
  return {path, type, "",
          [type](const std::string& body) { return ParseMembers(type, body).status(); }};
}

Form Load() {
  return {"/v2/repository/models/m/load", "", "",
          [](const std::string& body) { return ParseControlBody(body).status(); }};
}

std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

// How many bytes of the body a listener reads that gets them in such pieces.
size_t BytesRead(const Form& form, const std::string& body, size_t piece) {
  BodyScan scan(HeadOf(form));
  while (scan.num_bytes() < body.size() && scan.Add(body.substr(scan.num_bytes(), piece))) {
  }
  return scan.num_bytes();
}

// The handler finds the same fault in what was read as in the whole body.
TEST(BodyScanTest, ABodyIsReadUntilItsHandlerRefusesIt) {
  const std::string deep = Repeated("{\"a\":", 100'000);
  const std::string objects = "{\"sources\":[" + Repeated("{},", 400'000);
  const std::string prompts = "{\"prompt\":[" + Repeated("[5],", 400'000);
  const std::string names = "{" + Repeated("\"a\":1,", 200'000);
  const std::string numbers = "[" + Repeated("1,", 1'300'000);
  const std::string fields = Repeated("a=1&", 100'000);
  const std::string url = "application/x-www-form-urlencoded";
  const std::string json = "application/json; charset=utf-8";
  const std::vector<std::pair<Form, std::string>> cases = {
      {Decode(), deep},
      {Decode(), objects},
      {Decode(), numbers},
      {Completions(), deep},
      {Completions(), prompts},
      {Completions(), names},
      {Infer(""), deep},
      {Infer(""), objects},
      {Infer("400000"), deep + "1234"},
      {Infer("2500000"), numbers},
      {Load(), deep},
      {Translate("/translate", json), names},
      {Translate("/translate", url), fields},
      {Translate("/translate", ""), fields},
      {Translate("/translate", ""), deep},
      {Translate("/detect", json), deep},
      {Translate("/v2/translate", url), fields},
      {Translate("/v2/usage", url), fields}};
  for (const auto& [form, body] : cases) {
    const std::string name = absl::StrCat(form.path, " ", form.type, " ", body.substr(0, 20));
    const std::string message(form.read(body).message());
    EXPECT_NE(message, "") << name;
    for (const size_t piece : {size_t{999}, size_t{65536}}) {
      const size_t read = BytesRead(form, body, piece);
      EXPECT_LT(read, body.size() - piece) << name;
      EXPECT_EQ(form.read(body.substr(0, read)).message(), message) << name;
    }
  }
}

// What the handler takes, or refuses for another fault, or does not look at, is read to its end.
TEST(BodyScanTest, OtherBodiesAreReadToTheirEnd) {
  const std::string deep = Repeated("[", 1000);
  const std::string fields = Repeated("a=1&", 100'000);
  const std::string texts = "{\"q\":[\"" + Repeated("[{,", 100'000) + "\"]}";
  const std::string numbers = "{\"a\":[1" + Repeated(",1", 1'000'000) + "]}";
  const std::vector<std::pair<Form, std::string>> cases = {
      {Decode(), texts},
      {Decode(), numbers},
      {Decode(), fields},
      {Infer("12"), "{\"inputs\":[]" + deep},
      {Infer("no number"), deep},
      {Translate("/translate", "application/json"), texts},
      {Translate("/translate", "application/x-www-form-urlencoded"), deep},
      {Translate("/translate", "text/plain"), deep + fields},
      {Translate("/translate_file", "multipart/form-data; boundary=X"), deep + fields},
      {{kTranscriptions, "multipart/form-data; boundary=X", "", nullptr}, deep + fields}};
  for (const auto& [form, body] : cases) {
    EXPECT_EQ(BytesRead(form, body, 1000), body.size()) << form.path << " " << body.substr(0, 20);
  }
  std::string most = "a=1";
  for (int64_t i = 1; i < kMaxFormFields; ++i) {
    most += "&a=1";
  }
  const Form url = Translate("/translate", "");
  EXPECT_EQ(BytesRead(url, most, 1000), most.size());
  EXPECT_TRUE(url.read(most).ok());
  EXPECT_FALSE(url.read(most + "&").ok());
}

TEST(BodyScanTest, ValuesAreHeldAsMemory) {
  BodyScan json(HeadOf(Decode()));
  EXPECT_TRUE(json.Add("{\"a\": [1, "));
  EXPECT_EQ(json.held_bytes(), 10 + 32 * 4);
  EXPECT_TRUE(json.Add("2, [\"x,y\"]]}"));
  EXPECT_EQ(json.held_bytes(), 22 + 32 * 7);
  BodyScan form(HeadOf(Translate("/translate", "")));
  EXPECT_TRUE(form.Add("a=1&b=2"));
  EXPECT_EQ(form.held_bytes(), 7 + 32);
  BodyScan sound(HeadOf({kTranscriptions, "multipart/form-data", "", nullptr}));
  EXPECT_TRUE(sound.Add("[[[,,,"));
  EXPECT_EQ(sound.held_bytes(), 6);
}

}  // namespace
}  // namespace beamwright::http
