#include "tests/chaos/http2_attack.h"

#include <poll.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/e2e/http2_frames.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::chaos {
namespace {

using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about

// Streams of a batch: what a client may have open by the usual limits.
constexpr int kWindow = 100;
// As many small frames as make a batch of some 32 KB.
constexpr int kSmallFrames = 2'000;

std::string DecodeHeaders() {
  return CallHeaders("http", "trailers", "/beamwright.v1.DecodeService/Decode");
}

std::string ResetOf(uint32_t stream) { return Frame(kReset, 0, stream, {"\0\0\0\x08", 4}); }

// A request as gRPC frames it.
std::string WordMessage() {
  const std::string message = WordRequest(0).SerializeAsString();
  std::string prefix(5, '\0');
  prefix[4] = static_cast<char>(message.size());
  return prefix + message;
}

std::string WholeCall(uint32_t stream, const std::string& block, const std::string& message) {
  return Frame(kHeaders, kEndHeaders, stream, block) + Frame(kData, kEndStream, stream, message);
}

std::string Repeat(const std::string& frame, int times) {
  std::string batch;
  for (int i = 0; i < times; ++i) {
    batch += frame;
  }
  return batch;
}

Http2Attack Flood(std::string name, std::string opening, const std::string& frame) {
  const std::string batch = Repeat(frame, kSmallFrames);
  return {std::move(name), std::move(opening), [batch](uint32_t& /*stream*/) { return batch; }};
}

// A batch of streams, each made by `make`.
Http2Attack Streams(std::string name, std::function<std::string(uint32_t stream)> make) {
  return {std::move(name), "", [make = std::move(make)](uint32_t& stream) {
            std::string batch;
            for (int i = 0; i < kWindow; ++i, stream += 2) {
              batch += make(stream);
            }
            return batch;
          }};
}

// `count` streams, each made by `make`; then nothing.
Http2Attack Once(std::string name, uint32_t count,
                 const std::function<std::string(uint32_t stream)>& make) {
  std::string opening;
  for (uint32_t i = 0; i < count; ++i) {
    opening += make(2 * i + 1);
  }
  return {std::move(name), std::move(opening), [](uint32_t& /*stream*/) { return std::string(); }};
}

// A message of 15 MiB of which the first 200 bytes come.
std::string UnfinishedBody(uint32_t stream) {
  return Frame(kHeaders, kEndHeaders, stream, DecodeHeaders()) +
         Frame(kData, 0, stream, std::string("\0\0\xF0\0\0", 5) + std::string(195, 'x'));
}

}  // namespace

Http2Attack RapidReset() {
  return Streams("rapid reset", [block = DecodeHeaders()](uint32_t stream) {
    return Headers(stream, block) + ResetOf(stream);
  });
}

Http2Attack RapidResetFromNewAddresses() {
  Http2Attack attack = RapidReset();
  attack.name += " from new addresses";
  attack.new_addresses = true;
  return attack;
}

Http2Attack UnknownMethods() {
  return Streams("unknown methods",
                 [block = CallHeaders("http", "trailers", "/no.such.Service/Method")](
                     uint32_t stream) { return WholeCall(stream, block, std::string(5, '\0')); });
}

