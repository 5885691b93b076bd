// Reads and writes .npz files: zip archives of .npy files, one per tensor. Entries are unpacked in
// pieces until their end or a limit, whatever size the directory claims, so that memory follows the
// data that is there. WriteNpz stores without compression and with a fixed time, so that equal
// tensors make equal files.
#include "ops/numpy/npz.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/numpy/npy.h"
#include "ops/tensor/tensor_limit.h"

namespace beamwright::ops {
namespace {

// libzip's errors own memory.
struct ZipError {
  ZipError() { zip_error_init(&error); }
  explicit ZipError(int code) { zip_error_init_with_code(&error, code); }
  ~ZipError() { zip_error_fini(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  absl::string_view message() { return zip_error_strerror(&error); }
  zip_error_t error;
};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;

absl::StatusOr<Archive> Open(absl::string_view bytes) {
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error.error);
  if (source == nullptr) {
    return absl::ResourceExhaustedError(error.message());
  }
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error.error));
  if (archive == nullptr) {
    zip_source_free(source);
    return Invalid("not a zip archive: ", error.message());
  }
  return archive;
}

// Reads to the end whatever the directory claims the size to be, so that memory follows data.
absl::StatusOr<std::string> ReadEntry(zip_t* archive, zip_uint64_t index, int64_t max_bytes) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) {
    return Invalid("cannot be unpacked: ", zip_strerror(archive));
  }
  constexpr size_t kLeast = size_t{1} << 12;
  constexpr size_t kMost = size_t{1} << 24;
  std::string content;
  while (true) {
    const size_t done = content.size();
    const size_t chunk = std::clamp(done, kLeast, kMost);
    content.resize(done + chunk);
    const zip_int64_t got = zip_fread(entry.get(), content.data() + done, chunk);
    if (got < 0) {
      return Invalid("cannot be unpacked: ", zip_file_strerror(entry.get()));
    }
    content.resize(done + static_cast<size_t>(got));
    if (got == 0) {
      return content;
    }
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return Invalid("the archive unpacks to more than the allowed size");
    }
  }
}

absl::Status WriteFailed(const std::string& path, absl::string_view why) {
  return absl::UnknownError(absl::StrCat("cannot write '", path, "': ", why));
}

}  // namespace

absl::StatusOr<TensorMap> ParseNpz(absl::string_view bytes, const NpzLimits& limits) {
  BW_ASSIGN_OR_RETURN(const Archive archive, Open(bytes));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > limits.max_arrays) {
    return Invalid("has ", count, " entries; at most ", limits.max_arrays, " are allowed");
  }
  TensorMap tensors;
  int64_t left = limits.max_bytes;
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* raw_name = zip_get_name(archive.get(), index, 0);
    if (raw_name == nullptr) {
      return Invalid("entry ", i, " has no name");
    }
    const std::string entry_name = raw_name;
    const std::string where = absl::StrCat("entry '", entry_name.substr(0, 200), "'");
    absl::string_view name = entry_name;
    if (!absl::ConsumeSuffix(&name, ".npy")) {
      return Invalid(where, ": is not a .npy file");
    }
    const absl::StatusOr<std::string> content =
        ReadEntry(archive.get(), index, std::min(left, MaxTensorBytes()));
    if (!content.ok()) {
      return Annotate(content.status(), where);
    }
    left -= static_cast<int64_t>(content->size());
    // The tensor is made while it is in memory.
    const HeldMemory held(content->size());
    if (static_cast<int64_t>(content->size()) > MaxTensorBytes()) {
      return Annotate(TooLarge("the array"), where);
    }
    absl::StatusOr<Tensor> tensor = ParseNpy(*content);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), where);
    }
    if (!tensors.emplace(std::string(name), *std::move(tensor)).second) {
      return Invalid(where, ": there are two of this name");
    }
  }
  return tensors;
}

absl::StatusOr<TensorMap> ReadNpz(const std::string& path, const NpzLimits& limits) {
  BW_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, limits.max_bytes));
  const HeldMemory held(bytes.size());
  absl::StatusOr<TensorMap> tensors = ParseNpz(bytes, limits);
  if (!tensors.ok()) {
    return Annotate(tensors.status(), absl::StrCat("'", path, "'"));
  }
  return tensors;
}

absl::Status WriteNpz(const std::string& path, const TensorMap& tensors) {
  if (tensors.empty()) {
    return Invalid("no tensors to write to '", path, "'");  // libzip would remove the file
  }
  constexpr time_t kNoTime = 315'532'800;  // 1980-01-01, the first that zip can say
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive == nullptr) {
    return WriteFailed(path, ZipError(code).message());
  }
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum += tensor.num_bytes();
  }
  if (sum > MaxTensorBytes()) {
    return TooLarge(absl::StrCat("the file '", path, "' of ", sum, " bytes"));
  }
  std::vector<std::string> contents;  // must live until the archive is closed
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    contents.push_back(FormatNpy(tensor));
    zip_source_t* source =
        zip_source_buffer(archive.get(), contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index = source == nullptr
                                  ? -1
                                  : zip_file_add(archive.get(), absl::StrCat(name, ".npy").c_str(),
                                                 source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return WriteFailed(path, zip_strerror(archive.get()));
    }
    if (zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE,
                                 0) != 0 ||
        zip_file_set_mtime(archive.get(), static_cast<zip_uint64_t>(index), kNoTime, 0) != 0) {
      return WriteFailed(path, zip_strerror(archive.get()));
    }
  }
  if (zip_close(archive.get()) != 0) {
    return WriteFailed(path, zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // zip_close has freed it
  return absl::OkStatus();
}

}  // namespace beamwright::ops
