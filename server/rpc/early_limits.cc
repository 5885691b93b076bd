#include "server/rpc/early_limits.h"

#include <grpcpp/version_info.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

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

}  // namespace beamwright::rpc
