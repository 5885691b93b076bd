// Servers over gRPC that a load is sent to: of beamwright.v1 (NativeTarget), and of the Open
// Inference Protocol (InferGrpcTarget), and the choice of a target by protocol (MakeTarget).
//
// A target sends a call without waiting and calls `done` with a DecodeResponse, whatever the
// protocol, so that the load generator measures and counts all of them the same way.
// DecodeResponseOf makes it from the tensors of an Open Inference response, gRPC's or JSON. Answers
// of other servers may have other outputs: then a result has no hypothesis, and only times are
// measured. Extents in an answer are claims of the server and are bounded.

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/async_calls.h"
#include "client/channels.h"
#include "client/load/infer_message.h"
#include "client/load/load.h"
#include "inference/grpc_service.grpc.pb.h"
#include "ops/base/rapidjson.h"
#include "ops/base/status.h"

namespace beamwright::client {

// beamwright.v1 over gRPC: unary calls and streams.

namespace {

class NativeTarget final : public LoadTarget {
 public:
  explicit NativeTarget(Client& client) : client_(client) {}
  explicit NativeTarget(std::unique_ptr<Client> client)
      : owned_(std::move(client)), client_(*owned_) {}

  void Send(LoadCall call, LoadDone done) override {
    const absl::Time deadline = absl::Now() + call.timeout;
    if (!call.stream) {
      client_.DecodeAsync(std::move(call.request), deadline, std::move(done), call.settings);
      return;
    }
    v1::StreamDecodeRequest request;
    request.set_model(call.request.model());
    request.set_version(call.request.version());
    *request.mutable_options() = std::move(*call.request.mutable_options());
    *request.mutable_source() = std::move(*call.request.mutable_sources(0));
    struct Answer {
      bool has_token = false;
      v1::DecodeResponse response;
    };
    auto answer = std::make_shared<Answer>();
    client_.StreamDecodeAsync(
        std::move(request), deadline,
        [answer, on_first = std::move(call.on_first)](const v1::StreamDecodeResponse& message) {
          if (!answer->has_token && message.stable_size() > 0) {
            answer->has_token = true;
            on_first();
          }
          if (message.has_decoded()) {
            *answer->response.add_results()->mutable_decoded() = message.decoded();
          }
          return true;
        },
        [answer, done = std::move(done)](const absl::Status& status) {
          done(status.ok() ? absl::StatusOr<v1::DecodeResponse>(std::move(answer->response))
                           : status);
        },
        call.settings);
  }

  void CancelOutstanding() override { client_.CancelOutstanding(); }
  int most_in_flight() const override { return kMaxConcurrency; }
  bool SetLoop(bool has_loop) override {
    loop_ = has_loop ? std::make_unique<CallbackLoop>(client_) : nullptr;
    return true;
  }
  bool RunOne(absl::Time deadline) override { return loop_ && loop_->RunOne(deadline); }

 private:
  std::unique_ptr<Client> owned_;
  Client& client_;
  std::unique_ptr<CallbackLoop> loop_;
};

}  // namespace

std::unique_ptr<LoadTarget> MakeNativeTarget(Client& client) {
  return std::make_unique<NativeTarget>(client);
}

std::unique_ptr<LoadTarget> MakeOwnedNativeTarget(std::unique_ptr<Client> client) {
  return std::make_unique<NativeTarget>(std::move(client));
}

// Servers of the Open Inference Protocol over gRPC, and answers of that protocol as those of
// Decode.

// ModelInfer of the Open Inference Protocol, over gRPC.

namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

class InferGrpcTarget final : public LoadTarget {
 public:
  InferGrpcTarget(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                  std::string authorization)
      : authorization_(std::move(authorization)) {
    for (const auto& channel : channels) {
      stubs_.push_back(GRPCInferenceService::NewStub(channel));
    }
  }

