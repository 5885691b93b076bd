#include "tools/bundle/marian_bin.h"

#include <cstring>

#include "absl/strings/match.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"

namespace beamwright::tools {
namespace {

using ops::Tensor;

constexpr size_t kAlignment = 256;
constexpr uint64_t kF32Type = 0x404;
constexpr uint64_t kI8Type = 0x101;

template <typename T>
void AppendNumber(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

size_t Padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

absl::StatusOr<uint64_t> TypeOf(const std::string& name, const Tensor& array) {
  if (array.dtype() == ops::DType::kF32) {
    return kF32Type;
  }
  if (array.dtype() == ops::DType::kI8 && absl::StartsWith(name, "special:")) {
    return kI8Type;
  }
  return absl::UnimplementedError(absl::StrCat("array '", Printable(name), "' has type ",
                                               ops::Name(array.dtype()),
                                               "; f32 is expected of Marian's parameters"));
}

}  // namespace

absl::StatusOr<std::string> MarianBinOf(const ops::TensorMap& arrays) {
  if (!arrays.contains("special:model.yml")) {
    return Invalid("is not a Marian model: it has no array 'special:model.yml' with the options");
  }
  std::string out;
  AppendNumber<uint64_t>(1, out);
  AppendNumber<uint64_t>(arrays.size(), out);
  for (const auto& [name, array] : arrays) {
    BW_ASSIGN_OR_RETURN(const uint64_t type, TypeOf(name, array));
    AppendNumber<uint64_t>(name.size() + 1, out);
    AppendNumber<uint64_t>(type, out);
    AppendNumber<uint64_t>(static_cast<uint64_t>(array.rank()), out);
    AppendNumber<uint64_t>(Padded(static_cast<size_t>(array.num_bytes())), out);
  }
  for (const auto& [name, array] : arrays) {
    out.append(name).push_back('\0');
  }
  for (const auto& [name, array] : arrays) {
    for (const int64_t extent : array.shape()) {
      AppendNumber(static_cast<int32_t>(extent), out);
    }
  }
  const size_t begin = Padded(out.size() + sizeof(uint64_t));
  AppendNumber<uint64_t>(begin - out.size() - sizeof(uint64_t), out);
  out.resize(begin);
  for (const auto& [name, array] : arrays) {
    out.append(reinterpret_cast<const char*>(array.bytes()),
               static_cast<size_t>(array.num_bytes()));
    out.resize(Padded(out.size()));
  }
  return out;
}

}  // namespace beamwright::tools
