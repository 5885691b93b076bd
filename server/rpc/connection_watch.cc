// The watch's thread (Run), every kBetweenBeats while clients are connected and the process works:
//
// 1. A beat: a call to the server itself (StartBeat). If the answer comes within kLate, gRPC reads
//    its sockets in turn, and nothing is wrong.
// 2. A late beat: Search compares readings (Reading) until the beat arrives. A reading has the
//    time, the CPU time, the memory, the bytes read from each connection by the kernel's count, the
//    bytes given to handlers, and the number of calls whose handlers ran. By the differences it
//    decides whether a connection is in the way (the signs in connection_watch.h): too many calls
//    (IsCrowded), calls whose memory swells (Swells), or half a second of CPU time without any
//    handler (kPatience) and no sign of request bodies (MayBeBodies).
// 3. CutOff resets the connection that was read from most since the reading, and HoldOff delays new
//    connections, longer each time, so that a client which reconnects at once does not win.
// 4. After a second (Window) of which much was late, LookBack does the same for connections that
//    let others be read at times but used most of the second for bytes that became no requests.
// 5. Between beats and while one is late, memory is looked at every few milliseconds (Relieve):
//    calls whose request has not come are refused first, and calls whose clients do not read are
//    cancelled. While gRPC reads many connections without a pause, refused calls give nothing back,
//    since it ends none; then all connections that sent much since memory came to be short are
//    reset together.
//
// Thresholds are CPU time, bytes and counts, not wall time alone: other processes on the machine
// must not make a healthy client look like an attacker.
#include "server/rpc/connection_watch.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server_posix.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/memory.h"
#include "ops/base/steady_time.h"
#include "server/serving/serving_state.h"

namespace beamwright::rpc {
namespace {

constexpr absl::Duration kBetweenBeats = absl::Milliseconds(30);
constexpr absl::Duration kWithoutConnections = absl::Milliseconds(200);
// CPU time of the process below which no client can delay another: a beat costs a tenth of it,
// and one in 30 ms would keep an idle machine awake.
constexpr double kWorthABeat = 0.002;
// A healthy server answers in a tenth of a millisecond; one whose CPUs are busy within some.
constexpr absl::Duration kLate = absl::Milliseconds(20);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(20);
// Between two looks at memory: requests may arrive at a gigabyte a second.
constexpr absl::Duration kBetweenReliefs = absl::Milliseconds(5);
constexpr absl::Duration kShortLook = absl::Milliseconds(5);
// Memory is given back within this when calls are refused.
constexpr absl::Duration kRefusalsHelp = absl::Milliseconds(500);
// CPU time of the process in which no handler ran before a connection is reset. Reading the calls
// that a dozen clients may have open takes less; it is not wall time, for other processes take
// that.
constexpr double kPatience = 0.5;
// Bytes a second of CPU time: bodies of requests are read ten times as fast, frames without content
// take 100 ns a byte and more.
constexpr double kSlowestBodies = 10 << 20;
// Calls that end before their request has come, from clients that send bodies and cancel.
constexpr int64_t kMostGivenUp = 100;
// Of bodies this part is held at least, the rest finds memory that is the process' already.
constexpr int64_t kLeastHeld = 4;
// Memory that grows by this, by this multiple of what was read, and for each call that waits for
// its handler by this, which takes 20 KB and its headers.
constexpr int64_t kWorthALook = 32 << 20;
constexpr int64_t kSwelling = 8;
constexpr int64_t kMostOfACall = 96 << 10;
// A connection that sent less meanwhile is not in the way.
constexpr int64_t kLeastRead = 64 << 10;
// The same bound for one look while too many calls wait.
constexpr int64_t kLeastReadInLook = 16 << 10;
// Connections that let others be read now and then. LookBack acts if this much of a second was
// late ...
constexpr absl::Duration kWindow = absl::Seconds(1);
constexpr absl::Duration kMostLate = absl::Milliseconds(300);
// ... and this multiple of the bytes given to handlers was read, most of it from these connections.
constexpr int64_t kIdleShare = 4;
constexpr int64_t kLeastReadInWindow = 1 << 20;
// Or this from connections that ended meanwhile: gRPC 1.51 takes 15 us for a PING of 17 bytes, and
// closes the connection 10,000 later.
constexpr int64_t kLeastReadOfClosed = 256 << 10;

// New connections wait for a multiple of the time for which one was in the way, and twice as long
// each time that it happens again within kForgiveness, so that others have most of the time.
constexpr int kHoldOffShare = 3;
constexpr absl::Duration kShortestHoldOff = absl::Milliseconds(300);
constexpr absl::Duration kLongestHoldOff = absl::Seconds(2);
constexpr absl::Duration kForgiveness = absl::Seconds(30);

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The number of calls whose handlers ran, without calls that their clients cancelled early.
int64_t CountServed(const Gate& gate) {
  return gate.backlog().num_left() - gate.incoming().num_given_up();
}

}  // namespace

// The counters of one moment; looks compare two readings.
struct ConnectionWatch::Reading {
  Reading(Acceptor& acceptor, const Gate& gate)
      : arrived_bytes(gate.arrived_bytes()),
        num_given_up(gate.incoming().num_given_up()),
        num_served(CountServed(gate)),
        progress(acceptor.ListProgress()) {}