  void Send(LoadCall call, LoadDone done) override {
    auto request = call.infer == nullptr ? InferRequestOf(call.request) : *call.infer;
    if (!request.ok()) {
      done(request.status());
      return;
    }
    request->set_model_name(call.request.model());
    request->set_model_version(call.request.version());
    if (call.settings.priority != 0) {
      (*request->mutable_parameters())["priority"].set_uint64_param(
          static_cast<uint64_t>(call.settings.priority));
    }
    auto started = std::make_shared<UnaryCall<ModelInferRequest, ModelInferResponse>>();
    started->context.set_deadline(absl::ToChronoTime(absl::Now() + call.timeout));
    if (!authorization_.empty()) {
      started->context.AddMetadata("authorization", authorization_);
    }
    if (!call.settings.tenant.empty()) {
      started->context.AddMetadata("beamwright-tenant", call.settings.tenant);
    }
    started->request = *std::move(request);
    started->prepare = [stub = NextStub()](grpc::ClientContext* context,
                                           const ModelInferRequest& asked,
                                           grpc::CompletionQueue* queue) {
      return stub->PrepareAsyncModelInfer(context, asked, queue);
    };
    started->callback = [done = std::move(done)](absl::StatusOr<ModelInferResponse> response) {
      done(response.ok() ? absl::StatusOr<v1::DecodeResponse>(DecodeResponseOf(*response))
                         : response.status());
    };
    calls_.Start(std::move(started), call.settings.cancel_after);
  }

  void CancelOutstanding() override { calls_.CancelOutstanding(); }
  int most_in_flight() const override { return kMaxConcurrency; }
  bool SetLoop(bool has_loop) override {
    calls_.SetLoop(has_loop);
    return true;
  }
  bool RunOne(absl::Time deadline) override { return calls_.RunOne(deadline); }

 private:
  GRPCInferenceService::Stub* NextStub() {
    return stubs_[next_stub_.fetch_add(1, std::memory_order_relaxed) % stubs_.size()].get();
  }

  const std::string authorization_;
  std::vector<std::unique_ptr<GRPCInferenceService::Stub>> stubs_;
  std::atomic<uint64_t> next_stub_{0};
  AsyncCalls calls_;  // last: its calls use the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeInferGrpcTarget(const ClientOptions& options) {
  BW_ASSIGN_OR_RETURN(const auto channels, MakeChannels(options));
  BW_ASSIGN_OR_RETURN(std::string authorization, ReadAuthorization(options));
  return std::make_unique<InferGrpcTarget>(channels, std::move(authorization));
}

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeTarget(Protocol protocol,
                                                       const ClientOptions& options) {
  switch (protocol) {
    case Protocol::kNative: {
      BW_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(options));
      return MakeOwnedNativeTarget(std::move(client));
    }
    case Protocol::kInferGrpc:
      return MakeInferGrpcTarget(options);
    case Protocol::kRest:
    case Protocol::kInferHttp:
      return MakeHttpTarget(protocol, options);
  }
  return Invalid("there is no such protocol");
}

// What comes back over the Open Inference Protocol (infer_message.h).

namespace {

using inference::ModelInferResponse;

// Any server may say that its answer is as long as it likes.
constexpr int64_t kMostRows = 4096;
constexpr int64_t kMostTokens = 65'536;

// Of one output: its elements as they may come, typed or raw.
class Output {
 public:
  Output(const ModelInferResponse& response, absl::string_view name) {
    for (int i = 0; i < response.outputs_size(); ++i) {
      if (response.outputs(i).name() == name) {
        tensor_ = &response.outputs(i);
        if (i < response.raw_output_contents_size()) {
          raw_ = response.raw_output_contents(i);
        }
      }
    }
  }

  bool found() const { return tensor_ != nullptr; }
  // Of axis `axis`; 1 if there is no such axis.
  int64_t Extent(int axis) const {
    return tensor_ == nullptr || axis >= tensor_->shape_size() ? 1 : tensor_->shape(axis);
  }

  // Element `at` of int32; -1 beyond the end.
  int32_t Int(int64_t at) const {
    int32_t value = -1;
    const auto begin = static_cast<size_t>(at) * sizeof(value);
    if (begin + sizeof(value) <= raw_.size()) {
      std::memcpy(&value, raw_.data() + begin, sizeof(value));
    } else if (raw_.empty() && tensor_ != nullptr && at < tensor_->contents().int_contents_size()) {
      value = tensor_->contents().int_contents(static_cast<int>(at));
    }
    return value;
  }