Http2Attack Reflection() {
  // file_containing_symbol
  const std::string symbol = "beamwright.v1.DecodeService";
  std::string message(5, '\0');
  message[4] = static_cast<char>(2 + symbol.size());
  message += '\x22';
  message += static_cast<char>(symbol.size());
  message += symbol;
  return Streams(
      "reflection",
      [block = CallHeaders("http", "trailers",
                           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
       message](uint32_t stream) { return WholeCall(stream, block, message); });
}

Http2Attack WholeCallsReset() {
  return Streams("whole calls, reset",
                 [block = DecodeHeaders(), message = WordMessage()](uint32_t stream) {
                   return WholeCall(stream, block, message) + ResetOf(stream);
                 });
}

Http2Attack LargeHeaderLists() {
  std::string block = DecodeHeaders();
  for (int i = 0; i < 30; ++i) {
    block += Field("x" + std::to_string(i), std::string(1000, 'y'));
  }
  return Streams("large header lists, reset",
                 [block](uint32_t stream) { return Headers(stream, block) + ResetOf(stream); });
}

Http2Attack HeaderReferences() {
  const std::string block = DecodeHeaders();
  const std::string field = '\x40' + Text("x") + Text(std::string(4000, 'y'));
  const std::string references(4'000, '\xBE');
  return Streams("references to headers", [block, field, references](uint32_t stream) {
    return Frame(kHeaders, kEndHeaders, stream, block + (stream == 1 ? field : references));
  });
}

Http2Attack SettingsFlood() { return Flood("SETTINGS", "", Frame(kSettings, 0, 0, "")); }

Http2Attack PingFlood() { return Flood("PING", "", Frame(kPing, 0, 0, std::string(8, 'x'))); }

Http2Attack ContinuationFlood() {
  return Flood("CONTINUATION", Frame(kHeaders, 0, 1, DecodeHeaders()),
               Frame(kContinuation, 0, 1, ""));
}

Http2Attack WindowUpdateFlood() {
  return Flood("WINDOW_UPDATE", Frame(kHeaders, kEndHeaders, 1, DecodeHeaders()),
               Frame(kWindowUpdate, 0, 1, {"\0\0\0\x01", 4}));
}

Http2Attack EmptyDataFlood() {
  return Flood("empty DATA", Frame(kHeaders, kEndHeaders, 1, DecodeHeaders()),
               Frame(kData, 0, 1, ""));
}

Http2Attack ZeroWindow() {
  Http2Attack attack = Once("no window", kWindow,
                            [block = DecodeHeaders(), message = WordMessage()](uint32_t stream) {
                              return WholeCall(stream, block, message);
                            });
  // SETTINGS_INITIAL_WINDOW_SIZE of 0
  attack.opening = Frame(kSettings, 0, 0, {"\0\x04\0\0\0\0", 6}) + attack.opening;
  attack.reads = false;
  return attack;
}

Http2Attack UnfinishedBodies() { return Once("unfinished bodies", 1024, UnfinishedBody); }

Http2Attack TooManyStreams() { return Streams("more streams than allowed", UnfinishedBody); }

Attackers::Attackers(int port, const Http2Attack& attack, int count, const std::string& address)
    : port_(port), attack_(attack), address_(address) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Attackers::~Attackers() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::string Attackers::NextAddress() {
  if (!attack_.new_addresses) {
    return address_;
  }
  const uint32_t number = num_addresses_++;
  return absl::StrCat("127.", 1 + number / (250 * 250) % 250, ".", number / 250 % 250, ".",
                      1 + number % 250);
}

void Attackers::Run() {
  while (!stop_) {
    const rpc::ClientSocket client;
    if (!client.ConnectV4(port_, "127.0.0.1", NextAddress().c_str())) {
      absl::SleepFor(absl::Milliseconds(10));
      continue;
    }
    uint32_t stream = 1;
    std::string left = kPreface + Frame(kSettings, 0, 0, "") + attack_.opening;
    while (!stop_) {
      if (left.empty()) {
        left = attack_.next(stream);
      }
      const int events = (attack_.reads ? POLLIN : 0) | (left.empty() ? 0 : POLLOUT);
      pollfd polled{client.fd(), static_cast<int16_t>(events), 0};
      poll(&polled, 1, 10);
      char answer[65536];
      if ((polled.revents & POLLIN) != 0 && recv(client.fd(), answer, sizeof(answer), 0) <= 0) {
        break;
      }
      if ((polled.revents & (POLLERR | POLLHUP)) != 0) {
        break;
      }
      if ((polled.revents & POLLOUT) == 0) {
        continue;
      }
      const ssize_t sent = send(client.fd(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) {
        break;
      }
      left.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
    num_closed_ += stop_ ? 0 : 1;
    absl::SleepFor(absl::Milliseconds(5));  // the shortest way to anywhere and back
  }
}

}  // namespace beamwright::chaos
