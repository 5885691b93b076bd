// Streams of which nothing is heard, by times that the tests give: the watch's own thread looks
// after an hour at the earliest, or in the last test soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/synchronization/notification.h"
#include "engine/status/fault.h"
#include "ops/base/steady_time.h"
#include "server/serving/recognition.h"
#include "server/serving/server_threads.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::serving {
namespace {

using ::testing::HasSubstr;

class StreamWatchTest : public ::testing::Test {
 protected:
  StreamWatchTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(Phase::kServing);
  }

  std::shared_ptr<Recognition> Begin(std::function<void()> wake = [] {}) {
    return Recognition::Make(*core_, Caller{Method::kRecognize}, std::move(wake), [] {});
  }
  static void Configure(Recognition& stream) {
    v1::RecognizeRequest first;
    first.mutable_config()->set_model("tones");
    first.mutable_config()->mutable_audio()->set_sample_rate(16000);
    stream.Add(std::move(first));
  }
  static void Speak(Recognition& stream) {
    v1::RecognizeRequest sound;
    sound.set_audio(sound::AsPcm16(sound::Tones({5})));
    stream.Add(std::move(sound));
  }
  // How it has ended; null while it goes on.
  static std::optional<absl::Status> EndOf(Recognition& stream) {
    v1::RecognizeResponse message;
    absl::Status end;
    for (;;) {
      switch (stream.Take(message, end)) {
        case Recognition::Taken::kNothing:
          return std::nullopt;
        case Recognition::Taken::kEnd:
          return end;
        case Recognition::Taken::kMessage:
          break;
      }
    }
  }

  bundle::TempFolder temp_;
  ServingState state_;
  Metrics metrics_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Core> core_;
};

TEST_F(StreamWatchTest, AStreamOfWhichNothingIsHeardEnds) {
  StreamWatch& watch = core_->streams();
  watch.SetIdle(absl::Hours(1));
  const auto silent = Begin();
  const auto configured = Begin();
  Configure(*configured);
  const auto spoken = Begin();
  Configure(*spoken);
  Speak(*spoken);
  const absl::Time now = SteadyNow();
  watch.Look(now + absl::Minutes(59));
  for (const auto& stream : {silent, configured, spoken}) {
    EXPECT_FALSE(EndOf(*stream).has_value());
  }
  watch.Look(now + absl::Hours(1));
  for (const auto& stream : {silent, configured, spoken}) {
    const std::optional<absl::Status> end = EndOf(*stream);
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(absl::IsDeadlineExceeded(*end)) << *end;
    EXPECT_THAT(std::string(end->message()), HasSubstr("nothing has come of the stream for 1h "
                                                       "(stream-idle-timeout)"));
  }
  // Their calls are closed, so that a drain does not wait for them.
  engine_->Drain();
}

TEST_F(StreamWatchTest, AStreamThatHasSaidAllIsNotIdle) {
  StreamWatch& watch = core_->streams();
  watch.SetIdle(absl::Hours(1));
  absl::Notification answered;
  std::shared_ptr<Recognition> stream;
  stream = Begin([&answered] {
    if (!answered.HasBeenNotified()) {
      answered.Notify();
    }
  });
  Configure(*stream);
  Speak(*stream);
  stream->Finish();
  watch.Look(SteadyNow() + absl::Hours(2));
  answered.WaitForNotification();
  engine_->Drain();
  const std::optional<absl::Status> end = EndOf(*stream);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->ok()) << *end;
}

TEST_F(StreamWatchTest, WithoutALimitNoStreamEnds) {
  StreamWatch& watch = core_->streams();
  watch.SetIdle(absl::ZeroDuration());
  EXPECT_EQ(watch.idle(), absl::InfiniteDuration());
  const auto stream = Begin();
  Configure(*stream);
  watch.Look(absl::InfiniteFuture());
  EXPECT_FALSE(EndOf(*stream).has_value());
  stream->GiveUp();
}

// A server that stops ends streams after a short time without requests, whatever the limit is.
TEST_F(StreamWatchTest, InADrainIdleStreamsEndSoon) {
  for (const absl::Duration idle : {absl::ZeroDuration(), absl::Hours(1)}) {
    StreamWatch& watch = core_->streams();
    watch.SetIdle(idle);
    const auto stream = Begin();
    Configure(*stream);
    const absl::Time now = SteadyNow();
    watch.LookInDrain(now + absl::Seconds(1));
    EXPECT_FALSE(EndOf(*stream).has_value());
    watch.LookInDrain(now + absl::Seconds(2));
    const std::optional<absl::Status> end = EndOf(*stream);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(status::ReasonOf(*end), status::reason::kShuttingDown) << *end;
  }
  engine_->Drain();
}

// However many streams come and go, the watch remembers those that are there.
TEST_F(StreamWatchTest, StreamsThatAreGoneAreForgotten) {
  const auto first = Begin();
  for (int i = 0; i < 1000; ++i) {
    Begin();
  }
  EXPECT_LE(core_->streams().num_streams(), 128);
  Configure(*first);
  core_->streams().LookInDrain(absl::InfiniteFuture());
  EXPECT_TRUE(EndOf(*first).has_value());
}

TEST_F(StreamWatchTest, TheWatchLooksByItself) {
  core_->streams().SetIdle(absl::Milliseconds(20));
  absl::Notification ended;
  const auto stream = Begin([&ended] {
    if (!ended.HasBeenNotified()) {
      ended.Notify();
    }
  });
  Configure(*stream);
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_TRUE(EndOf(*stream).has_value());
}

}  // namespace
}  // namespace beamwright::serving