  // Element `at` of BYTES; raw ones are gone through from the first.
  std::string Text(int64_t at) const {
    if (raw_.empty()) {
      const bool has = tensor_ != nullptr && at < tensor_->contents().bytes_contents_size();
      return has ? tensor_->contents().bytes_contents(static_cast<int>(at)) : "";
    }
    size_t begin = 0;
    for (; begin + sizeof(uint32_t) <= raw_.size(); --at) {
      uint32_t length = 0;
      std::memcpy(&length, raw_.data() + begin, sizeof(length));
      begin += sizeof(length);
      if (length > raw_.size() - begin) {
        return "";
      }
      if (at == 0) {
        return std::string(raw_.substr(begin, length));
      }
      begin += length;
    }
    return "";
  }

 private:
  const ModelInferResponse::InferOutputTensor* tensor_ = nullptr;
  absl::string_view raw_;
};

}  // namespace

// A result for each row of the first output, with the best hypothesis alone, which is what answers
// are compared and counted by.
v1::DecodeResponse DecodeResponseOf(const ModelInferResponse& response) {
  v1::DecodeResponse decoded;
  decoded.set_model(response.model_name());
  decoded.set_version(response.model_version());
  const Output counts(response, "num_hypotheses"), ids(response, "ids"),
      lengths(response, "lengths"), texts(response, "text");
  const bool ours = ids.found() && lengths.found();
  const int64_t rows = response.outputs().empty() || response.outputs(0).shape().empty()
                           ? 1
                           : response.outputs(0).shape(0);
  for (int64_t row = 0; row < std::clamp<int64_t>(rows, 1, kMostRows); ++row) {
    v1::Decoded& result = *decoded.add_results()->mutable_decoded();
    if (!ours || (counts.found() && counts.Int(row) < 1)) {
      continue;
    }
    v1::Hypothesis& best = *result.add_hypotheses();
    best.set_text(texts.Text(row * texts.Extent(1)));
    const int64_t length =
        std::min({int64_t{lengths.Int(row * lengths.Extent(1))}, ids.Extent(2), kMostTokens});
    for (int64_t i = 0; i < length; ++i) {
      best.add_tokens(ids.Int(row * ids.Extent(1) * ids.Extent(2) + i));
    }
  }
  return decoded;
}

// The JSON form becomes the message, as far as its members have the types that they must have; what
// has not is passed over, and then read as if it had come by gRPC.
absl::StatusOr<v1::DecodeResponse> DecodeResponseOf(absl::string_view json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject() || !document.HasMember("outputs") ||
      !document["outputs"].IsArray()) {
    return absl::InternalError("the answer is not an Open Inference response in JSON");
  }
  ModelInferResponse response;
  const auto text = [](const auto& object, const char* name) {
    const auto it = object.FindMember(name);
    return it != object.MemberEnd() && it->value.IsString() ? it->value.GetString() : "";
  };
  response.set_model_name(text(document, "model_name"));
  response.set_model_version(text(document, "model_version"));
  for (const auto& output : document["outputs"].GetArray()) {
    if (!output.IsObject()) {
      continue;
    }
    auto& tensor = *response.add_outputs();
    tensor.set_name(text(output, "name"));
    const auto shape = output.FindMember("shape");
    for (rapidjson::SizeType i = 0;
         shape != output.MemberEnd() && shape->value.IsArray() && i < shape->value.Size(); ++i) {
      tensor.add_shape(shape->value[i].IsInt64() ? shape->value[i].GetInt64() : 1);
    }
    const auto data = output.FindMember("data");
    for (rapidjson::SizeType i = 0;
         data != output.MemberEnd() && data->value.IsArray() && i < data->value.Size(); ++i) {
      if (data->value[i].IsString()) {
        tensor.mutable_contents()->add_bytes_contents(data->value[i].GetString(),
                                                      data->value[i].GetStringLength());
      } else if (data->value[i].IsInt()) {
        tensor.mutable_contents()->add_int_contents(data->value[i].GetInt());
      }
    }
  }
  return DecodeResponseOf(response);
}

}  // namespace beamwright::client
