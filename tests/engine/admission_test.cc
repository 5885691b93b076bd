// Admission by a clock that stands still unless it is moved: one row makes a step in a second, and
// sources of one token take ten steps and a second.
#include "engine/queue/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/engine/table_bundle.h"
#include "tests/engine/waiting_request.h"

namespace beamwright::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 10;
constexpr int kMaxSteps = 1000;
constexpr int kMaxRows = 8;

absl::Time clock_stands_at;
absl::Time StandingClock() { return clock_stands_at; }

// The thread of a stream without requests: it asks until it is given something.
class IdleStream {
 public:
  IdleStream(Admission& admission, int number) : admission_(admission) {
    thread_ = std::thread([this, number] {
      absl::Status end;
      while (taken_.empty() && admission_.Take(number, {}, taken_, end)) {
      }
      has_taken_.Notify();
    });
  }
  ~IdleStream() {
    admission_.End(absl::UnavailableError("the test is over"));
    thread_.join();
  }

  // How many requests it was given; 0 if none for a minute.
  size_t NumTaken() {
    return has_taken_.WaitForNotificationWithTimeout(absl::Minutes(1)) ? taken_.size() : 0;
  }

 private:
  Admission& admission_;
  Admission::Requests taken_;
  absl::Notification has_taken_;
  std::thread thread_;
};

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    clock_stands_at = absl::UnixEpoch() + absl::Hours(1);
    model_ = *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(1), {}));
  }

  void Start(int num_streams = 1, int max_queue = 100) {
    EngineOptions options;
    options.num_streams = num_streams;
    options.max_queue = max_queue;
    options.max_rows = kMaxRows;
    admission_ = std::make_unique<Admission>(options, StandingClock);
  }

  // With room for all unless max_rows says otherwise.
  void StartAsWorkIs(int64_t cached_bytes = int64_t{1} << 30, int threads = 4,
                     int max_rows = 1024) {
    EngineOptions options;
    options.num_threads = threads;
    options.max_rows = max_rows;
    options.num_streams = EngineOptions::kStreamsAsWorkIs;
    options.cached_bytes = cached_bytes;
    admission_ = std::make_unique<Admission>(options, StandingClock);
  }

  std::unique_ptr<Request> Ask(int rows) {
    auto request = std::make_unique<engine_testing::WaitingRequest>();
    request->model = model_;
    request->source.source_length = 1;
    request->beam_size = rows;
    request->max_steps = kMaxSteps;
    request->accepted = clock_stands_at;
    request->done = DecodeCallback([](const absl::StatusOr<v1::Decoded>&) {});
    return request;
  }

  void Enqueue(int rows) {
    auto request = Ask(rows);
    const absl::Status status = admission_->Enqueue(request);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Of stream `number`, which has no requests.
  Admission::Requests Take(int number = 0) {
    Admission::Requests admitted;
    if (admission_->load().waiting == 0) {
      ADD_FAILURE() << "nothing waits";  // and this would wait for ever
      return admitted;
    }
    absl::Status end;
    EXPECT_TRUE(admission_->Take(number, {}, admitted, end));
    return admitted;
  }

  static void Answer(Request& request, int steps = kSteps) {
    v1::Decoded decoded;
    decoded.add_hypotheses()->mutable_tokens()->Resize(steps, 3);
    request.Give(std::move(decoded));
  }

  // What the forecast is made from.
  void Learn() {
    for (int i = 0; i < 20; ++i) {
      Enqueue(1);
      const Admission::Requests running = Take();
      ASSERT_EQ(running.size(), 1U);
      clock_stands_at += absl::Seconds(1);
      Answer(*running[0]);
    }
  }

  // What a request hears that wants its answer nearly at once; empty: it is queued.
  std::string Refusal(std::unique_ptr<Request> request) {
    request->call.deadline = clock_stands_at + absl::Milliseconds(1);
    return std::string(admission_->Enqueue(request).message());
  }

  std::shared_ptr<const DecodeModel> model_;
  std::unique_ptr<Admission> admission_;
};

