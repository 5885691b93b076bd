// The write loop of calls that answer with a stream, without a transport: the test is gRPC, and
// takes each message when it likes.
#include "server/rpc/stream_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "server/rpc/raw_message.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::rpc {
namespace {

// A message that is not joined with another one.
v1::TranslateResponse Numbered(int number) {
  v1::TranslateResponse message;
  message.set_document(std::to_string(number));
  return message;
}

v1::TranslateResponse WithText(size_t bytes) {
  v1::TranslateResponse message;
  message.add_translations()->set_text(std::string(bytes, 'a'));
  return message;
}

// What a call needs of the server.
class Site {
 public:
  Site() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *serving::ModelRegistry::Load(paths);
    core_.emplace(state_, *models_, *engine_, metrics_);
  }
  serving::Core& core() { return *core_; }

 private:
  bundle::TempFolder temp_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_ = *engine::Engine::Start({1, 64, 100});
  serving::ServingState state_;
  serving::Metrics metrics_;
  std::optional<serving::Core> core_;
};

// A call whose messages the test adds.
class WrittenCall final : public RawReactor {
 public:
  explicit WrittenCall(serving::Core& core) : core_(core) {}

  void Add(v1::TranslateResponse message) {
    absl::MutexLock lock(&mutex_);
    messages_.Add(std::move(message));
    writer_.Advance<v1::TranslateResponse>(messages_);
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    messages_.End(status);
    writer_.Advance<v1::TranslateResponse>(messages_);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writer_.OnWritten(ok);
    writer_.Advance<v1::TranslateResponse>(messages_);
  }
  void OnDone() override {}

  bool has_ended() {
    absl::MutexLock lock(&mutex_);
    return writer_.has_ended();
  }
  int num_stops() {
    absl::MutexLock lock(&mutex_);
    return num_stops_;
  }

 private:
  serving::Core& core_;
  const access::Access access_;
  const Gate gate_{access_, core_, 1 << 20};
  grpc::CallbackServerContext context_;
  absl::Mutex mutex_;
  TranslatedMessages messages_ ABSL_GUARDED_BY(mutex_);
  int num_stops_ ABSL_GUARDED_BY(mutex_) = 0;
  MessageWriter writer_ ABSL_GUARDED_BY(mutex_){
      *this, gate_, core_, context_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { ++num_stops_; }};
};

// gRPC as the call sees it.
class Transport final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Transport(WrittenCall& call) : call_(call) { BindReactor(&call); }

  // The documents of the messages so far; a message that came while another one was being written
  // is a failure.
  std::vector<std::string> documents() {
    absl::MutexLock lock(&mutex_);
    return documents_;
  }
  // Waits for a message or the end of the call; the client takes the message, or is gone. False:
  // the end.
  bool TakeNext(bool is_sent = true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto has_next = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return is_writing_ || status_.has_value();
      };
      mutex_.Await(absl::Condition(&has_next));
      if (!is_writing_) {
        return false;
      }
      is_writing_ = false;
    }
    call_.OnWriteDone(is_sent);
    return true;
  }
  std::optional<grpc::Status> status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  grpc::internal::ServerReactor* reactor() override { return &call_; }
  void CallOnDone() override {}
  void SendInitialMetadata() override {}
  void Read(grpc::ByteBuffer* /*place*/) override {}
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions /*options*/) override {
    grpc::ByteBuffer bytes(*message);
    const auto parsed = ParseRequest<v1::TranslateResponse>(bytes, 1 << 20);
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(is_writing_) << "two messages at a time";
    EXPECT_FALSE(status_.has_value()) << "a message behind the end";
    is_writing_ = true;
    documents_.push_back(parsed.ok() ? parsed->document() : parsed.status().ToString());
  }
  void WriteAndFinish(const grpc::ByteBuffer* /*message*/, grpc::WriteOptions /*options*/,
                      grpc::Status /*status*/) override {
    ADD_FAILURE();
  }
  void Finish(grpc::Status status) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(is_writing_) << "the end before a message is written";
    EXPECT_FALSE(status_.has_value()) << "a second end";
    status_ = std::move(status);
  }

  WrittenCall& call_;
  absl::Mutex mutex_;
  std::vector<std::string> documents_ ABSL_GUARDED_BY(mutex_);
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mutex_);
};

