#include "server/rpc/rpc_status.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/model/utf8.h"

namespace beamwright::rpc {
namespace {

// Clients refuse trailers above 8 KiB, and a character may take three bytes each there.
constexpr size_t kMaxMessageBytes = 2048;

absl::StatusCode WireCode(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown ? absl::StatusCode::kInternal : code;
}

// Valid UTF-8 of at most kMaxMessageBytes: a proto3 string can hold nothing else.
std::string WireMessage(absl::string_view message) {
  std::string text(message);
  if (!model::CheckUtf8(text).ok()) {
    text = absl::CHexEscape(text);
  }
  if (text.size() <= kMaxMessageBytes) {
    return text;
  }
  size_t end = kMaxMessageBytes;
  while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), " ... (", text.size() - end, " bytes more)");
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  // absl::StatusCode numbers the codes as gRPC does.
  return grpc::Status(static_cast<grpc::StatusCode>(WireCode(status.code())),
                      WireMessage(status.message()));
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status result;
  result.set_code(static_cast<int>(WireCode(status.code())));
  result.set_message(WireMessage(status.message()));
  return result;
}

}  // namespace beamwright::rpc