TEST_F(AdmissionTest, AForecastIsTheQueueAndHalfOfWhatRunsAndTheAnswerItself) {
  Start();
  Learn();
  Enqueue(4);
  Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 1U);
  // There is room for another request: it need not wait.
  EXPECT_THAT(Refusal(Ask(kMaxRows - 4)), HasSubstr("expected in 1s,"));
  // There is not: half of 4 x 10 row-steps is left.
  EXPECT_THAT(Refusal(Ask(kMaxRows - 3)), HasSubstr("expected in 21s,"));
  // Another 20 wait before a request of the same cost, but before none that is cheaper.
  Enqueue(2);
  EXPECT_THAT(Refusal(Ask(2)), HasSubstr("expected in 41s,"));
  EXPECT_THAT(Refusal(Ask(1)), HasSubstr("expected in 1s,"));
  // What has ended is not waited for.
  clock_stands_at += absl::Seconds(1);
  Answer(*running[0]);
  EXPECT_THAT(Refusal(Ask(2)), HasSubstr("expected in 21s,"));
  running = Take();
  ASSERT_EQ(running.size(), 1U);
  Answer(*running[0]);
  // No request is refused where there is no other work.
  EXPECT_EQ(Refusal(Ask(1)), "");
  Take();
}

// A source of 7 steps makes a forecast that is no whole number: what three requests cost does not
// come back to zero by adding and taking away.
TEST_F(AdmissionTest, NobodyIsRefusedForWhatIsLeftOfSums) {
  Start();
  Learn();
  Enqueue(1);
  const Admission::Requests shorter = Take();
  ASSERT_EQ(shorter.size(), 1U);
  Answer(*shorter[0], 7);
  for (const int rows : {3, 2, 1}) {
    Enqueue(rows);
  }
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 3U);
  EXPECT_THAT(Refusal(Ask(1)), HasSubstr("expected in"));
  for (const auto& request : running) {
    Answer(*request);
  }
  EXPECT_EQ(Refusal(Ask(1)), "");
  Take();
}

TEST_F(AdmissionTest, ASearchThatMayBeCutNeedsNoTimeOfItsOwn) {
  Start();
  Learn();
  Enqueue(1);
  const Admission::Requests running = Take();
  EXPECT_THAT(Refusal(Ask(1)), HasSubstr("expected in 1s,"));
  auto cut = Ask(1);
  cut->cut_at = clock_stands_at;
  EXPECT_EQ(Refusal(std::move(cut)), "");
  Take();
}

TEST_F(AdmissionTest, ACostIsTheStepsForecastOrThoseOfAGivenTarget) {
  Start();
  Learn();
  Enqueue(3);
  ASSERT_EQ(admission_->Tenants().size(), 1U);
  EXPECT_EQ(admission_->Tenants()[0].waiting_cost, 3 * kSteps);
  Take();
  auto scored = Ask(2);
  scored->knows_steps = true;
  scored->max_steps = 77;
  ASSERT_TRUE(admission_->Enqueue(scored).ok());
  EXPECT_EQ(admission_->Tenants()[0].waiting_cost, 2 * 77);
  Take();
}

TEST_F(AdmissionTest, AStreamTakesNoMoreThanItsShare) {
  Start(/*num_streams=*/2);
  for (int i = 0; i < 5; ++i) {
    Enqueue(1);
  }
  EXPECT_EQ(Take(0).size(), 3U);
  EXPECT_EQ(Take(1).size(), 2U);
}

// 16 rows make a stream; what is less is the first one's, which has all threads.
TEST_F(AdmissionTest, StreamsAsWorkIsAreAsManyAsHaveRows) {
  StartAsWorkIs();
  EXPECT_EQ(admission_->load().num_streams, 4);
  for (int i = 0; i < 31; ++i) {
    Enqueue(1);
  }
  const Admission::Requests first = Take(0);
  EXPECT_EQ(first.size(), 31U);
  EXPECT_EQ(admission_->Threads(0), 4);
  Enqueue(1);
  EXPECT_EQ(Take(1).size(), 1U) << "32 rows are work for two";
  EXPECT_EQ(admission_->Threads(0), 2);
  EXPECT_EQ(admission_->Threads(1), 2);
  for (int i = 0; i < 32; ++i) {
    Enqueue(1);
  }
  Admission::Requests none;
  absl::Status end;
  const Reserved running{31, 31, 0};
  EXPECT_TRUE(admission_->Take(0, running, none, end));
  EXPECT_TRUE(none.empty()) << "it has its share";
  EXPECT_EQ(Take(3).size(), 16U);
  EXPECT_EQ(Take(2).size(), 16U);
}

