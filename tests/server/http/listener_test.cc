#include "server/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/status/fault.h"
#include "server/http/replies.h"
#include "server/serving/server_threads.h"
#include "tests/e2e/becomes.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/server/access/test_certificates.h"
#include "tests/server/http/raw_http_client.h"

namespace beamwright::http {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Client = RawHttpClient;

std::string Get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

HttpReply Echo(const HttpRequest& request) {
  return {200, "text/plain", request.method + " " + request.path + " " + request.body + "!", {}};
}

std::unique_ptr<Listener> Start(ListenerOptions options, Handler handler = Echo) {
  options.address = "127.0.0.1:0";
  absl::StatusOr<std::unique_ptr<Listener>> listener = Listener::Start(options, std::move(handler));
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

// Keeps a listener's reports of requests that it refuses: "/path REASON".
class Refusals {
 public:
  void AddTo(ListenerOptions& options) {
    options.refused = [this](const HttpRequest& request, const absl::Status& why) {
      absl::MutexLock lock(&mutex_);
      told_.push_back(request.path + " " + absl::StatusCodeToString(why.code()) + " " +
                      status::ReasonOf(why) + request.header("x-request-id"));
    };
  }
  // Waits until there are `count`.
  std::vector<std::string> Told(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto are_there = [this, count] { return told_.size() >= count; };
    mutex_.Await(absl::Condition(&are_there));
    return told_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> told_;
};

// As `curl -X POST` sends it: the connection stays open, and nothing more comes.
TEST(ListenerTest, APostWithoutALengthHasNoBody) {
  const auto listener = Start({});
  Client client(listener->port());
  client.Send("POST /load HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("!"),
              AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("POST /load !")));
}

TEST(ListenerTest, AnswersRequestsOfAConnectionOneAfterTheOther) {
  const auto listener = Start({});
  Client client(listener->port());
  client.Send(Get("/a%20b?x=1"));
  EXPECT_THAT(client.ReadUntil("!"), AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("GET /a b ")));
  // Two at once.
  client.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" + Get("/c"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("POST /b hi!"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /c !"));
}

// Each piece leaves when it is there: the second is made only when the client has read the first.
TEST(ListenerTest, PiecesAreSentAsTheyCome) {
  absl::Notification first_read;
  const auto listener = Start({}, [&](const HttpRequest&) {
    HttpReply reply;
    reply.content_type = "application/x-ndjson";
    reply.next_piece = [&, count = 0](std::string& piece) mutable {
      if (count == 1) {
        first_read.WaitForNotification();
      }
      piece = "piece " + std::to_string(count) + "\n";
      return ++count <= 2;
    };
    return reply;
  });
  Client client(listener->port());
  client.Send(Get("/"));
  EXPECT_THAT(client.ReadUntil("piece 0\n"), HasSubstr("Transfer-Encoding: chunked"));
  first_read.Notify();
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("piece 1\n"));
  // The connection goes on.
  client.Send(Get("/again"));
  EXPECT_THAT(client.ReadUntil("piece 1\n"), StartsWith("HTTP/1.1 200"));
}

// A client that reads no further is let go when a piece's time is over, as with any other answer.
TEST(ListenerTest, AClientThatReadsNoPiecesIsLetGo) {
  absl::Notification ended;
  ListenerOptions options;
  options.transfer_timeout = absl::Seconds(1);  // in which a busy machine reads a request
  const auto listener = Start(options, [&](const HttpRequest&) {
    HttpReply reply;
    const auto end = std::shared_ptr<void>(nullptr, [&](void*) { ended.Notify(); });
    reply.next_piece = [end](std::string& piece) {
      piece.assign(1 << 20, 'x');
      return true;
    };
    return reply;
  });
  Client client(listener->port());
  client.Send(Get("/"));
  ended.WaitForNotification();
}