  double CpuSecondsSince() const { return CpuSeconds() - cpu_seconds; }
  int64_t ReadSince(const ConnectionTable::Progress& now) const {
    int64_t read = 0;
    for (const auto& [connection, bytes] : now) {
      const auto was = progress.find(connection);
      read += bytes - (was == progress.end() ? 0 : was->second);
    }
    return read;
  }

  absl::Time time = SteadyNow();
  double cpu_seconds = CpuSeconds();
  int64_t held_bytes = ReadProcessMemory().held_bytes();
  int64_t arrived_bytes;
  int64_t num_given_up;
  int64_t num_served;
  ConnectionTable::Progress progress;
};

// A second, and how much of it a beat was late.
struct ConnectionWatch::Window {
  Window(Acceptor& acceptor, const Gate& gate) : begin(acceptor, gate) {}

  Reading begin;
  absl::Duration late;
};

// A call of the watch to the server. Its callback keeps it alive after the watch has stopped
// waiting.
struct ConnectionWatch::Beat {
  grpc::ClientContext context;
  inference::ServerLiveRequest request;
  inference::ServerLiveResponse response;
  std::shared_ptr<inference::GRPCInferenceService::Stub> stub;
  absl::Mutex mutex;
  bool is_done ABSL_GUARDED_BY(mutex) = false;
  bool is_lost = false;  // the connection is gone; written before is_done

  bool AwaitDone(absl::Duration time) {
    absl::MutexLock lock(&mutex);
    return mutex.AwaitWithTimeout(absl::Condition(&is_done), time);
  }
};

ConnectionWatch::ConnectionWatch(grpc::Server& server, Acceptor& acceptor, const Gate& gate,
                                 const ClientLimits& limits, int64_t memory_limit_bytes)
    : server_(server),
      acceptor_(acceptor),
      gate_(gate),
      limits_(limits),
      pressure_(memory_limit_bytes) {
  // Before clients can use up the file descriptors, and so that their number does not grow later.
  Connect();
  thread_ = std::thread([this] { Run(); });
}

ConnectionWatch::~ConnectionWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

bool ConnectionWatch::Pause(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stop_), time);
}

bool ConnectionWatch::Wait(absl::Duration time) {
  if (!pressure_.has_limit()) {
    return Pause(time);
  }
  for (absl::Duration done; done < time; done += kBetweenReliefs) {
    Relieve();
    // Each call may take a megabyte of headers.
    if (IsCrowded()) {
      Thin();
    }
    if (!Pause(kBetweenReliefs)) {
      return false;
    }
  }
  return true;
}

void ConnectionWatch::Connect() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return;  // no file descriptor is left; a later beat tries again
  }
  grpc::AddInsecureChannelFromFd(&server_, fds[0]);
  stub_ =
      inference::GRPCInferenceService::NewStub(grpc::CreateInsecureChannelFromFd("watch", fds[1]));
}