// A stream whose requests have ended says so when it asks again; if the others have looked before
// and there is too little work for it, no other stream says it to them.
TEST_F(AdmissionTest, AStreamThatHasNoMoreWorkGivesItsRoomToTheOthers) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/2, /*max_rows=*/32);
  for (int i = 0; i < 32; ++i) {
    Enqueue(1);
  }
  const Admission::Requests first = Take(0);
  const Admission::Requests second = Take(1);
  ASSERT_EQ(first.size(), 16U);
  ASSERT_EQ(second.size(), 16U);
  Enqueue(20);
  for (const auto* requests : {&first, &second}) {
    for (const auto& request : *requests) {
      Answer(*request);
    }
  }
  EXPECT_TRUE(Take(0).empty()) << "20 rows fit with 16 only when the other has reported its end";
  IdleStream one(*admission_, 0);
  IdleStream other(*admission_, 1);
  EXPECT_EQ(one.NumTaken(), 1U);
}

// What the new thread of a stream does not run is room for the others at once.
TEST_F(AdmissionTest, AStreamThatStartsAgainGivesItsRoomToTheOthers) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/2, /*max_rows=*/32);
  for (int i = 0; i < 32; ++i) {
    Enqueue(1);
  }
  const Admission::Requests first = Take(0);
  const Admission::Requests second = Take(1);
  ASSERT_EQ(second.size(), 16U);
  Enqueue(20);
  EXPECT_TRUE(Take(0).empty());
  IdleStream one(*admission_, 0);
  admission_->Restart(1, {});
  EXPECT_EQ(one.NumTaken(), 1U);
}

// A wide request that is cancelled while it waits for room stands no more before those behind it.
TEST_F(AdmissionTest, WhatStoodBehindADeadOneIsTakenByAStreamThatWaits) {
  Start(/*num_streams=*/2);
  Enqueue(4);
  const Admission::Requests first = Take(0);
  ASSERT_EQ(first.size(), 1U);
  auto wide = Ask(kMaxRows);
  const auto cancelled = std::make_shared<CancelFlag>();
  wide->call.cancelled = cancelled;
  wide->call.call = 1;
  ASSERT_TRUE(admission_->Enqueue(wide).ok());
  auto behind = Ask(4);
  behind->call.call = 1;
  ASSERT_TRUE(admission_->Enqueue(behind).ok());
  EXPECT_TRUE(Take(1).empty());
  clock_stands_at += absl::Seconds(1);
  IdleStream other(*admission_, 1);
  cancelled->Cancel();
  Admission::Requests none;
  absl::Status end;
  EXPECT_TRUE(admission_->Take(0, {1, 4, 0}, none, end));
  EXPECT_TRUE(none.empty()) << "it has its share";
  EXPECT_EQ(other.NumTaken(), 1U);
}

// One that takes no work says nothing of those that do.
TEST_F(AdmissionTest, AStreamThatTakesNoWorkIsNoSignOfLife) {
  StartAsWorkIs();
  Enqueue(1);
  const Admission::Requests running = Take(0);
  clock_stands_at += absl::Seconds(3);
  EXPECT_EQ(admission_->load().stalled, absl::Seconds(3));
}

// 64 rows make a stream as long as a model that no cache holds has work, be it in the queue.
TEST_F(AdmissionTest, StreamsOfALargeModelHaveMoreRows) {
  StartAsWorkIs(/*cached_bytes=*/-1, /*threads=*/16);
  for (int i = 0; i < 127; ++i) {
    Enqueue(1);
  }
  const Admission::Requests running = Take(0);
  EXPECT_EQ(running.size(), 127U);
  EXPECT_EQ(admission_->Threads(0), 16);
  Enqueue(1);
  EXPECT_EQ(Take(1).size(), 1U) << "128 rows are work for two";
}

