// RawService: a generated gRPC service whose methods are all served as streams of raw bytes.
//
// gRPC runs the handler of a unary method when the whole request has come, and holds what came
// until then. As a stream a call is handled when its headers have come: who may not make it is
// refused before anything is read, and when memory runs short calls can be ended that have sent
// only part of their request (call_counts.h). Clients see no difference: on the wire a unary
// call is a stream of one message each way. For raw bytes raw_message.h gives the reason.
#ifndef BEAMWRIGHT_SERVER_RPC_RAW_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_RAW_SERVICE_H_

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "ops/base/check.h"
#include "server/rpc/gate.h"

namespace beamwright::rpc {

using RawReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// `Generated` is the class that protoc writes for the service (v1::DecodeService).
template <typename Generated>
class RawService : public Generated::Service {
 protected:
  // Returns the reactor of a call whose headers have come; on any thread.
  using MakeReactor =
      std::function<RawReactor*(const GuardedMethod&, grpc::CallbackServerContext&)>;

  // Serves the method of this name: once for each, before the service is registered. `make` is
  // given the method as the gate knows it.
  void Serve(const std::string& name, MakeReactor make) {
    const std::string service = Generated::service_full_name();
    const google::protobuf::MethodDescriptor* method =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
            absl::StrCat(service, ".", name));
    BW_CHECK(method != nullptr);
    const auto new_handler = [guarded = GuardedMethod(absl::StrCat("/", service, "/", name)),
                              make = std::move(make)] {
      return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
          [guarded, make](grpc::CallbackServerContext* context) {
            return make(guarded, *context);
          });
    };
    served_.insert(method->index());
    // The first one declares the method to be a stream, the second one that it is handled by
    // callbacks and in bytes. Each takes a handler; the second replaces the first.
    this->MarkMethodStreamed(method->index(), new_handler());
    this->MarkMethodRawCallback(method->index(), new_handler());
  }

  // Serves the methods that were not served yet, which generated code would answer by itself:
  // past the gate and on sync threads.
  void ServeRest(const MakeReactor& make) {
    const google::protobuf::ServiceDescriptor* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            Generated::service_full_name());
    BW_CHECK(service != nullptr);
    for (int i = 0; i < service->method_count(); ++i) {
      if (served_.count(i) == 0) {
        Serve(service->method(i)->name(), make);
      }
    }
  }

 private:
  std::set<int> served_;  // by index
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RAW_SERVICE_H_
