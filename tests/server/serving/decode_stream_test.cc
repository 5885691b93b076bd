// A stream between engine and reader: in pieces for one who reads, in one for one who does not.
#include "server/serving/decode_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace beamwright::serving {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class DecodeStreamTest : public ::testing::Test {
 protected:
  DecodeStreamTest() {
    ModelPaths paths;
    paths.models.push_back(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/g2p-en"));
    auto models = ModelRegistry::Load(paths);
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = *std::move(models);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(Phase::kServing);
  }

  static v1::StreamDecodeRequest Request(const std::string& word) {
    v1::StreamDecodeRequest request;
    request.mutable_source()->set_text(word);
    return request;
  }

  // The answer of a plain call.
  v1::Decoded Decoded(const v1::StreamDecodeRequest& request) {
    const ModelPtr model = *models_->Lookup("", "");
    return *engine_->DecodeAndWait(model, request.source(), request.options());
  }

  ServingState state_;
  Metrics metrics_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Core> core_;
};

TEST_F(DecodeStreamTest, AReaderGetsPiecesThatAddUp) {
  const v1::StreamDecodeRequest request = Request("antidisestablishmentarianism");
  const auto stream = DecodeStream::Start(*core_, request, {Method::kStreamDecode}, nullptr);
  std::vector<int32_t> tokens;
  v1::StreamDecodeResponse message;
  absl::Status end;
  for (;;) {
    const DecodeStream::Taken taken = stream->Take(message, end);
    if (taken == DecodeStream::Taken::kEnd) {
      break;
    }
    if (taken == DecodeStream::Taken::kNothing) {
      stream->Wait(absl::InfiniteDuration());
      continue;
    }
    for (const v1::StableTokens& stable : message.stable()) {
      EXPECT_EQ(stable.position(), static_cast<int>(tokens.size()));
      tokens.insert(tokens.end(), stable.tokens().begin(), stable.tokens().end());
      EXPECT_THAT(std::string(stable.text()), ::testing::Not(::testing::IsEmpty()));
    }
    EXPECT_FALSE(message.has_provisional()) << "not asked for";
  }
  EXPECT_TRUE(end.ok()) << end;
  ASSERT_TRUE(message.model().empty()) << "a message after the end";
  EXPECT_THAT(tokens, ElementsAreArray(Decoded(request).hypotheses(0).tokens()));
}

// The engine has ended with the call before anything is taken: all is in one message.
TEST_F(DecodeStreamTest, OneWhoDoesNotReadDelaysNobodyAndGetsTheNewestState) {
  v1::StreamDecodeRequest request = Request("antidisestablishmentarianism");
  request.set_provisional(true);
  const auto wakes = std::make_shared<std::atomic<int>>(0);
  const auto stream = DecodeStream::Start(*core_, request, {Method::kStreamDecode},
                                          [wakes] { wakes->fetch_add(1); });
  const v1::Decoded other = Decoded(Request("recurrent"));  // while no client takes
  EXPECT_EQ(other.hypotheses(0).text(), "R IY0 K ER1 AH0 N T");
  engine_->Drain();
  const v1::Decoded expected = [&] {
    const auto engine = *engine::Engine::Start({1, 64, 100});
    return *engine->DecodeAndWait(*models_->Lookup("", ""), request.source(), {});
  }();
  v1::StreamDecodeResponse message;
  absl::Status end;
  // The answer comes by the reply thread.
  v1::StreamDecodeResponse last;
  int messages = 0;
  std::vector<int32_t> tokens;
  for (DecodeStream::Taken taken;
       (taken = stream->Take(message, end)) != DecodeStream::Taken::kEnd;) {
    if (taken == DecodeStream::Taken::kNothing) {
      stream->Wait(absl::InfiniteDuration());
      continue;
    }
    ++messages;
    EXPECT_LE(message.stable_size(), 1);
    for (const v1::StableTokens& stable : message.stable()) {
      tokens.insert(tokens.end(), stable.tokens().begin(), stable.tokens().end());
    }
    last = message;
  }
  EXPECT_LE(messages, 2) << "what was not taken was joined";
  EXPECT_GT(wakes->load(), 2) << "there was more to take meanwhile";
  EXPECT_THAT(tokens, ElementsAreArray(expected.hypotheses(0).tokens()));
  ASSERT_TRUE(last.has_decoded());
  EXPECT_EQ(last.decoded().hypotheses(0).SerializeAsString(),
            expected.hypotheses(0).SerializeAsString());
  EXPECT_EQ(last.model(), "g2p-en");
  EXPECT_FALSE(last.has_provisional()) << "the answer takes its place";
}

TEST_F(DecodeStreamTest, FailuresEndTheStreamWithTheirStatus) {
  const auto error = [&](absl::StatusOr<v1::StreamDecodeRequest> request) {
    const auto stream =
        DecodeStream::Start(*core_, std::move(request), {Method::kStreamDecode}, nullptr);
    v1::StreamDecodeResponse message;
    absl::Status end;
    stream->Wait(absl::InfiniteDuration());
    EXPECT_EQ(stream->Take(message, end), DecodeStream::Taken::kEnd);
    return end;
  };
  EXPECT_EQ(error(Request("")).code(), absl::StatusCode::kInvalidArgument);
  v1::StreamDecodeRequest request = Request("word");
  request.set_model("x");
  EXPECT_EQ(error(request).code(), absl::StatusCode::kNotFound);
  request = Request("word");
  request.mutable_options()->set_beam_size(0);
  EXPECT_THAT(std::string(error(request).message()), HasSubstr("options.beam_size: 0"));
  EXPECT_EQ(error(absl::InvalidArgumentError("malformed")).message(), "malformed");
  state_.Enter(Phase::kRefusing);
  EXPECT_EQ(error(Request("word")).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace beamwright::serving