// Of three in a full queue the second is cancelled and the third past its deadline.
TEST_F(AdmissionTest, TheDeadMakeRoomInAFullQueueWhereverTheyStand) {
  Start(/*num_streams=*/1, /*max_queue=*/3);
  std::vector<absl::Status> answers(6, absl::UnknownError("no answer"));
  const auto enqueue = [&](size_t number, const CallOptions& call = {}) {
    auto request = Ask(1);
    request->call = call;
    request->done =
        DecodeCallback([&answer = answers[number]](const absl::StatusOr<v1::Decoded>& decoded) {
          answer = decoded.status();
        });
    const absl::Status status = admission_->Enqueue(request);
    return status;
  };
  const auto flag = std::make_shared<CancelFlag>();
  CallOptions cancelled;
  cancelled.cancelled = flag;
  CallOptions late;
  late.deadline = clock_stands_at + absl::Milliseconds(500);
  EXPECT_TRUE(enqueue(0).ok());
  EXPECT_TRUE(enqueue(1, cancelled).ok());
  EXPECT_TRUE(enqueue(2, late).ok());
  EXPECT_TRUE(admission_->CheckFull().ok()) << "no request was refused yet";
  EXPECT_EQ(status::ReasonOf(enqueue(3)), status::reason::kQueueFull);
  EXPECT_EQ(status::ReasonOf(admission_->CheckFull()), status::reason::kQueueFull);
  flag->Cancel();
  clock_stands_at += absl::Seconds(1);
  EXPECT_TRUE(admission_->CheckFull().ok()) << "there may be room by now";
  EXPECT_TRUE(enqueue(4).ok());
  EXPECT_TRUE(enqueue(5).ok());
  EXPECT_EQ(status::ReasonOf(enqueue(3)), status::reason::kQueueFull);
  const Admission::Requests running = Take();
  EXPECT_EQ(running.size(), 3U);
  EXPECT_EQ(answers[1].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(answers[2].code(), absl::StatusCode::kDeadlineExceeded);
  for (const auto& request : running) {
    Answer(*request);
  }
  for (const size_t number : {0, 4, 5}) {
    EXPECT_TRUE(answers[number].ok()) << number << " " << answers[number];
  }
}

// A stream whose requests wait, as those for sound that does not come, makes no turn; neither does
// one that has found no room. Who gives up in the queue meanwhile is answered by one of them.
TEST_F(AdmissionTest, TheDeadAreFoundWhileAllStreamsWait) {
  Start();
  Enqueue(kMaxRows);
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 1U);
  const auto cancelled = std::make_shared<CancelFlag>();
  auto request = Ask(1);
  absl::Notification is_answered;
  request->done = DecodeCallback([&is_answered](const absl::StatusOr<v1::Decoded>& decoded) {
    EXPECT_TRUE(absl::IsCancelled(decoded.status())) << decoded.status();
    is_answered.Notify();
  });
  request->call.cancelled = cancelled;
  ASSERT_TRUE(admission_->Enqueue(request).ok());
  const Reserved in_hand{1, kMaxRows, 0};
  Admission::Requests none;
  absl::Status end;
  ASSERT_TRUE(admission_->Take(0, in_hand, none, end));  // it has seen that there is no room
  clock_stands_at += absl::Seconds(1);
  cancelled->Cancel();
  std::thread stream([&] {
    absl::Status not_yet;
    EXPECT_TRUE(admission_->Take(0, in_hand, absl::InfiniteFuture(), none, not_yet));
  });
  admission_->LookForDead();
  EXPECT_TRUE(is_answered.WaitForNotificationWithTimeout(absl::Minutes(1)));
  admission_->End(absl::UnavailableError("the test is over"));  // or the stream would wait on
  stream.join();
  EXPECT_TRUE(none.empty());
}

// Who drains may then destroy what the answers go to.
TEST_F(AdmissionTest, DrainWaitsForTheAnswersOfTheDead) {
  Start();
  const auto cancelled = std::make_shared<CancelFlag>();
  auto request = Ask(1);
  absl::Notification begun;
  absl::Notification drained;
  std::atomic<bool> is_answered = false;
  request->done = DecodeCallback([&](const absl::StatusOr<v1::Decoded>& /*decoded*/) {
    begun.Notify();
    // Long enough for a drain that does not wait.
    drained.WaitForNotificationWithTimeout(absl::Milliseconds(200));
    is_answered = true;
  });
  request->call.cancelled = cancelled;
  ASSERT_TRUE(admission_->Enqueue(request).ok());
  cancelled->Cancel();
  std::thread stream([&] {
    Admission::Requests none;
    absl::Status end;
    while (admission_->Take(0, {}, none, end)) {
    }
  });
  begun.WaitForNotification();
  admission_->Drain();
  EXPECT_TRUE(is_answered);
  drained.Notify();
  stream.join();
}

