// A client of the WebSocket listener, from its request to its end, without the socket: whatever it
// asks for, says and sends, it is answered in JSON that a client can read, in order, and let go,
// and every call that it made is answered.
//
// An input is the client's script. Its first part is a head: a byte of flags (Flag), the target of
// the request, and a line for each header. The others (served_models.h) are messages in their
// order: "t" and a text, "L": one that is too large, "p": a pong, "w": it waits a moment, "a": it
// waits for the end of the answers, if it has said that its source is complete; and all else sound,
// in a binary message, without the "b" that may stand before it. A client that leaves a source open
// ends it and waits for what comes of it, unless its flags say that it goes without a word.
#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ops/base/check.h"
#include "ops/base/rapidjson.h"
#include "ops/base/utf8.h"
#include "server/websocket/session.h"
#include "tests/fuzz/served_models.h"

namespace beamwright::websocket {
namespace {

namespace asio = boost::asio;

constexpr size_t kMostParts = 24;
constexpr int kMostWaits = 4;
constexpr auto kMoment = std::chrono::milliseconds(2);

enum Flag {
  kIsPlain = 1,       // the request is not for a WebSocket
  kIsMalformed = 2,   // nor even HTTP
  kIsSlow = 4,        // it does not come in time
  kGoesSilently = 8,  // the client goes when it has sent its messages
};

enum class Kind { kText, kSound, kTooLarge, kPong, kMoment, kAwait };

struct Message {
  Kind kind = Kind::kSound;
  std::string payload;
};

struct Script {
  int flags = 0;
  std::string target;
  std::map<std::string, std::string> headers;  // by name in lower case
  std::deque<Message> messages;
};

Message ReadMessage(absl::string_view part) {
  const char first = part.empty() ? ' ' : part[0];
  if (first == 't' || first == 'b') {
    return {first == 't' ? Kind::kText : Kind::kSound, std::string(part.substr(1))};
  }
  const Kind kind = part == "L"   ? Kind::kTooLarge
                    : part == "p" ? Kind::kPong
                    : part == "w" ? Kind::kMoment
                    : part == "a" ? Kind::kAwait
                                  : Kind::kSound;
  return {kind, std::string(part)};
}

Script ReadScript(absl::string_view input) {
  const std::vector<absl::string_view> parts = fuzzing::Parts(input, kMostParts);
  Script script;
  absl::string_view head = parts[0];
  script.flags = head.empty() ? 0 : static_cast<unsigned char>(head[0]) & 15;
  const std::vector<absl::string_view> lines =
      absl::StrSplit(head.substr(std::min<size_t>(head.size(), 1)), '\n');
  script.target = std::string(lines[0]);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    script.headers.emplace(absl::AsciiStrToLower(header.first), header.second);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    script.messages.push_back(ReadMessage(parts[i]));
  }
  return script;
}

rapidjson::Document ParseObject(absl::string_view text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseFullPrecisionFlag>(
      text.data(), text.size());
  BW_CHECK(!document.HasParseError() && document.IsObject());
  return document;
}

// The client's end: follows its script, and checks what it receives.
class ScriptedSocket final : public WebSocket {
 public:
  ScriptedSocket(asio::io_context& io, Script script)
      : io_(io), script_(std::move(script)), moment_(io) {
    request_.method = "GET";
    request_.path = script_.target.substr(0, script_.target.find('?'));
    request_.header = [this](const char* name) {
      const auto found = script_.headers.find(absl::AsciiStrToLower(name));
      return found == script_.headers.end() ? std::string() : found->second;
    };
  }

  asio::any_io_executor executor() override { return io_.get_executor(); }
  void ReadRequest(Done done) override {
    End(std::move(done), (script_.flags & kIsMalformed) != 0 ? Outcome::kMalformed
                         : (script_.flags & kIsSlow) != 0    ? Outcome::kTooSlow
                                                             : Outcome::kOk);
  }
  const http::HttpRequest& request() const override { return request_; }
  const std::string& target() const override { return script_.target; }
  bool asks_for_upgrade() const override { return (script_.flags & kIsPlain) == 0; }

  void Refuse(const http::HttpReply& reply, Done done) override {
    BW_CHECK(reply.status >= 400 && reply.status < 600);
    BW_CHECK(ParseObject(reply.body).HasMember("error"));
    End(std::move(done), Outcome::kOk);
  }
  void Accept(const std::string& protocol, Done done) override {
    BW_CHECK(protocol.empty() ||
             absl::StrContains(request_.header("sec-websocket-protocol"), protocol));
    End(std::move(done), Outcome::kOk);
  }

  void Read(std::function<void(Outcome, bool, std::string)> done) override {
    BW_CHECK(read_ == nullptr);
    read_ = std::move(done);
    Deliver();
  }

  void Write(std::string text, Done done) override {
    BW_CHECK(!writing_ && !closing_);
    writing_ = true;
    Check(text);
    asio::post(io_, [this, done = std::move(done)] {
      writing_ = false;
      done(Outcome::kOk);
    });
    if (text == "Done!") {
      is_open_ = false;
      Deliver();
    }
  }

  void OnSign(std::function<void()> sign) override { sign_ = std::move(sign); }
  void Ping(Done done) override { End(std::move(done), Outcome::kOk); }