TEST(MessageWriterTest, WritesOneMessageAtATimeAndThenTheStatus) {
  Site site;
  WrittenCall call(site.core());
  Transport transport(call);
  call.Add(Numbered(1));
  call.Add(Numbered(2));
  call.End(absl::NotFoundError("gone"));
  EXPECT_EQ(transport.documents(), std::vector<std::string>({"1"}));
  EXPECT_FALSE(call.has_ended());
  EXPECT_TRUE(transport.TakeNext());
  EXPECT_EQ(transport.documents(), std::vector<std::string>({"1", "2"}));
  EXPECT_FALSE(call.has_ended());
  EXPECT_TRUE(transport.TakeNext());
  EXPECT_TRUE(call.has_ended());
  ASSERT_TRUE(transport.status().has_value());
  EXPECT_EQ(transport.status()->error_code(), grpc::StatusCode::NOT_FOUND);
  call.Add(Numbered(3));
  EXPECT_EQ(transport.documents().size(), 2);
  EXPECT_EQ(call.num_stops(), 0);
}

TEST(MessageWriterTest, AClientThatIsGoneStopsTheWork) {
  Site site;
  WrittenCall call(site.core());
  Transport transport(call);
  call.Add(Numbered(1));
  EXPECT_TRUE(transport.TakeNext(/*is_sent=*/false));
  EXPECT_EQ(call.num_stops(), 1);
  EXPECT_FALSE(call.has_ended());
  call.End(absl::CancelledError("the call was cancelled"));
  EXPECT_TRUE(call.has_ended());
  EXPECT_EQ(transport.status()->error_code(), grpc::StatusCode::CANCELLED);
}

// A client that does not read is not free of charge, and without memory the call ends.
TEST(MessageWriterTest, AMessageCountsAsMemoryUntilItsClientTookIt) {
  Site site;
  WrittenCall call(site.core());
  Transport transport(call);
  call.Add(WithText(100 << 10));
  EXPECT_GE(site.core().memory().held_bytes(), 100 << 10);
  EXPECT_TRUE(transport.TakeNext());
  EXPECT_EQ(site.core().memory().held_bytes(), 0);
  site.core().memory().SetLimit(80 << 10);
  call.Add(WithText(100 << 10));
  EXPECT_TRUE(call.has_ended());
  EXPECT_EQ(call.num_stops(), 1);
  EXPECT_EQ(transport.status()->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(site.core().memory().held_bytes(), 0);
}

TEST(MessageWriterTest, MessagesOfAnotherThreadComeInOrderAndOnce) {
  constexpr int kMessages = 200;
  Site site;
  WrittenCall call(site.core());
  Transport transport(call);
  std::thread adder([&call] {
    for (int i = 0; i < kMessages; ++i) {
      call.Add(Numbered(i));
    }
    call.End(absl::OkStatus());
  });
  while (transport.TakeNext()) {
  }
  adder.join();
  const std::vector<std::string> documents = transport.documents();
  ASSERT_EQ(documents.size(), kMessages);
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(documents[static_cast<size_t>(i)], std::to_string(i));
  }
  EXPECT_TRUE(transport.status()->ok());
}

TEST(TranslatedMessagesTest, SmallMessagesAreJoinedAndDocumentsAreNot) {
  TranslatedMessages messages;
  v1::TranslateResponse message;
  absl::Status end;
  EXPECT_EQ(messages.Take(message, end), serving::Taken::kNothing);
  messages.Add(WithText(100 << 10));
  messages.Add(WithText(100 << 10));
  messages.Add(WithText(100 << 10));  // 300 KiB are more than a joined message has
  messages.Add(Numbered(1));
  messages.End(absl::InternalError("broken"));
  for (const int num_translations : {2, 1, 0}) {
    ASSERT_EQ(messages.Take(message, end), serving::Taken::kMessage);
    EXPECT_EQ(message.translations_size(), num_translations);
  }
  EXPECT_EQ(message.document(), "1");
  EXPECT_EQ(messages.Take(message, end), serving::Taken::kEnd);
  EXPECT_EQ(end.message(), "broken");
}

}  // namespace
}  // namespace beamwright::rpc