// A call of one source takes no part in the lockstep of a call of hundreds.
TEST_F(AdmissionTest, ACallOfHundredsDelaysAnotherByNoneOfItsSources) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/1);
  const auto enqueue = [this](uint64_t call) {
    auto request = Ask(32);
    request->call.call = call;
    ASSERT_TRUE(admission_->Enqueue(request).ok());
  };
  for (int i = 0; i < 300; ++i) {
    enqueue(1);
  }
  const Admission::Requests large = Take();
  EXPECT_EQ(large.size(), 28U) << "an eighth of 1,024 rows is kept";
  for (uint64_t call = 2; call < 6; ++call) {
    enqueue(call);
    Admission::Requests small;
    absl::Status end;
    ASSERT_TRUE(admission_->Take(0, ReservedFor(large), small, end));
    ASSERT_EQ(small.size(), 1U) << call;
    EXPECT_EQ(small[0]->call.call, call);
    Answer(*small[0]);
  }
}

// Next to a client with single sources few sources with long steps run, of all calls together:
// those of wide beams, or with patterns. Where the model's weights do not stay in the cache, more
// rows make a step hardly longer.
TEST_F(AdmissionTest, FewSourcesWithLongStepsRunBesideASingleOne) {
  struct Case {
    int64_t cached_bytes;
    int rows;
    bool has_pattern;
    size_t num_running;
  };
  for (const Case& each :
       {Case{int64_t{1} << 30, 32, false, 2}, Case{int64_t{1} << 30, 16, false, 10},
        Case{-1, 32, false, 10}, Case{-1, 4, true, 2}}) {
    StartAsWorkIs(each.cached_bytes, /*threads=*/1);
    const auto enqueue = [&](uint64_t call, int rows, bool has_pattern) {
      auto request = Ask(rows);
      request->call.call = call;
      request->has_long_steps = has_pattern;
      ASSERT_TRUE(admission_->Enqueue(request).ok());
    };
    enqueue(1, 4, false);
    const Admission::Requests single = Take();
    ASSERT_EQ(single.size(), 1U);
    Answer(*single[0]);
    for (uint64_t call = 2; call < 12; ++call) {
      for (int i = 0; i < 30; ++i) {
        enqueue(call, each.rows, each.has_pattern);
      }
    }
    const Admission::Requests running = Take();
    EXPECT_EQ(running.size(), each.num_running) << each.rows << " rows";
    for (const auto& request : running) {
      Answer(*request);
    }
  }
}

// The sources of a large call are known as such while a client with a single source is there.
TEST_F(AdmissionTest, SourcesOfALargeCallAreThoseOfACrowd) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/1);
  const auto enqueue = [&](uint64_t call, int num_sources) {
    auto request = Ask(4);
    request->call.call = call;
    request->call.num_sources = num_sources;
    ASSERT_TRUE(admission_->Enqueue(request).ok());
  };
  const auto is_of_crowd = [&] {
    const Admission::Requests taken = Take();
    EXPECT_EQ(taken.size(), 1U);
    const bool is = taken[0]->is_of_crowd;
    Answer(*taken[0]);
    return is;
  };
  enqueue(1, 300);
  EXPECT_FALSE(is_of_crowd()) << "no other client is there, and the call did not come alone";
  enqueue(1, 300);
  EXPECT_FALSE(is_of_crowd());
  enqueue(2, 1);
  EXPECT_FALSE(is_of_crowd());
  enqueue(1, 300);
  EXPECT_TRUE(is_of_crowd());
  enqueue(2, 1);
  EXPECT_FALSE(is_of_crowd());
  clock_stands_at += absl::Seconds(2);
  enqueue(1, 300);
  EXPECT_FALSE(is_of_crowd()) << "the other client has gone";
}

TEST_F(AdmissionTest, CallsOfOneClientLeaveRowsForThoseOfAnother) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/1);
  const auto enqueue = [this](uint64_t call, uint32_t client) {
    auto request = Ask(32);
    request->call.call = call;
    request->call.client = client;
    ASSERT_TRUE(admission_->Enqueue(request).ok());
  };
  for (uint64_t call = 1; call <= 40; ++call) {
    enqueue(call, 7);
  }
  const Admission::Requests of_client = Take();
  EXPECT_LT(of_client.size(), 32U) << "of 1,024 rows some are kept";
  enqueue(100, 8);
  Admission::Requests other;
  absl::Status end;
  ASSERT_TRUE(admission_->Take(0, ReservedFor(of_client), other, end));
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0]->call.call, 100U);
}