std::shared_ptr<ConnectionWatch::Beat> ConnectionWatch::StartBeat() {
  if (stub_ == nullptr) {
    Connect();
  }
  if (stub_ == nullptr) {
    return nullptr;
  }
  auto beat = std::make_shared<Beat>();
  beat->stub = stub_;
  beat->stub->async()->ServerLive(
      &beat->context, &beat->request, &beat->response, [beat](const grpc::Status& status) {
        absl::MutexLock lock(&beat->mutex);
        beat->is_lost = status.error_code() == grpc::StatusCode::UNAVAILABLE;
        beat->is_done = true;
      });
  return beat;
}

bool ConnectionWatch::Waits(Beat& beat, absl::Duration time) {
  const absl::Duration slice = pressure_.has_limit() ? std::min(time, kBetweenReliefs) : time;
  bool in_time = beat.AwaitDone(slice);
  for (absl::Duration waited = slice; !in_time && waited < time; waited += slice) {
    Relieve();
    in_time = beat.AwaitDone(slice);
  }
  if (in_time && beat.is_lost) {
    stub_ = nullptr;
  }
  return in_time;
}

void ConnectionWatch::Run() {
  pthread_setname_np(pthread_self(), "bw-watch");
  Window window(acceptor_, gate_);
  double cpu_at_beat = CpuSeconds();
  for (bool has_any = false; Wait(has_any ? kBetweenBeats : kWithoutConnections);) {
    has_any = acceptor_.HasAny();
    if (has_any && CpuSeconds() - cpu_at_beat >= kWorthABeat) {
      const std::shared_ptr<Beat> beat = StartBeat();
      if (beat != nullptr && !Waits(*beat, kLate)) {
        Search(*beat, window);
      }
      cpu_at_beat = CpuSeconds();
    }
    if (IsCrowded()) {
      Thin();
    }
    pressure_.GiveBack(gate_.held_bytes());
    EndIfOver(window);
  }
}

void ConnectionWatch::EndIfOver(Window& window) {
  if (SteadyNow() - window.begin.time < kWindow) {
    return;
  }
  if (window.late >= kMostLate) {
    LookBack(window.begin);
  }
  // Reading first: it brings up to date what the acceptor's window begins from.
  window = Window(acceptor_, gate_);
  acceptor_.BeginWindow();
}

void ConnectionWatch::Search(Beat& beat, Window& window) {
  Reading before(acceptor_, gate_);
  absl::Time looked = before.time;
  while (Pause(absl::ZeroDuration()) && !Waits(beat, kBetweenLooks)) {
    // Handlers of the connection in the way may run while the beat waits: then it is found only by
    // LookBack, when the second is over.
    window.late += SteadyNow() - std::exchange(looked, SteadyNow());
    EndIfOver(window);
    Relieve();
    // Each time: LookBack also counts the bytes of connections that have ended before it.
    const ConnectionTable::Progress progress = acceptor_.ListProgress();
    const bool is_crowded = IsCrowded();
    const bool is_served = CountServed(gate_) != before.num_served;
    if (is_crowded) {
      CutOff(before, kLeastReadInLook, "there are more calls than may be open");
    } else if (!is_served && Swells(before, before.ReadSince(progress))) {
      CutOff(before, kLeastReadInLook, "calls take many times what was sent");
    } else if (!is_served && before.CpuSecondsSince() >= kPatience &&
               !MayBeBodies(before, before.ReadSince(progress))) {
      CutOff(before, kLeastRead, "no other client was read from");
    } else if (!is_served) {
      continue;
    }
    before = Reading(acceptor_, gate_);
  }
}

bool ConnectionWatch::MayBeBodies(const Reading& before, int64_t read) const {
  const int64_t most = gate_.arrived_bytes() - before.arrived_bytes +
                       gate_.num_reading() * limits_.max_message_bytes;
  return gate_.incoming().num_given_up() - before.num_given_up <= kMostGivenUp && read <= most &&
         static_cast<double>(read) >= kSlowestBodies * before.CpuSecondsSince();
}

int64_t ConnectionWatch::Grown(const Reading& before) {
  return ReadProcessMemory().held_bytes() - before.held_bytes;
}

bool ConnectionWatch::Swells(const Reading& before, int64_t read) const {
  return Grown(before) >= std::max({kWorthALook, kSwelling * read,
                                    kMostOfACall * static_cast<int64_t>(gate_.backlog().size())});
}