  void Close(int code, absl::string_view reason, Done done) override {
    BW_CHECK(!writing_ && !closing_);
    BW_CHECK(code == 1001 || code == 1007 || code == 1008 || code == 1011 || code == 1013);
    BW_CHECK(!reason.empty() && CheckUtf8(reason).ok());
    closing_ = true;
    End(std::move(done), Outcome::kOk);
  }
  void Drop() override {
    script_.messages.clear();
    is_waiting_ = false;
    Answer(Outcome::kGone);
  }

 private:
  void End(Done done, Outcome outcome) {
    asio::post(io_, [done = std::move(done), outcome] { done(outcome); });
  }

  // Of the read under way, if there is one.
  void Answer(Outcome outcome, bool is_text = false, std::string payload = "") {
    if (read_ != nullptr) {
      asio::post(io_, [done = std::exchange(read_, nullptr), outcome, is_text,
                       payload = std::move(payload)]() mutable {
        done(outcome, is_text, std::move(payload));
      });
    }
  }

  void Deliver() {
    while (read_ != nullptr && !is_waiting_ && !script_.messages.empty()) {
      if (script_.messages.front().kind == Kind::kAwait && is_open_ && is_complete_) {
        return;
      }
      Message message = std::move(script_.messages.front());
      script_.messages.pop_front();
      switch (message.kind) {
        case Kind::kAwait:
          break;
        case Kind::kPong:
          sign_();
          break;
        case Kind::kMoment:
          Wait();
          break;
        case Kind::kTooLarge:
          Answer(Outcome::kTooLarge);
          break;
        default:
          Say(message.kind == Kind::kText, std::move(message.payload));
      }
    }
    if (read_ == nullptr || is_waiting_) {
      return;
    }
    if (!is_open_ || (script_.flags & kGoesSilently) != 0) {
      Answer(Outcome::kGone);
    } else if (!is_complete_) {
      Say(true, "Done");
    }
  }

  void Say(bool is_text, std::string payload) {
    is_open_ = true;
    is_complete_ = is_text && payload == "Done";
    Answer(Outcome::kOk, is_text, std::move(payload));
  }

  void Wait() {
    is_waiting_ = true;
    moment_.expires_after(++num_waits_ > kMostWaits ? std::chrono::milliseconds(0) : kMoment);
    moment_.async_wait(
        [this, weak = std::weak_ptr<bool>(alive_)](const boost::system::error_code& error) {
          if (!error && !weak.expired()) {
            is_waiting_ = false;
            Deliver();
          }
        });
  }

  // Answers of a source, one that says that it is the last, and "Done!"; or, in place of any of
  // them, an error, and nothing behind it: a client that says more before it reads "Done!" is told
  // one behind its last answer.
  void Check(const std::string& text) {
    BW_CHECK(!has_failed_);
    if (text == "Done!") {
      BW_CHECK(std::exchange(was_last_, false));
      return;
    }
    const rapidjson::Document answer = ParseObject(text);
    has_failed_ = answer.HasMember("error");
    if (!has_failed_) {
      BW_CHECK(!was_last_);
      BW_CHECK(answer["text"].IsString() && answer["tokens"].IsArray());
      BW_CHECK(answer["segment"].GetInt() >= 0 && answer["start_time"].GetDouble() >= 0);
      was_last_ = answer["is_eof"].GetBool();
      BW_CHECK(!was_last_ || answer["is_final"].GetBool());
    }
  }

  asio::io_context& io_;
  Script script_;
  http::HttpRequest request_;
  asio::steady_timer moment_;
  std::function<void(Outcome, bool, std::string)> read_;
  std::function<void()> sign_;
  int num_waits_ = 0;
  bool is_waiting_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool is_open_ = false;      // the client has begun a source, and has not received its end
  bool is_complete_ = false;  // the last that it said was that the source is
  bool writing_ = false;
  bool closing_ = false;
  bool was_last_ = false;    // what it received: nothing more of this source
  bool has_failed_ = false;  // it received an error
};

struct World {
  fuzzing::ServedModels models;
  access::Access access;
  http::Cors cors;
  const Site site{models.core(), access, cors, "chunks", /*transfer_timeout=*/absl::Hours(1),
                  absl::Hours(1)};
  asio::io_context io;
};

World& TheWorld() {
  static auto& world = *new World;
  return world;
}

void Serve(absl::string_view input) {
  World& world = TheWorld();
  world.io.restart();
  // Until the session has gone, wherever it does.
  const auto work = std::make_shared<asio::executor_work_guard<asio::io_context::executor_type>>(
      world.io.get_executor());
  std::shared_ptr<Session>(
      new Session(world.site, std::make_unique<ScriptedSocket>(world.io, ReadScript(input))),
      [work](Session* gone) {
        delete gone;
        work->reset();
      })
      ->Start();
  world.io.run();
  BW_CHECK(world.models.HaveAnswered());
}

}  // namespace
}  // namespace beamwright::websocket

// Before the first input: models take a while to load, which an input may not.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  beamwright::websocket::TheWorld();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::websocket::Serve({reinterpret_cast<const char*>(data), size});
  return 0;
}
