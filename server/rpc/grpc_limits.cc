#include "server/rpc/grpc_limits.h"

#include <grpc/support/cpu.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/version_info.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <utility>

#include "ops/base/memory.h"
#include "ops/base/steady_time.h"

// As in gRPC's src/core/ext/transport/chttp2/transport/http2_settings.h, which is not installed.
extern "C" {
struct BeamwrightGrpcSetting {
  const char* name;
  uint32_t default_value;
  uint32_t min_value;
  uint32_t max_value;
  int invalid_value_behavior;
  uint32_t error_value;
};
// Weak: programs link with a gRPC that has no such table.
extern BeamwrightGrpcSetting grpc_chttp2_settings_parameters[7] __attribute__((weak));
}

namespace beamwright::rpc {
namespace {

constexpr bool kHasTable = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51;
constexpr size_t kMaxConcurrentStreams = 2;
constexpr size_t kMaxHeaderListSize = 5;
constexpr uint32_t kLargestHeaderList = 16 << 20;

// Memory of one of the files that the process has loaded.
struct LoadedAt {
  uintptr_t address = 0;
  int protection = 0;  // as mprotect takes it; 0: in no file
};

// Of dl_iterate_phdr: sets the protection if the address is in this file.
int FindProtection(dl_phdr_info* file, size_t /*size*/, void* loaded_at) {
  auto& found = *static_cast<LoadedAt*>(loaded_at);
  bool is_read_only = false;  // since the file is linked
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = file->dlpi_phdr[i];
    const uintptr_t begin = file->dlpi_addr + part.p_vaddr;
    if (found.address < begin || found.address - begin >= part.p_memsz) {
      continue;
    }
    is_read_only = is_read_only || part.p_type == PT_GNU_RELRO;
    if (part.p_type == PT_LOAD) {
      found.protection = ((part.p_flags & PF_R) != 0 ? PROT_READ : 0) |
                         ((part.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
                         ((part.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    }
  }
  if (is_read_only) {
    found.protection = PROT_READ;
  }
  return found.protection == 0 ? 0 : 1;
}

// Writes a number that may be in memory that is protected.
absl::Status Write(uint32_t value, uint32_t& to) {
  LoadedAt loaded_at;
  loaded_at.address = reinterpret_cast<uintptr_t>(&to);
  dl_iterate_phdr(FindProtection, &loaded_at);
  const int protection = loaded_at.protection;
  if (protection == 0) {
    return absl::FailedPreconditionError("gRPC's table of settings is in no file that is loaded");
  }
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(loaded_at.address / page_bytes * page_bytes);
  const bool is_writable = (protection & PROT_WRITE) != 0;
  if (!is_writable && mprotect(page, page_bytes, protection | PROT_WRITE) != 0) {
    return absl::ErrnoToStatus(errno, "gRPC's table of settings cannot be written");
  }
  to = value;
  if (!is_writable && mprotect(page, page_bytes, protection) != 0) {
    return absl::ErrnoToStatus(errno, "gRPC's table of settings cannot be made read-only again");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetEarlyLimits(const EarlyLimits& limits) {
  BeamwrightGrpcSetting* const table = grpc_chttp2_settings_parameters;
  if (!kHasTable || table == nullptr ||
      std::string_view(table[kMaxConcurrentStreams].name) != "MAX_CONCURRENT_STREAMS" ||
      std::string_view(table[kMaxHeaderListSize].name) != "MAX_HEADER_LIST_SIZE" ||
      table[kMaxHeaderListSize].max_value != kLargestHeaderList) {
    return absl::FailedPreconditionError("gRPC's table of settings is not that of version 1.51");
  }
  absl::Status status = Write(limits.header_bytes, table[kMaxHeaderListSize].default_value);
  status.Update(Write(limits.streams, table[kMaxConcurrentStreams].default_value));
  return status;
}

namespace {

// gRPC takes half as many threads as there are cores, at least two (CallbackAlternativeCQ in
// src/cpp/common/completion_queue_cc.cc).
constexpr unsigned kMostCores = 5;
constexpr bool kIsKnown = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51;

// The threads are the process's: a second one held would be the last.
std::atomic<bool> is_held{false};

}  // namespace

std::unique_ptr<OneCallbackThread> OneCallbackThread::Hold(grpc::Server& server) {
  if (!kIsKnown || gpr_cpu_num_cores() > kMostCores || is_held.exchange(true)) {
    return nullptr;
  }
  return std::unique_ptr<OneCallbackThread>(new OneCallbackThread(server));
}

// Any call will do, and it may fail: its callback is what holds the thread.
OneCallbackThread::OneCallbackThread(grpc::Server& server)
    : stub_(grpc::health::v1::Health::NewStub(server.InProcessChannel(grpc::ChannelArguments()))) {
  stub_->async()->Check(&context_, &request_, &response_, [this](const grpc::Status&) {
    give_back_.WaitForNotification();
    given_back_.Notify();
  });
}

OneCallbackThread::~OneCallbackThread() {
  give_back_.Notify();
  given_back_.WaitForNotification();
  is_held = false;
}

namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// A trim walks through all that is free.
constexpr absl::Duration kBetweenTrims = absl::Milliseconds(200);
// What is worth one where memory is not short, and the shortest time between two.
constexpr int64_t kWorthATrim = 64 << 20;
constexpr absl::Duration kBetweenIdleTrims = absl::Seconds(1);
// Between two looks at what malloc keeps, which take its locks.
constexpr absl::Duration kBetweenHeapLooks = absl::Seconds(2);
// Of what models leave of the limit: what calls may hold. What arrives until the next look comes on
// top, a third of 512 MiB on a fast machine.
constexpr double kCallsShare = 0.4;
// Large requests by the hundred come to 0.6 at times.
constexpr double kSevereShare = 0.8;

// Resident bytes that are no file's and that malloc has not given out: it keeps them, but for
// stacks and the like, which do not change by much.
int64_t Slack(int64_t resident) {
  const struct mallinfo2 heap = mallinfo2();
  return resident - static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

}  // namespace

bool MemoryPressure::IsHigh() {
  if (!has_limit()) {
    return false;
  }
  const absl::Time now = SteadyNow();
  const int64_t held = ReadProcessMemory().held_bytes();
  if (now - minute_ >= kMinute) {
    least_before_ = std::exchange(least_, held);
    minute_ = now;
  }
  least_ = std::min(least_, held);
  const int64_t least = std::min(least_, least_before_);
  const int64_t most =
      least + static_cast<int64_t>(kCallsShare * static_cast<double>(limit_bytes_ - least));
  if (held > most && now - trimmed_ >= kBetweenTrims) {
    malloc_trim(0);
    trimmed_ = SteadyNow();
  }
  const int64_t kept = held > most ? ReadProcessMemory().held_bytes() : held;
  is_severe_ =
      static_cast<double>(kept - least) > kSevereShare * static_cast<double>(limit_bytes_ - least);
  return kept > most;
}

void MemoryPressure::GiveBack(int64_t held_bytes) {
  most_held_ = std::max(most_held_, held_bytes);
  const absl::Time now = SteadyNow();
  bool is_worth = most_held_ - held_bytes >= kWorthATrim;
  if (!is_worth && now - looked_ >= kBetweenHeapLooks) {
    looked_ = now;
    const int64_t resident = ReadProcessMemory().held_bytes();
    least_resident_ = std::min(least_resident_, resident);
    if (slack_ < 0) {
      slack_ = Slack(resident);
    }
    is_worth = resident - least_resident_ >= kWorthATrim && Slack(resident) - slack_ >= kWorthATrim;
  }
  if (!is_worth || now - trimmed_ < kBetweenIdleTrims) {
    return;
  }
  malloc_trim(0);
  trimmed_ = SteadyNow();
  most_held_ = held_bytes;
  slack_ = Slack(ReadProcessMemory().held_bytes());
}

}  // namespace beamwright::rpc