// Eighty clients make a call of 20,000 row-steps each, and one makes short calls all the time: its
// calls run at once, and few of the others' rows with them.
TEST_F(AdmissionTest, LongCallsOfManyClientsDoNotStandBeforeAShortOne) {
  for (const bool short_one_is_first : {true, false}) {
    StartAsWorkIs(int64_t{1} << 30, /*threads=*/1);
    uint64_t call = 0;
    Admission::Requests long_ones;
    const auto enqueue = [&](int rows, int steps) {
      auto request = Ask(rows);
      request->call.call = ++call;
      request->max_steps = steps;
      request->knows_steps = true;
      ASSERT_TRUE(admission_->Enqueue(request).ok());
    };
    const auto make_short_call = [&] {
      enqueue(4, 10);
      Admission::Requests taken;
      absl::Status end;
      ASSERT_TRUE(admission_->Take(0, ReservedFor(long_ones), taken, end));
      size_t shorts = 0;
      for (std::unique_ptr<Request>& request : taken) {
        if (request->beam_size == 4) {
          Answer(*request);
          ++shorts;
        } else {
          long_ones.push_back(std::move(request));
        }
      }
      ASSERT_EQ(shorts, 1U) << call;
    };
    if (short_one_is_first) {
      make_short_call();
    }
    for (int i = 0; i < 80; ++i) {
      enqueue(64, 300);
    }
    if (!short_one_is_first) {
      long_ones = Take();
      EXPECT_GE(long_ones.size(), 14U) << "alone they have nearly all rows";
    }
    for (int i = 0; i < 50; ++i) {
      make_short_call();
    }
    EXPECT_LE(long_ones.size(), short_one_is_first ? 1U : 15U);
    for (int i = 0; i < 40; ++i) {
      ASSERT_FALSE(long_ones.empty()) << "each ends, and another one begins";
      Answer(*long_ones.front());
      long_ones.erase(long_ones.begin());
      make_short_call();
    }
    EXPECT_EQ(long_ones.size(), 1U) << "next to short ones";
    for (const std::unique_ptr<Request>& request : long_ones) {
      Answer(*request);
    }
    while (admission_->load().waiting > 0) {
      for (const std::unique_ptr<Request>& request : Take()) {
        Answer(*request);
      }
    }
  }
}

TEST_F(AdmissionTest, AForecastForACallIsATurnOfTheOther) {
  Start();
  Learn();
  for (int i = 0; i < 50; ++i) {
    auto request = Ask(7);
    request->call.call = 1;
    ASSERT_TRUE(admission_->Enqueue(request).ok());
  }
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 1U);
  // The other goes before what waits of the first call, of which a source runs: half of the 70
  // row-steps that run, and the answer itself.
  auto other = Ask(8);
  other->call.call = 2;
  EXPECT_THAT(Refusal(std::move(other)), HasSubstr("expected in 36s,"));
  // The call itself waits for all that it has.
  auto own = Ask(7);
  own->call.call = 1;
  EXPECT_THAT(Refusal(std::move(own)), HasSubstr("expected in 57m46s,"));
}

// Next to a client with a short source, long ones run one after the other, however many rows there
// are: 1,600 row-steps in 95 seconds each, though 64 are made in a second.
TEST_F(AdmissionTest, AForecastForAHeavySourceCountsThatOthersRunBeforeIt) {
  StartAsWorkIs(int64_t{1} << 30, /*threads=*/1);
  for (int i = 0; i < 20; ++i) {
    Enqueue(64);
    const Admission::Requests running = Take();
    ASSERT_EQ(running.size(), 1U);
    clock_stands_at += absl::Seconds(1);
    Answer(*running[0]);
  }
  Enqueue(1);
  Answer(*Take().at(0));
  const auto ask = [this] {
    auto request = Ask(16);
    request->source.source_length = 199;
    request->max_steps = 100;
    request->knows_steps = true;
    return request;
  };
  std::unique_ptr<Request> first = ask();
  ASSERT_TRUE(admission_->Enqueue(first).ok());
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 1U);
  EXPECT_THAT(Refusal(ask()), HasSubstr("expected in 3m10"));
  std::unique_ptr<Request> second = ask();
  ASSERT_TRUE(admission_->Enqueue(second).ok());
  EXPECT_THAT(Refusal(ask()), HasSubstr("expected in 4m45"));
}