TEST(ListenerTest, ThePortIsNotShared) {
  const auto first = Start({});
  ListenerOptions options;
  options.address = first->address();
  const auto second = Listener::Start(options, Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address()));
  for (const char* wrong :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":-1"}) {
    options.address = wrong;
    EXPECT_EQ(Listener::Start(options, Echo).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(ListenerTest, Version6AndAllAddresses) {
  ListenerOptions options;
  for (const char* address : {"[::1]:0", "0.0.0.0:0", "[::]:0"}) {
    options.address = address;
    const auto listener = Listener::Start(options, Echo);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_GT((*listener)->port(), 0);
  }
}

TEST(ListenerTest, NonsenseIsRefusedAndTheConnectionClosed) {
  ListenerOptions options;
  options.transfer_timeout = absl::Seconds(1);
  const auto listener = Start(options);
  for (const std::string& text : std::vector<std::string>{
           std::string("nonsense\r\n\r\n"), std::string("GET\r\n\r\n"),
           "GET /" + std::string(20000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n",
           std::string(1 << 20, '\0'), std::string("GET / HTTP/9.9\r\n\r\n")}) {
    Client client(listener->port());
    client.Send(text);
    const std::string answer = client.ReadAll();  // ends: the server closes
    EXPECT_TRUE(answer.empty() || answer.find("HTTP/1.1 4") == 0) << answer;
  }
  Client client(listener->port());
  client.Send(Get("/"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET / !"));
}

TEST(ListenerTest, ALongPathIsRefused) {
  const auto listener = Start({});
  Client client(listener->port());
  client.Send(Get("/" + std::string(8000, 'x')));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 414"));
}

// A proxy that reads such a request in another way takes its end for the next request.
TEST(ListenerTest, ARequestWhoseEndIsUnclearIsRefusedAndTheConnectionClosed) {
  const auto listener = Start({});
  const std::string body = "\r\n5\r\nhello\r\n0\r\n\r\n";
  for (const std::string headers :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: abc\r\n", "Content-Length: -1\r\n", "Content-Length: +5\r\n",
        "Content-Length: 5, 5\r\n", "Content-Length: 0x5\r\n", "Content-Length : 5\r\n",
        "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n"}) {
    Client client(listener->port());
    client.Send("POST /a HTTP/1.1\r\nHost: x\r\n" + headers + body + Get("/smuggled"));
    EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 400"), Not(HasSubstr("/smuggled !"))))
        << headers;
  }
  for (const std::string method : {"GET", "HEAD"}) {
    for (const std::string headers : {"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"}) {
      Client client(listener->port());
      client.Send(method + " /a HTTP/1.1\r\nHost: x\r\n" + headers + body + Get("/smuggled"));
      // The length of a GET says clearly where it ends, so what follows is malformed.
      const bool is_clear = method == "GET" && headers[0] == 'C';
      EXPECT_THAT(client.ReadAll(), AllOf(StartsWith(is_clear ? "HTTP/1.1 200" : "HTTP/1.1 400"),
                                          Not(HasSubstr("/smuggled !"))))
          << method << headers;
    }
  }
  Client client(listener->port());
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n" + body);
  EXPECT_THAT(client.ReadUntil("!"), EndsWith("POST /a hello!"));
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\ncontent-length: 0\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("!"), EndsWith("GET /b !"));
}

// The first is what `curl -d` says, of any body.
TEST(ListenerTest, BodiesAreBodiesWhateverTheirTypeIs) {
  const auto listener = Start({});
  const std::string body(100'000, 'x');
  for (const std::string type :
       {"application/x-www-form-urlencoded", "multipart/form-data; boundary=y", "nonsense"}) {
    Client client(listener->port());
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: " + type +
                "\r\nContent-Length: 100000\r\n\r\n" + body);
    EXPECT_THAT(client.ReadUntil("!"),
                AllOf(StartsWith("HTTP/1.1 200"), EndsWith("POST / " + body + "!")))
        << type;
  }
}

TEST(ListenerTest, BodiesAreBoundedHoweverTheyCome) {
  ListenerOptions options;
  options.max_body_bytes = 1000;
  const auto listener = Start(options);
  {
    Client client(listener->port());
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" +
                std::string(1001, 'x'));
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 413"));
  }
  {
    Client client(listener->port());
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" +
                std::string(1000, 'x'));
    EXPECT_THAT(client.ReadUntil("!"), StartsWith("HTTP/1.1 200"));
  }
  {
    // Chunks have no announced length.
    Client client(listener->port());
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
    int sent = 0;
    while (sent < 100000 && client.Send(chunk)) {
      ++sent;
    }
    EXPECT_LT(sent, 100000) << "400 MB were taken";
  }
  {
    Client client(listener->port());
    client.Send(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 415"));
  }
}

TEST(ListenerTest, APathMayHaveItsOwnLimit) {
  ListenerOptions options;
  options.max_body_bytes = 1000;
  options.body_limits = {{"/large", 3000}, {"/small", 10}};
  const auto listener = Start(options);
  const auto post = [&](const std::string& path, size_t size, bool is_chunked) {
    Client client(listener->port());
    const std::string body(size, 'x');
    client.Send("POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                (is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" + absl::StrFormat("%x", size) +
                                  "\r\n" + body + "\r\n0\r\n\r\n"
                            : "Content-Length: " + std::to_string(size) + "\r\n\r\n" + body));
    return client.ReadAll().substr(9, 3);
  };
  for (const bool is_chunked : {false, true}) {
    EXPECT_EQ(post("/large", 3000, is_chunked), "200");
    EXPECT_EQ(post("/lar%67e?a=b", 3000, is_chunked), "200");
    EXPECT_EQ(post("/large", 3001, is_chunked), "413");
    EXPECT_EQ(post("/small", 10, is_chunked), "200");
    EXPECT_EQ(post("/small", 11, is_chunked), "413");
    EXPECT_EQ(post("/larger", 1001, is_chunked), "413");
    EXPECT_EQ(post("/large/", 1001, is_chunked), "413");
  }
  // On one connection, one after the other.
  Client client(listener->port());
  client.Send("POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" +
              std::string(3000, 'x'));
  EXPECT_THAT(client.ReadUntil("x!"), StartsWith("HTTP/1.1 200"));
  client.Send("POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 413"));
}

TEST(ListenerTest, EachPartOfALargeBodyHasTheTransferTimeout) {
  constexpr size_t kPart = 4 << 20;
  ListenerOptions options;
  options.max_body_bytes = 4 * kPart;
  options.transfer_timeout = absl::Seconds(5);
  const auto listener = Start(options);
  Client client(listener->port());
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(2 * kPart + 1) +
              "\r\n\r\n");
  for (int i = 0; i < 2; ++i) {
    client.Send(std::string(kPart, 'x'));
    usleep(2'600'000);  // both together are too long
  }
  client.Send("y");
  EXPECT_THAT(client.ReadUntil("y!"), StartsWith("HTTP/1.1 200"));
}

