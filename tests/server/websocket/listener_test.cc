// The WebSocket listener against clients that are slow, silent or deaf, with time limits that are
// short enough to pass. tests/stock_clients/sherpa_online.py has those that speak.
#include "server/websocket/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/serving/decode_stream.h"
#include "server/websocket/stream_query.h"
#include "tests/e2e/becomes.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/server/websocket/raw_client.h"

namespace beamwright::websocket {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kPiece = 1 << 20;

std::string Sound(const std::vector<int>& labels) { return sound::AsF32(sound::Tones(labels)); }

class ListenerTest : public ::testing::Test {
 protected:
  ListenerTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    sound::WriteTonesChunksBundle(temp_.path(), "chunks");
    serving::ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    auto models = serving::ModelRegistry::Load(paths);
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = *std::move(models);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
    options_.address = "127.0.0.1:0";
    options_.default_model = "tones";
  }

  void Start() {
    auto listener = Listener::Start(options_, *core_, access_, cors_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  bool NobodyIsLeft() {
    return e2e::Becomes([this] { return listener_->num_connections() == 0; }) &&
           state_.WaitUntilAnswered(absl::Minutes(1));
  }

  bundle::TempFolder temp_;
  serving::ServingState state_;
  serving::Metrics metrics_;
  access::Access access_;
  http::Cors cors_;
  ListenerOptions options_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<serving::Core> core_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, ASourceIsHeardAndAnotherBehindIt) {
  Start();
  RawClient client(listener_->port());
  EXPECT_THAT(client.Open(), StartsWith("HTTP/1.1 101 "));
  for (const auto& [labels, text] :
       {std::pair<std::vector<int>, std::string>{{3, 17, 8}, "t3 t17 t8"}, {{5}, "t5"}}) {
    client.SendMessage(kBinary, Sound(labels));
    client.SendMessage(kText, "Done");
    std::string last;
    std::string message;
    while ((message = client.ReadFrame().second) != "Done!" && !message.empty()) {
      last = message;
    }
    EXPECT_EQ(message, "Done!");
    EXPECT_THAT(last, StartsWith(absl::StrCat("{\"text\":\"", text, "\",\"tokens\":[\" t")));
    EXPECT_THAT(last,
                HasSubstr("\"segment\":0,\"start_time\":0,\"is_final\":true,\"is_eof\":true"));
  }
}

// With an encoder that reads chunk by chunk; tests/stock_clients/sherpa_segments.py has the times.
TEST_F(ListenerTest, WhatWasSaidBeforeAPauseIsToldWhileTheSourceGoesOn) {
  Start();
  RawClient client(listener_->port());
  EXPECT_THAT(client.Open("/?model=chunks&provisional=n_best&options=%7B%22n_best%22:3%7D"),
              StartsWith("HTTP/1.1 101 "));
  for (int source = 0; source < 2; ++source) {
    const auto read_until = [&client](const std::string& part) {
      std::string message;
      do {
        message = client.ReadFrame().second;
      } while (!message.empty() && !absl::StrContains(message, part));
      return message;
    };
    client.SendMessage(kBinary, Sound({3, 17}));
    // The other live hypotheses are reported as well.
    const std::string partial = read_until("\"hypotheses\":[{\"text\":\"t3 t17\",");
    EXPECT_THAT(partial, HasSubstr("\"is_final\":false"));
    EXPECT_THAT(partial, HasSubstr("},{\"text\":\""));
    client.SendMessage(kBinary, std::string(sizeof(float) * 16000 * 3 / 2, '\0'));
    std::string message = read_until("\"is_final\":true");
    EXPECT_THAT(message, StartsWith("{\"text\":\"t3 t17\""));
    EXPECT_THAT(message, HasSubstr("\"segment\":0,\"start_time\":0,"));
    EXPECT_THAT(message, HasSubstr("\"is_eof\":false,\"stable\":\"t3 t17\""));
    client.SendMessage(kBinary, Sound({8}));
    client.SendMessage(kText, "Done");
    std::string last;
    for (; message != "Done!"; message = client.ReadFrame().second) {
      ASSERT_NE(message, "");
      last = message;
    }
    EXPECT_THAT(last, StartsWith("{\"text\":\"t8\""));
    EXPECT_THAT(last, HasSubstr("\"segment\":1,"));
    EXPECT_THAT(last, HasSubstr("\"is_final\":true,\"is_eof\":true"));
  }
}

// A reason to close has 123 bytes at most, and ends with a whole character (RFC 6455, 5.5.1).
TEST_F(ListenerTest, AReasonThatIsTooLongEndsWithAWholeCharacter) {
  Start();
  for (const std::string begin : {"", "a"}) {  // one of them has a character over the limit
    RawClient client(listener_->port());
    std::string name = begin;
    for (int i = 0; i < 50; ++i) {
      name += "%C3%A9";  // U+00E9
    }
    client.Open("/?options={\"fusion\":[{\"name\":\"" + name + "\"}]}");
    client.SendMessage(kBinary, Sound({1}));
    std::pair<int, std::string> frame = client.ReadFrame();
    while (frame.first == kText) {
      frame = client.ReadFrame();
    }
    ASSERT_EQ(frame.first, kClose);
    const std::string reason = frame.second.substr(2);
    EXPECT_THAT(reason, HasSubstr("options.fusion[0].name"));
    EXPECT_LE(reason.size(), 123U);
    EXPECT_GE(reason.size(), 122U);
    EXPECT_EQ(reason.substr(reason.size() - 2), "\u00e9") << reason;
  }
}

v1::RecognizeResponse Ended(int number, const std::string& text) {
  v1::RecognizeResponse message;
  v1::RecognizedSegment& segment = *message.add_segments();
  segment.set_number(number);
  segment.add_hypotheses()->set_text(text);
  return message;
}

// The summary may come with the last segment, just behind it, or long after it.
TEST_F(ListenerTest, EachSegmentHasOneFinalMessage) {
  const serving::ModelPtr model = *models_->Lookup("chunks", "");
  const auto texts_of = [&](const std::vector<std::pair<v1::RecognizeResponse, bool>>& messages) {
    SherpaJson json(*model);
    std::vector<std::string> texts;
    for (const auto& [message, is_complete] : messages) {
      json.Append(message, is_complete, texts);
    }
    return texts;
  };
  v1::RecognizeResponse summary;
  summary.mutable_summary()->set_model("chunks");
  v1::RecognizeResponse both = Ended(1, "t5");
  both.MergeFrom(summary);
  const auto final_of = [](int number, const std::string& text, bool is_eof) {
    return testing::AllOf(
        StartsWith(absl::StrCat("{\"text\":\"", text, "\"")),
        HasSubstr(absl::StrCat("\"segment\":", number, ",")),
        HasSubstr(absl::StrCat("\"is_final\":true,\"is_eof\":", is_eof ? "true" : "false")));
  };
  EXPECT_THAT(texts_of({{Ended(0, "t3"), false}}), testing::ElementsAre(final_of(0, "t3", false)));
  EXPECT_THAT(texts_of({{Ended(0, "t3"), false}, {summary, true}}),
              testing::ElementsAre(final_of(0, "t3", false), final_of(1, "", true)));
  EXPECT_THAT(texts_of({{Ended(0, "t3"), true}, {summary, true}}),
              testing::ElementsAre(final_of(0, "t3", true)));
  EXPECT_THAT(texts_of({{Ended(0, "t3"), true}, {both, true}}),
              testing::ElementsAre(final_of(0, "t3", false), final_of(1, "t5", true)));
  EXPECT_THAT(texts_of({{summary, true}}), testing::ElementsAre(final_of(0, "", true)));
  // A source that fails behind a segment.
  SherpaJson json(*model);
  std::vector<std::string> texts;
  json.Append(Ended(0, "t3"), true, texts);
  EXPECT_THAT(texts, testing::IsEmpty());
  json.Flush(texts);
  EXPECT_THAT(texts, testing::ElementsAre(final_of(0, "t3", false)));
}

TEST_F(ListenerTest, WordsHaveTimes) {
  v1::RecognizeResponse message = Ended(0, "t3 t17");
  v1::Hypothesis& best = *message.mutable_segments(0)->mutable_hypotheses(0);
  for (const int token : {3, 17}) {
    best.add_tokens(token);
    best.add_token_frames(token);
    best.add_token_durations(2);
  }
  const auto model = models_->Lookup("chunks", "").value();
  message.mutable_segments(0)->set_begin_ms(5000);  // times in the message count from here
  serving::SetWords(*model, *message.mutable_segments(0));
  SherpaJson json(*model);
  std::vector<std::string> texts;
  json.Append(message, false, texts);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_THAT(texts[0],
              HasSubstr("\"words\":[{\"word\":\"t3\",\"start\":0.12,\"end\":0.2,\"confidence\":1},"
                        "{\"word\":\"t17\",\"start\":0.68,\"end\":0.76,\"confidence\":1}]"));
}

TEST_F(ListenerTest, WhoNeverAsksIsLetGo) {
  options_.transfer_timeout = absl::Milliseconds(50);
  Start();
  const RawClient silent(listener_->port());
  RawClient slow(listener_->port());
  slow.Send("GET / HT");
  EXPECT_TRUE(NobodyIsLeft());
}

TEST_F(ListenerTest, WhoAnswersPingsStaysAndWhoDoesNotIsLetGo) {
  const auto stays = [this](absl::Duration quiet_time) {
    options_.quiet_time = quiet_time;
    Start();
    RawClient alive(listener_->port());
    alive.Open();
    RawClient dead(listener_->port());
    dead.Open();
    dead.SendMessage(kBinary, Sound({1}));
    for (int i = 0; i < 3; ++i) {
      const auto [opcode, payload] = alive.ReadFrame();
      if (opcode != kPing) {
        return false;
      }
      alive.SendMessage(kPong, payload);
    }
    EXPECT_TRUE(dead.ReadsItsEnd());
    // Half of a frame counts as silence in the end, too.
    alive.Send(std::string("\x82\xfe", 2));
    EXPECT_TRUE(NobodyIsLeft());
    return true;
  };
  // A machine that stalls for a second lets both go: then once more, with more time.
  EXPECT_TRUE(stays(absl::Seconds(1)) || stays(absl::Seconds(5)) || stays(absl::Seconds(20)));
}

TEST_F(ListenerTest, WhoDoesNotReadIsLetGo) {
  options_.transfer_timeout = absl::Seconds(2);  // in which a busy machine shakes hands
  Start();
  RawClient deaf(listener_->port(), 2048);
  deaf.Open();
  std::vector<int> labels(1200);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = 1 + static_cast<int>(i * 7 % 20);
  }
  const std::string all = Sound(labels);
  for (size_t at = 0; at < all.size(); at += kPiece) {
    deaf.SendMessage(kBinary, all.substr(at, kPiece));
  }
  deaf.SendMessage(kText, "Done");
  EXPECT_TRUE(NobodyIsLeft());
  RawClient next(listener_->port());
  EXPECT_THAT(next.Open(), StartsWith("HTTP/1.1 101 "));
}

TEST_F(ListenerTest, MessagesThatAreNotWholeAreReserved) {
  core_->memory().SetLimit(256 << 10);
  Start();
  RawClient first(listener_->port());
  first.Open();
  const std::string head("\x82\xff\0\0\0\0\0\x08\0\0\0\0\0\0", 14);  // 512 KiB follow
  first.Send(head + std::string(150 << 10, '\0'));
  ASSERT_TRUE(e2e::Becomes([this] { return core_->memory().held_bytes() >= 128 << 10; }));
  RawClient second(listener_->port());
  second.Open();
  second.Send(head + std::string(150 << 10, '\0'));
  const auto [opcode, message] = second.ReadFrame();
  EXPECT_EQ(opcode, kText);
  EXPECT_THAT(message, HasSubstr("OUT_OF_MEMORY"));
  EXPECT_EQ(second.ReadFrame().first, kClose);
  RawClient small(listener_->port());
  EXPECT_THAT(small.Open(), StartsWith("HTTP/1.1 101 "));
}

TEST_F(ListenerTest, MoreConnectionsThanThereMayBeAreTold) {
  options_.max_connections = 1;
  Start();
  RawClient first(listener_->port());
  EXPECT_THAT(first.Open(), StartsWith("HTTP/1.1 101 "));
  RawClient second(listener_->port());
  EXPECT_THAT(second.Open(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(ListenerTest, AServerThatStopsAnswersFirst) {
  Start();
  RawClient idle(listener_->port());
  idle.Open();
  RawClient busy(listener_->port());
  busy.Open();
  busy.SendMessage(kBinary, Sound({4, 9}));
  ASSERT_TRUE(e2e::Becomes([this] { return listener_->num_connections() == 2; }));
  // The source has begun when its call is open.
  ASSERT_TRUE(e2e::Becomes([this] { return !state_.WaitUntilAnswered(absl::ZeroDuration()); }));
  listener_->Leave();
  const std::pair<int, std::string> farewell{kClose, "\x03\xe9the server stops"};
  EXPECT_EQ(idle.ReadFrame(), farewell);
  busy.SendMessage(kText, "Done");
  std::string all;
  for (std::pair<int, std::string> frame = busy.ReadFrame(); frame.first == kText;
       frame = busy.ReadFrame()) {
    all += frame.second;
  }
  EXPECT_THAT(all, HasSubstr("\"text\":\"t4 t9\""));
  EXPECT_THAT(all, testing::EndsWith("Done!"));
}

TEST_F(ListenerTest, AnEngineThatOutlivesItIsNoHarm) {
  Start();
  RawClient client(listener_->port());
  client.Open();
  client.SendMessage(kBinary, Sound({4, 9}));
  client.SendMessage(kText, "Done");
  listener_.reset();
  EXPECT_TRUE(state_.WaitUntilAnswered(absl::Minutes(1)));
}

}  // namespace
}  // namespace beamwright::websocket