class ArrivingTest : public AdmissionTest {
 protected:
  void StartWith(int64_t max_bytes) {
    EngineOptions options;
    options.max_rows = kMaxRows;
    options.max_bytes = max_bytes;
    admission_ = std::make_unique<Admission>(options, StandingClock);
  }
  std::unique_ptr<Request> Heavy(int64_t bytes, bool is_stream) {
    auto request = Ask(1);
    request->price_bytes = bytes;
    request->call.feed = is_stream ? std::make_shared<FrameFeed>() : nullptr;
    return request;
  }
  absl::Status EnqueueHeavy(int64_t bytes, bool is_stream) {
    auto request = Heavy(bytes, is_stream);
    return admission_->Enqueue(request);
  }
  // What is taken while `running` runs.
  Admission::Requests TakeBeside(const Admission::Requests& running) {
    Reserved in_hand = ReservedFor(running);
    Admission::Requests admitted;
    absl::Status end;
    EXPECT_TRUE(admission_->Take(0, in_hand, admitted, end));
    return admitted;
  }
};

TEST_F(ArrivingTest, StreamsHoldThreeQuartersAndNewOnesHalfWhileCallsWait) {
  StartWith(1600);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(EnqueueHeavy(100, /*is_stream=*/true).ok());
  }
  Admission::Requests streams = Take();
  EXPECT_EQ(streams.size(), 12U);
  EXPECT_EQ(admission_->load().memory.stream_bytes, 1200);
  EXPECT_EQ(admission_->load().memory.waiting, 8);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(EnqueueHeavy(100, /*is_stream=*/false).ok());
  }
  // The last hundred bytes are for streams to grow into.
  Admission::Requests calls = TakeBeside(streams);
  ASSERT_EQ(calls.size(), 3U);
  for (const auto& call : calls) {
    EXPECT_FALSE(call->is_stream());
  }
  // Four streams end: the call that waits goes first, and streams keep to their half meanwhile.
  for (int i = 0; i < 4; ++i) {
    Answer(*streams.back());
    streams.pop_back();
  }
  for (auto& call : calls) {
    Answer(*call);
  }
  calls = TakeBeside(streams);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_FALSE(calls[0]->is_stream());
  // Nothing but streams waits now.
  EXPECT_EQ(TakeBeside(streams).size(), 4U);
}

TEST_F(ArrivingTest, AStreamGrowsAsFarAsThereIsRoom) {
  StartWith(1600);
  ASSERT_TRUE(EnqueueHeavy(100, /*is_stream=*/true).ok());
  ASSERT_TRUE(EnqueueHeavy(900, /*is_stream=*/false).ok());
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 2U);
  Request& stream = *running[0];
  ASSERT_TRUE(stream.is_stream());
  ASSERT_NE(stream.reserve, nullptr);
  EXPECT_EQ(running[1]->reserve, nullptr);
  EXPECT_TRUE(stream.reserve(600));
  stream.price_bytes += 600;
  EXPECT_EQ(admission_->load().bytes, 1600);
  EXPECT_EQ(admission_->load().memory.stream_bytes, 700);
  EXPECT_FALSE(stream.reserve(1));
  EXPECT_TRUE(stream.reserve(-500));
  stream.price_bytes -= 500;
  Answer(*running[1]);
  EXPECT_EQ(admission_->load().memory.stream_bytes, 200);
  Answer(stream);
  EXPECT_EQ(admission_->load().memory.stream_bytes, 0);
  EXPECT_EQ(admission_->load().memory.streams, 0);
}

TEST_F(ArrivingTest, AStreamDoesNotGrowBeyondTheShareOfStreams) {
  StartWith(1600);
  ASSERT_TRUE(EnqueueHeavy(100, /*is_stream=*/true).ok());
  const Admission::Requests running = Take();
  ASSERT_EQ(running.size(), 1U);
  EXPECT_FALSE(running[0]->reserve(1101));
  EXPECT_TRUE(running[0]->reserve(1100));
  running[0]->price_bytes += 1100;
  Answer(*running[0]);
}

TEST_F(AdmissionTest, ItIsIdleAgainWhenWhatWaitedHasDied) {
  Start();
  const auto cancelled = std::make_shared<CancelFlag>();
  auto request = Ask(1);
  absl::Status answer;
  request->done = DecodeCallback(
      [&answer](const absl::StatusOr<v1::Decoded>& decoded) { answer = decoded.status(); });
  request->call.cancelled = cancelled;
  ASSERT_TRUE(admission_->Enqueue(request).ok());
  EXPECT_FALSE(admission_->idle());
  cancelled->Cancel();
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(admission_->idle());
}

}  // namespace
}  // namespace beamwright::engine