bool ConnectionWatch::CutOff(const Reading& before, int64_t least, const std::string& why) {
  const absl::Duration time = SteadyNow() - before.time;
  const bool is_cut_off = acceptor_.CutOffGreedy(
      before.progress, least,
      absl::StrCat(why, " for ", absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))),
                   ", ", gate_.backlog().num_calls(), " calls"));
  if (is_cut_off) {
    HoldOff(time);
  }
  return is_cut_off;
}

void ConnectionWatch::HoldOff(absl::Duration in_the_way) {
  const absl::Time now = SteadyNow();
  absl::Duration time = kHoldOffShare * in_the_way;
  if (now - held_off_ < kForgiveness) {
    // Several connections of one moment count once.
    time = std::max(time, now - held_off_ > hold_off_ ? 2 * hold_off_ : hold_off_);
  }
  hold_off_ = std::clamp(time, kShortestHoldOff, kLongestHoldOff);
  held_off_ = now;
  acceptor_.HoldOff(absl::ToChronoMilliseconds(hold_off_));
}

bool ConnectionWatch::IsCrowded() {
  const int64_t most = limits_.max_streams * std::max<int64_t>(1, acceptor_.CountOpen());
  return gate_.backlog().size() > most || gate_.backlog().num_calls() > most + most / 4;
}

void ConnectionWatch::Thin() {
  Reading before(acceptor_, gate_);
  if (Pause(pressure_.has_limit() ? kShortLook : kBetweenLooks) && IsCrowded()) {
    CutOff(before, kLeastReadInLook, "there are more calls than may be open");
  }
}

void ConnectionWatch::Relieve() {
  if (!pressure_.IsHigh()) {
    short_since_ = absl::InfiniteFuture();
    while_short_ = nullptr;
    since_short_ = nullptr;
    return;
  }
  const absl::Time now = SteadyNow();
  short_since_ = std::min(short_since_, now);
  if (since_short_ == nullptr) {
    since_short_ = std::make_unique<Reading>(acceptor_, gate_);
  }
  gate_.incoming().RefuseOlderThan(now - 2 * kBetweenReliefs, serving::MemoryRunsShort());
  gate_.CancelUnread();
  // Refusals do not help against headers, which come to a gigabyte a second.
  if (while_short_ == nullptr) {
    while_short_ = std::make_unique<Reading>(acceptor_, gate_);
  } else if (Grown(*while_short_) >= kWorthALook) {
    if (Swells(*while_short_, while_short_->ReadSince(acceptor_.ListProgress()))) {
      CutOff(*while_short_, kLeastReadInLook, "calls take many times what was sent");
    }
    while_short_ = std::make_unique<Reading>(acceptor_, gate_);
  }
  if (now - short_since_ < kRefusalsHelp && !pressure_.is_severe()) {
    return;
  }
  // All who sent since then: in a few milliseconds gRPC reads from one or two.
  if (now - since_short_->time >= kShortLook &&
      CutOff(*since_short_, kLeastReadInLook, "memory runs short")) {
    since_short_ = nullptr;
  }
}

void ConnectionWatch::LookBack(const Reading& begin) {
  constexpr char kWhy[] = "others were hardly read from";
  const int64_t closed = acceptor_.CountReadOfClosed();
  const int64_t read = closed + begin.ReadSince(acceptor_.ListProgress());
  const int64_t arrived = gate_.arrived_bytes() - begin.arrived_bytes;
  // Header blocks are read as fast as bodies, but nothing holds them.
  const bool are_bodies = MayBeBodies(begin, read) &&
                          ReadProcessMemory().held_bytes() - begin.held_bytes >= read / kLeastHeld;
  if (begin.CpuSecondsSince() < kPatience || are_bodies) {
    return;
  }
  if (read > kIdleShare * arrived && CutOff(begin, kLeastReadInWindow, kWhy)) {
    return;
  }
  // Closed connections: more than half as many bytes were read from them as handlers were given in
  // all.
  if (2 * closed > arrived) {
    acceptor_.CutOffReturning(kLeastReadOfClosed, kWhy);
    // Also where each of them came from another address.
    if (closed >= kLeastReadOfClosed) {
      HoldOff(kWindow);
    }
  }
}

}  // namespace beamwright::rpc