TEST(ListenerTest, BodiesAreReservedWhileTheyAreReadAndForWhatTheyUnpackTo) {
  serving::MemoryAccount memory(1 << 20);
  Refusals refusals;
  ListenerOptions options;
  options.memory = &memory;
  refusals.AddTo(options);
  const auto listener = Start(options);
  const auto post = [&listener](Client& client, size_t size, const std::string& body) {
    client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(size) +
                "\r\n\r\n" + body);
  };
  {
    Client whole(listener->port());
    post(whole, 500'000, std::string(500'000, 'x'));
    EXPECT_THAT(whole.ReadUntil("x!"), StartsWith("HTTP/1.1 200"));
    Client half(listener->port());
    post(half, 500'000, std::string(400'000, 'x'));
    EXPECT_TRUE(e2e::Becomes([&] { return memory.held_bytes() >= 400'000; }));
    Client other(listener->port());
    post(other, 500'000, std::string(400'000, 'x'));
    EXPECT_THAT(other.ReadAll(), AllOf(StartsWith("HTTP/1.1 429"), HasSubstr("OUT_OF_MEMORY"),
                                       HasSubstr("Retry-After: 1")));
    Client small(listener->port());
    post(small, 2, "hi");
    EXPECT_THAT(small.ReadUntil("!"), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_TRUE(e2e::Becomes([&] { return memory.held_bytes() == 0; }));
  // Short on the wire, and long in memory.
  std::string empty_objects = "[";
  while (empty_objects.size() < 100'000) {
    empty_objects += "{},";
  }
  Client deep(listener->port());
  post(deep, empty_objects.size(), empty_objects);
  EXPECT_THAT(deep.ReadUntil("}\n"), StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(refusals.Told(2), ElementsAre("/a RESOURCE_EXHAUSTED OUT_OF_MEMORY",
                                            "/a RESOURCE_EXHAUSTED OUT_OF_MEMORY"));
  EXPECT_TRUE(e2e::Becomes([&] { return memory.held_bytes() == 0; }));
}

TEST(ListenerTest, ARequestHasToArriveInTimeHoweverItDrips) {
  ListenerOptions options;
  options.transfer_timeout = absl::Milliseconds(300);
  const auto listener = Start(options);
  Client client(listener->port());
  // A byte every now and then would reset a time limit on single reads.
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  std::thread drip([&] {
    while (client.Send("x")) {
      usleep(20'000);
    }
  });
  const std::string answer = client.ReadAll();  // ends, before the thousand bytes are there
  drip.join();
  EXPECT_EQ(answer.find("200 OK"), std::string::npos) << answer;
}

TEST(ListenerTest, WhatItRefusesItTellsOf) {
  Refusals refusals;
  ListenerOptions options;
  options.max_body_bytes = 10;
  refusals.AddTo(options);
  const auto listener = Start(options);
  const auto say = [&](const std::string& text) {
    Client client(listener->port());
    client.Send(text);
    client.ReadAll();
  };
  say("POST /body HTTP/1.1\r\nHost: x\r\nx-request-id: 7\r\nContent-Length: 11\r\n\r\n12345678901");
  say("POST /zip HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na");
  say("PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na");
  say("nonsense\r\n\r\n");
  EXPECT_THAT(refusals.Told(4),
              ElementsAre("/body INVALID_ARGUMENT TOO_LARGE7", "/zip INVALID_ARGUMENT ",
                          "/put UNIMPLEMENTED WRONG_METHOD", " INVALID_ARGUMENT "));
  // Clients that just go, or whom the handler answers, were refused nothing.
  { Client gone(listener->port()); }
  Client client(listener->port());
  client.Send(Get("/good"));
  client.ReadUntil("!");
  EXPECT_EQ(refusals.Told(4).size(), 4u);
}

TEST(ListenerTest, WhoIsTooSlowIsToldSo) {
  Refusals refusals;
  ListenerOptions options;
  options.transfer_timeout = absl::Milliseconds(500);  // in which a busy machine reads a path
  refusals.AddTo(options);
  const auto listener = Start(options);
  for (const char* part : {"GET /line", "GET /head HTTP/1.1\r\nHost:",
                           "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1"}) {
    Client client(listener->port());
    client.Send(part);
    EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 408"), HasSubstr("TOO_SLOW")));
  }
  EXPECT_THAT(refusals.Told(3),
              ElementsAre(" DEADLINE_EXCEEDED TOO_SLOW", "/head DEADLINE_EXCEEDED TOO_SLOW",
                          "/body DEADLINE_EXCEEDED TOO_SLOW"));
}

// A client that drips fast is never found to wait, and may have hours to go.
TEST(ListenerTest, ACrowdThatDripsFastMakesRoom) {
  ListenerOptions options;
  options.threads = 2;
  options.transfer_timeout = absl::Hours(1);
  const auto listener = Start(options);
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(std::make_unique<Client>(listener->port()));
    crowd.back()->Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
  }
  std::atomic<bool> stop{false};
  std::thread drip([&] {
    while (!stop) {
      for (const std::unique_ptr<Client>& client : crowd) {
        client->Send("x");
      }
    }
  });
  Client client(listener->port());
  client.Send(Get("/served"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  stop = true;
  drip.join();
  // The listener's end waits for what is still under way.
  crowd.clear();
}

TEST(ListenerTest, IdleAndDawdlingConnectionsMakeRoom) {
  ListenerOptions options;
  options.threads = 2;
  options.idle_timeout = absl::Hours(1);
  options.transfer_timeout = absl::Hours(1);
  const auto listener = Start(options);
  Client idle(listener->port());
  idle.Send(Get("/"));
  idle.ReadUntil("!");
  Client dawdling(listener->port());
  dawdling.Send("GET / HTTP");
  for (int i = 0; i < 3; ++i) {
    Client client(listener->port());
    client.Send(Get("/served"));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  }
}

// Of the calling thread, as sched_getattr(2) has it; 0 before Linux 6.12.
uint64_t TimeSlice() {
  std::array<uint64_t, 6> attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
  return attributes[3];
}

// Large bodies that wait for one of the threads leave the others, and the CPU, to small requests.
TEST(ListenerTest, LargeBodiesLeaveThreadsForSmallOnes) {
  absl::Notification go_on;
  absl::Notification is_large_there;
  std::atomic<int> num_large{0};
  std::atomic<uint64_t> slice_of_large{0};
  std::atomic<uint64_t> slice_of_small{0};
  ListenerOptions options;
  options.threads = 4;
  options.large_threads = 1;
  const auto listener = Start(options, [&](const HttpRequest& request) {
    if (request.body.size() > 1000) {
      slice_of_large = TimeSlice();
      if (++num_large == 1) {
        is_large_there.Notify();
      }
      go_on.WaitForNotification();
    } else {
      slice_of_small = TimeSlice();
    }
    return Echo(request);
  });
  std::vector<std::unique_ptr<Client>> large;
  for (int i = 0; i < 20; ++i) {
    large.push_back(std::make_unique<Client>(listener->port()));
    large.back()->Send(
        absl::StrCat("POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
                     std::string(100'000, 'a')));
  }
  is_large_there.WaitForNotification();
  for (int i = 0; i < 10; ++i) {
    Client client(listener->port());
    client.Send(Get("/small"));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("/small !"));
  }
  EXPECT_LE(num_large, 1);
  EXPECT_TRUE(slice_of_small == 0 || slice_of_small < slice_of_large);
  go_on.Notify();
  for (const std::unique_ptr<Client>& client : large) {
    EXPECT_THAT(client->ReadUntil("/large"), HasSubstr("200 OK"));
  }
}

std::string Post(const std::string& path, const std::string& body) {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                      "\r\n\r\n", body);
}

// The same with the body in chunks.
std::string PostChunks(const std::string& path, const std::string& body, size_t chunk) {
  std::string request =
      absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (size_t at = 0; at < body.size(); at += chunk) {
    const std::string piece = body.substr(at, chunk);
    absl::StrAppend(&request, absl::Hex(piece.size()), "\r\n", piece, "\r\n");
  }
  return request + "0\r\n\r\n";
}

// A thread for large bodies that waits until a test lets it go on.
class HeldThread {
 public:
  HeldThread() {
    thread_.Post([this] { go_on_.WaitForNotification(); });
  }
  void GoOn() { go_on_.Notify(); }
  serving::TaskThread* get() { return &thread_; }

 private:
  absl::Notification go_on_;
  serving::TaskThread thread_{"held"};
};

// Sends while the answers are read.
class Sending {
 public:
  Sending(int port, std::string bytes)
      : client_(port), thread_([this, bytes = std::move(bytes)] { client_.Send(bytes); }) {}
  ~Sending() { thread_.join(); }
  Client& client() { return client_; }

 private:
  Client client_;
  std::thread thread_;
};

TEST(ListenerTest, LargeBodiesAreReadOnAnotherThread) {
  HeldThread bodies;
  ListenerOptions options;
  options.bodies = bodies.get();
  std::atomic<int> num_large{0};
  const auto listener = Start(options, [&](const HttpRequest& request) {
    num_large += request.path == "/large" ? 1 : 0;
    return Echo(request);
  });
  const std::string body(300'000, 'b');
  std::vector<std::unique_ptr<Sending>> large;
  for (int i = 0; i < 8; ++i) {
    large.push_back(std::make_unique<Sending>(listener->port(), Post("/large", body)));
  }
  for (int i = 0; i < 20; ++i) {
    Client client(listener->port());
    client.Send(Post("/small", std::string(50'000, 's')));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("/small ss"));
  }
  EXPECT_EQ(num_large, 0);
  bodies.GoOn();
  for (const std::unique_ptr<Sending>& sending : large) {
    EXPECT_THAT(sending->client().ReadUntil("!"), EndsWith(" " + body + "!"));
  }
}

TEST(ListenerTest, BodiesOfAnySizeArriveWhole) {
  serving::TaskThread bodies("bodies");
  ListenerOptions options;
  options.bodies = &bodies;
  const auto listener = Start(options);
  for (const size_t size : {65535, 65536, 65537, 81920, 300'000, 700'000}) {
    std::string body(size, ' ');
    for (size_t i = 0; i < size; ++i) {
      body[i] = static_cast<char>('a' + i * i % 25);
    }
    const std::string end = absl::StrCat(body, "!");
    // The request behind it came with it.
    Sending sending(listener->port(), Post("/a", body) + PostChunks("/b", body, 70'001) +
                                          PostChunks("/c", body, 999) + Get("/d"));
    for (const char* path : {"/a ", "/b ", "/c "}) {
      EXPECT_TRUE(absl::EndsWith(sending.client().ReadUntil("!"), path + end)) << size << path;
    }
    EXPECT_THAT(sending.client().ReadUntil("!"), EndsWith("GET /d !"));
  }
}

TEST(TurnsTest, EachTurnIsSoFarBehindTheOneBefore) {
  Turns turns(absl::Milliseconds(5));
  const absl::Time start = absl::FromUnixSeconds(1);
  EXPECT_EQ(turns.Next(start), absl::ZeroDuration());
  EXPECT_EQ(turns.Next(start), absl::Milliseconds(5));
  EXPECT_EQ(turns.Next(start + absl::Milliseconds(1)), absl::Milliseconds(9));
  EXPECT_EQ(turns.Next(start + absl::Milliseconds(15)), absl::ZeroDuration());
  EXPECT_EQ(turns.Next(start + absl::Milliseconds(22)), absl::ZeroDuration());
  EXPECT_EQ(turns.Next(start + absl::Milliseconds(22)), absl::Milliseconds(5));
}

// What the handler refuses anyway is not read to its end, and a client that sends all of it before
// it reads has the answer.
TEST(ListenerTest, ABodyBeyondABoundIsCut) {
  serving::TaskThread bodies("bodies");
  serving::MemoryAccount memory(4 << 20);
  std::string deep;
  while (deep.size() < 2'000'000) {
    deep += "{\"a\":";
  }
  for (serving::TaskThread* thread : {&bodies, static_cast<serving::TaskThread*>(nullptr)}) {
    ListenerOptions options;
    options.bodies = thread;
    options.memory = &memory;
    const auto listener = Start(options, [](const HttpRequest& request) {
      return HttpReply{400, "text/plain", absl::StrCat(request.body.size(), " bytes!")};
    });
    Client client(listener->port());
    EXPECT_TRUE(client.Send(Post("/v1/models/m:decode", deep) + Get("/next")));
    const std::string answer = client.ReadAll();
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Connection: close"),
                              EndsWith(" bytes!"), Not(HasSubstr("2000000"))));
    EXPECT_TRUE(e2e::Becomes([&] { return memory.held_bytes() == 0; }));
  }
}

// A client that goes, or is too slow, while its body is read; and a listener that stops meanwhile.
TEST(ListenerTest, BodiesThatAreNotWholeEndTheirConnections) {
  Refusals refusals;
  serving::TaskThread bodies("bodies");
  serving::MemoryAccount memory(4 << 20);
  ListenerOptions options;
  options.bodies = &bodies;
  options.memory = &memory;
  options.transfer_timeout = absl::Milliseconds(500);
  refusals.AddTo(options);
  const auto listener = Start(options);
  const std::string part = Post("/part", std::string(500'000, 'p')).substr(0, 400'000);
  {
    Client gone(listener->port());
    gone.Send(part);
  }
  Client slow(listener->port());
  slow.Send(part);
  EXPECT_THAT(slow.ReadAll(), AllOf(StartsWith("HTTP/1.1 408"), HasSubstr("TOO_SLOW")));
  EXPECT_THAT(refusals.Told(1), ElementsAre("/part DEADLINE_EXCEEDED TOO_SLOW"));
  EXPECT_TRUE(e2e::Becomes([&] { return memory.held_bytes() == 0; }));
  EXPECT_TRUE(e2e::Becomes([&] { return listener->num_connections() == 0; }));
}

TEST(ListenerTest, StopWaitsForTheTurnOfABody) {
  HeldThread bodies;
  ListenerOptions options;
  options.bodies = bodies.get();
  options.transfer_timeout = absl::Milliseconds(300);  // passes while the body waits for its turn
  const auto listener = Start(options);
  const Sending sending(listener->port(),
                        Post("/part", std::string(500'000, 'p')).substr(0, 400'000));
  usleep(600'000);
  std::thread stop([&] { listener->Stop(); });
  usleep(50'000);
  bodies.GoOn();
  stop.join();
  EXPECT_EQ(listener->num_connections(), 0);
}

TEST(ListenerTest, MoreThanCanWaitAreToldAtOnce) {
  ListenerOptions options;
  options.threads = 1;
  options.max_waiting = 1;
  Refusals refusals;
  refusals.AddTo(options);
  absl::Notification entered;
  absl::Notification go_on;
  std::atomic<int> count{0};
  const auto listener = Start(options, [&](const HttpRequest& request) {
    if (++count == 1) {
      entered.Notify();
    }
    go_on.WaitForNotification();
    return Echo(request);
  });
  Client running(listener->port());
  running.Send(Get("/running"));
  entered.WaitForNotification();
  Client waiting(listener->port());
  waiting.Send(Get("/waiting"));
  // Taken in the order of their connections.
  Client refused(listener->port());
  refused.Send(Get("/refused"));
  EXPECT_THAT(refused.ReadAll(),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("Retry-After: 1"),
                    HasSubstr("\"reason\":\"TOO_MANY_CONNECTIONS\""), EndsWith("}\n")));
  EXPECT_THAT(refusals.Told(1), ElementsAre("/refused UNAVAILABLE TOO_MANY_CONNECTIONS"));
  go_on.Notify();
  EXPECT_THAT(running.ReadUntil("!"), HasSubstr("/running !"));
  EXPECT_THAT(waiting.ReadUntil("!"), HasSubstr("/waiting !"));
}

// An answer that its client does not read holds no worker: there is one, and a hundred such
// clients.
TEST(ListenerTest, ClientsThatDoNotReadHoldUpNoOtherRequest) {
  ListenerOptions options;
  options.threads = 1;
  options.transfer_timeout = absl::Hours(1);
  const auto listener = Start(options, [](const HttpRequest& request) {
    HttpReply reply = Echo(request);
    if (request.path == "/large") {
      reply.body.assign(8 << 20, 'x');
    } else if (request.path == "/stream") {
      reply.next_piece = [](std::string& piece) {
        piece.assign(1 << 20, 'x');
        return true;
      };
    }
    return reply;
  });
  std::vector<std::unique_ptr<Client>> deaf;
  for (int i = 0; i < 100; ++i) {
    deaf.push_back(std::make_unique<Client>(listener->port()));
    deaf.back()->Send(Get(i % 2 == 0 ? "/large" : "/stream"));
    Client client(listener->port());
    client.Send(Get("/served"));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  }
}

// Lines that come when a test says so.
class HeldLines final : public PendingReply {
 public:
  std::optional<HttpReply> Take() override {
    if (Next().empty()) {
      return std::nullopt;
    }
    HttpReply reply;
    reply.next_piece = [this](std::string& piece) {
      piece = Next();
      taken_ += piece.empty() ? 0 : 1;
      return piece != "end";
    };
    return reply;
  }
  void Look() override { ++looks_; }
  void Say(const std::string& line) {
    {
      absl::MutexLock lock(&mutex_);
      line_ = line;
    }
    bell()->Ring();
  }
  int looks() const { return looks_; }
  int taken() const { return taken_; }

 private:
  // Stays for the piece where Take looks at it.
  std::string Next() {
    absl::MutexLock lock(&mutex_);
    return is_begun_ ? std::exchange(line_, "") : (is_begun_ = !line_.empty(), line_);
  }

  absl::Mutex mutex_;
  std::string line_ ABSL_GUARDED_BY(mutex_);
  bool is_begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<int> looks_{0};
  std::atomic<int> taken_{0};
};

TEST(ListenerTest, AnswersThatAreNotThereYetHoldNoWorker) {
  ListenerOptions options;
  options.threads = 1;
  std::vector<std::shared_ptr<HeldLines>> held;
  absl::Mutex mutex;
  const auto listener = Start(options, [&](const HttpRequest& request) {
    if (request.path == "/served") {
      return Echo(request);
    }
    HttpReply reply;
    reply.headers = {{"X-Early", "1"}};
    absl::MutexLock lock(&mutex);
    held.push_back(std::make_shared<HeldLines>());
    reply.later = held.back();
    return reply;
  });
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(std::make_unique<Client>(listener->port()));
    waiting.back()->Send(Get("/later"));
    Client client(listener->port());
    client.Send(Get("/served"));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  }
  ASSERT_EQ(held.size(), 20u);
  EXPECT_TRUE(e2e::Becomes([&] { return held[0]->looks() > 0; }));
  held[0]->Say("one\n");
  EXPECT_THAT(waiting[0]->ReadUntil("one\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("X-Early: 1\r\n")));
  held[0]->Say("two\n");
  EXPECT_EQ(waiting[0]->ReadUntil("two\n\r\n"), "4\r\ntwo\n\r\n");
  held[0]->Say("end");
  EXPECT_EQ(waiting[0]->ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  // The connection goes on.
  waiting[0]->Send(Get("/served"));
  EXPECT_THAT(waiting[0]->ReadUntil("!"), HasSubstr("GET /served !"));
  // The end of the listener waits for those that are under way.
  for (size_t i = 1; i < held.size(); ++i) {
    held[i]->Say("one\n");
    EXPECT_TRUE(e2e::Becomes([&] { return held[i]->taken() == 1; }));
    held[i]->Say("end");
  }
}

// A call that has more to do whenever it is asked, as a long recording has.
class RestlessReply final : public PendingReply {
 public:
  std::optional<HttpReply> Take() override {
    constexpr int kMostAsked = 100'000;
    if (looks_ > 0 || ++asked_ == kMostAsked) {
      HttpReply reply;
      reply.body = looks_ > 0 ? "looked!" : "never!";
      return reply;
    }
    bell()->Ring();
    return std::nullopt;
  }
  void Look() override { ++looks_; }

 private:
  std::atomic<int> looks_{0};
  int asked_ = 0;
};

TEST(ListenerTest, ACallThatIsBusyAllTheTimeIsLookedAfter) {
  const auto listener = Start({}, [](const HttpRequest&) {
    HttpReply reply;
    reply.later = std::make_shared<RestlessReply>();
    return reply;
  });
  Client client(listener->port());
  client.Send(Get("/"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("looked!"));
}

TEST(ListenerTest, AtTheEndAClientThatDoesNotReadIsNotWaitedFor) {
  ListenerOptions options;
  options.transfer_timeout = absl::Hours(1);
  absl::Notification answered;
  const auto listener = Start(options, [&](const HttpRequest& request) {
    HttpReply reply = Echo(request);
    reply.body.assign(32 << 20, 'x');
    answered.Notify();
    return reply;
  });
  Client deaf(listener->port());
  deaf.Send(Get("/"));
  answered.WaitForNotification();
  listener->Stop();  // returns
}

TEST(ListenerTest, WhatIsAnsweredAtOnceWaitsForNoWorker) {
  ListenerOptions options;
  options.threads = 1;
  options.max_waiting = 1;
  options.at_once = [](const HttpRequest& request) {
    return request.path == "/livez" ? std::optional<HttpReply>(Echo(request)) : std::nullopt;
  };
  absl::Notification entered;
  absl::Notification go_on;
  const auto listener = Start(options, [&](const HttpRequest& request) {
    entered.Notify();
    go_on.WaitForNotification();
    return Echo(request);
  });
  Client busy(listener->port());
  busy.Send(Get("/busy"));
  entered.WaitForNotification();
  Client probe(listener->port());
  probe.Send(Get("/livez"));
  EXPECT_THAT(probe.ReadUntil("!"), HasSubstr("GET /livez !"));
  go_on.Notify();
  EXPECT_THAT(busy.ReadUntil("!"), HasSubstr("GET /busy !"));
}

TEST(ListenerTest, WhereThereAreTooManyConnectionsTheIdlestMakesRoom) {
  ListenerOptions options;
  options.idle_timeout = absl::Hours(1);
  options.transfer_timeout = absl::Hours(1);
  options.bounds = {2, absl::ZeroDuration(), 1};
  const auto listener = Start(options);
  Client oldest(listener->port());
  oldest.Send(Get("/"));
  EXPECT_THAT(oldest.ReadUntil("!"), HasSubstr("200 OK"));
  Client reading(listener->port());
  reading.Send("POST /begun HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1");
  Client client(listener->port());
  client.Send(Get("/served"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  EXPECT_EQ(oldest.ReadAll(), "");  // ends
  reading.Send("2");
  EXPECT_THAT(reading.ReadUntil("!"), HasSubstr("POST /begun 12!"));
}

// CPU time of the process.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Others have used up the files of the process: an idle connection makes room for a new one, and
// without an idle one a new one waits, which takes next to no CPU time.
TEST(ListenerTest, WithoutFilesTheIdlestMakesRoomAndConnectionsWaitForFiles) {
  ListenerOptions options;
  options.threads = 3;
  options.idle_timeout = absl::Hours(1);
  options.transfer_timeout = absl::Hours(1);
  absl::Notification go_on;
  const auto listener = Start(options, [&](const HttpRequest& request) {
    if (request.path == "/busy") {
      go_on.WaitForNotification();
    }
    return Echo(request);
  });
  Client busy(listener->port());
  busy.Send(Get("/busy"));
  Client idle(listener->port());
  idle.Send(Get("/"));
  EXPECT_THAT(idle.ReadUntil("!"), HasSubstr("GET / !"));
  const int first = socket(AF_INET, SOCK_STREAM, 0);
  const int second = socket(AF_INET, SOCK_STREAM, 0);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> taken;
  for (int fd = 0; (fd = dup(0)) >= 0;) {
    taken.push_back(fd);
  }
  Client served(listener->port(), first);
  served.Send(Get("/served"));
  EXPECT_THAT(served.ReadUntil("!"), HasSubstr("GET /served !"));
  EXPECT_EQ(idle.ReadAll(), "");  // it has ended
  served.Send(Get("/busy"));      // none is idle now
  Client waiting(listener->port(), second);
  waiting.Send(Get("/waiting"));
  const double cpu = CpuSeconds();
  const absl::Time begin = absl::Now();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_LT(CpuSeconds() - cpu, absl::ToDoubleSeconds(absl::Now() - begin) / 2);
  for (const int fd : taken) {
    close(fd);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(waiting.ReadUntil("!"), HasSubstr("GET /waiting !"));
  go_on.Notify();
  EXPECT_THAT(busy.ReadUntil("!"), HasSubstr("GET /busy !"));
}

// However many requests a connection sends at once, others are read from in between.
TEST(ListenerTest, AConnectionThatSendsWithoutAnEndKeepsNoOtherFromBeingRead) {
  ListenerOptions options;
  options.threads = 2;
  options.at_once = [](const HttpRequest& request) {
    return request.path == "/flood" ? std::optional<HttpReply>(Echo(request)) : std::nullopt;
  };
  const auto listener = Start(options);
  std::atomic<bool> stop{false};
  std::vector<std::thread> floods;
  for (int i = 0; i < 3; ++i) {
    floods.emplace_back([&] {
      std::string requests;
      for (int j = 0; j < 1000; ++j) {
        requests += Get("/flood");
      }
      while (!stop) {
        Client client(listener->port());
        std::thread reader([&] { client.Discard(); });
        while (!stop && client.Send(requests)) {
        }
        client.End();
        reader.join();
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    Client client(listener->port());
    client.Send(Get("/served"));
    EXPECT_THAT(client.ReadUntil("!"), HasSubstr("GET /served !"));
  }
  stop = true;
  for (std::thread& flood : floods) {
    flood.join();
  }
}

TEST(ListenerTest, LargeAnswersArePackedForClientsThatTakeIt) {
  const auto listener = Start({}, [](const HttpRequest& request) {
    return HttpReply{200, request.path == "/binary" ? "application/octet-stream" : "text/plain",
                     std::string(3 << 20, 'x') + "!"};
  });
  httplib::Client client("127.0.0.1", listener->port());
  for (const std::string coding : {"gzip", "br"}) {
    client.set_decompress(false);
    const auto packed = client.Get("/", {{"Accept-Encoding", coding + ", deflate"}});
    ASSERT_TRUE(packed);
    EXPECT_EQ(packed->get_header_value("Content-Encoding"), coding);
    EXPECT_EQ(packed->get_header_value("Vary"), "Accept-Encoding");
    EXPECT_LT(packed->body.size(), 10000u);
    client.set_decompress(true);
    EXPECT_EQ(client.Get("/", {{"Accept-Encoding", coding}})->body,
              std::string(3 << 20, 'x') + "!");
  }
  for (const char* refused : {"gzip;q=0", "identity", "gzipped", "*;q=0"}) {
    EXPECT_FALSE(client.Get("/", {{"Accept-Encoding", refused}})->has_header("Content-Encoding"))
        << refused;
  }
  EXPECT_FALSE(
      client.Get("/binary", {{"Accept-Encoding", "gzip"}})->has_header("Content-Encoding"));
}

TEST(ListenerTest, AnExceptionIsAnErrorWithoutItsText) {
  const auto listener =
      Start({}, [](const HttpRequest&) -> HttpReply { throw std::runtime_error("a secret"); });
  Client client(listener->port());
  client.Send(Get("/"));
  const std::string answer = client.ReadUntil("}");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500"));
  EXPECT_EQ(answer.find("secret"), std::string::npos);
}

TEST(ListenerTest, AHandlerLearnsThatItsClientHungUp) {
  absl::Notification entered;
  absl::Notification noticed;
  const auto listener = Start({}, [&](const HttpRequest& request) {
    EXPECT_FALSE(request.abandoned());
    entered.Notify();
    EXPECT_TRUE(e2e::Becomes([&] { return request.abandoned(); }));
    noticed.Notify();
    return Echo(request);
  });
  Client client(listener->port());
  client.Send(Get("/"));
  entered.WaitForNotification();
  client.Close();
  noticed.WaitForNotification();
}

TEST(ListenerTest, AnswersOfAListenerThatLeavesEndTheirConnections) {
  const auto listener = Start({}, Echo);
  Client client(listener->port());
  client.Send(Get("/before"));
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("keep-alive"));
  listener->Leave();
  client.Send(Get("/last"));
  EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("/last !"), HasSubstr("Connection: close")));
}

TEST(ListenerTest, StopAnswersWhatRunsAndClosesWhatIsIdle) {
  absl::Notification entered;
  absl::Notification go_on;
  const auto listener = Start({}, [&](const HttpRequest& request) {
    entered.Notify();
    go_on.WaitForNotification();
    return Echo(request);
  });
  Client idle(listener->port());
  Client client(listener->port());
  client.Send(Get("/late"));
  entered.WaitForNotification();
  std::thread stop([&] { listener->Stop(); });
  go_on.Notify();
  EXPECT_THAT(client.ReadUntil("!"), HasSubstr("/late !"));
  EXPECT_EQ(idle.ReadAll(), "");
  stop.join();
}

// A copy of the answer for each range would be a large answer to a small question.
TEST(ListenerTest, RangesAreIgnored) {
  const auto listener = Start({});
  Client client(listener->port());
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 1000; ++i) {
    ranges += ",0-";
  }
  client.Send("GET /whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: " + ranges +
              "\r\n\r\n");
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), EndsWith("GET /whole !")));
  EXPECT_LT(answer.size(), 1000u);
}

// Who speaks TLS slowly, or not at all where it is spoken, holds a thread no longer than a slow
// request does, and makes room for others.
class TlsListenerTest : public ::testing::Test {
 protected:
  TlsListenerTest() {
    const access::Issued issued = authority_.Issue("server", "IP:127.0.0.1");
    temp_.Write("cert", issued.cert);
    temp_.Write("key", issued.key);
    temp_.Write("ca", authority_.cert());
    auto tls = access::TlsContext::Load({temp_.At("cert"), temp_.At("key"), ""});
    EXPECT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
    options_.tls = tls_.get();
  }

  httplib::Result Get(int port, const std::string& path) {
    httplib::SSLClient client("127.0.0.1", port);
    client.set_ca_cert_path(temp_.At("ca").c_str());
    client.enable_server_certificate_verification(true);
    return client.Get(path.c_str());
  }

  access::TestAuthority authority_{"authority"};
  bundle::TempFolder temp_;
  std::unique_ptr<access::TlsContext> tls_;
  ListenerOptions options_;
};

TEST_F(TlsListenerTest, AnswersOverTls) {
  serving::TaskThread bodies("bodies");
  options_.bodies = &bodies;
  const std::string large(3 << 20, 'x');  // more than a socket takes at once
  const auto listener = Start(options_, [&](const HttpRequest& request) {
    return HttpReply{200, "text/plain", request.path == "/large" ? large : request.body, {}};
  });
  const auto got = Get(listener->port(), "/large");
  ASSERT_TRUE(got) << httplib::to_string(got.error());
  EXPECT_EQ(got->body, large);
  httplib::SSLClient client("127.0.0.1", listener->port());
  client.set_ca_cert_path(temp_.At("ca").c_str());
  client.set_keep_alive(true);
  for (const size_t size : {0, 1, 16384, 1 << 20, 3 << 20}) {
    const std::string body(size, 'y');
    const auto echoed = client.Post("/", body, "text/plain");
    ASSERT_TRUE(echoed) << size << " " << httplib::to_string(echoed.error());
    EXPECT_EQ(echoed->body, body);
  }
}

TEST_F(TlsListenerTest, DawdlersMakeRoom) {
  options_.threads = 2;
  options_.transfer_timeout = absl::Hours(1);
  const auto listener = Start(options_);
  Client silent(listener->port());
  Client half(listener->port());
  half.Send("\x16\x03\x01\x02");  // the beginning of a handshake
  const auto got = Get(listener->port(), "/");
  EXPECT_TRUE(got) << httplib::to_string(got.error());
}

TEST_F(TlsListenerTest, WhatIsNotTlsIsLetGo) {
  options_.transfer_timeout = absl::Milliseconds(300);
  Refusals refusals;
  refusals.AddTo(options_);
  const auto listener = Start(options_);
  Client clear(listener->port());
  clear.Send(beamwright::http::Get("/"));
  EXPECT_EQ(clear.ReadAll().find("200"), std::string::npos);
  Client silent(listener->port());
  EXPECT_EQ(silent.ReadAll(), "");  // ends: the handshake's time is over
  EXPECT_THAT(refusals.Told(1), ElementsAre(" DEADLINE_EXCEEDED TOO_SLOW"));
}

}  // namespace
}  // namespace beamwright::http
