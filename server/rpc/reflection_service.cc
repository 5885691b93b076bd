#include <grpcpp/support/status_code_enum.h>

#include "google/protobuf/descriptor.pb.h"
#include "ops/base/status.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/services.h"

namespace beamwright::rpc {

// Answers of gRPC's server reflection, by which tools such as grpcurl learn the services and their
// messages: files by name, symbol or extension, and the list of services.
//
// The constructor serializes the files of the services and all that these import (Add). Descriptors
// are looked up in protobuf's pool of the whole program, but only files of the list are given out.

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void Fail(grpc::StatusCode code, const char* message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

const FileDescriptor* FileOfExtension(const std::string& type, int number) {
  const Descriptor* message = Pool().FindMessageTypeByName(type);
  const FieldDescriptor* field =
      message == nullptr ? nullptr : Pool().FindExtensionByNumber(message, number);
  return field == nullptr ? nullptr : field->file();
}

}  // namespace

ReflectionAnswers::ReflectionAnswers(const std::vector<const FileDescriptor*>& files) {
  for (const FileDescriptor* file : files) {
    Add(*file);
    for (int i = 0; i < file->service_count(); ++i) {
      services_.push_back(file->service(i)->full_name());
    }
  }
}

void ReflectionAnswers::Add(const FileDescriptor& file) {
  const auto [place, is_new] = files_.try_emplace(file.name());
  if (!is_new) {
    return;
  }
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  place->second = proto.SerializeAsString();
  for (int i = 0; i < file.dependency_count(); ++i) {
    Add(*file.dependency(i));
  }
}

ServerReflectionResponse ReflectionAnswers::Answer(const ServerReflectionRequest& request) const {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AnswerFile(Pool().FindFileByName(request.file_by_filename()), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      AnswerFile(FileOfExtension(request.file_containing_extension().containing_type(),
                                 request.file_containing_extension().extension_number()),
                 response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      AnswerNumbers(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services_) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      Fail(grpc::StatusCode::INVALID_ARGUMENT,
           "the request asks for nothing that this server knows", response);
      break;
  }
  return response;
}

void ReflectionAnswers::AnswerFile(const FileDescriptor* file, Response& response) const {
  const auto found = file == nullptr ? files_.end() : files_.find(file->name());
  if (found == files_.end()) {
    Fail(grpc::StatusCode::NOT_FOUND, "no service has such a file, symbol or extension", response);
    return;
  }
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(found->second);
}

void ReflectionAnswers::AnswerNumbers(const std::string& type, Response& response) const {
  const Descriptor* message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) {
    Fail(grpc::StatusCode::NOT_FOUND, "no service has such a message", response);
    return;
  }
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(message, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  for (const FieldDescriptor* extension : extensions) {
    if (files_.count(extension->file()->name()) > 0) {
      numbers.add_extension_number(extension->number());
    }
  }
}

namespace {

// Longest names, with what is around them; an answer repeats its request.
constexpr size_t kMaxReflectionBytes = 4096;

// A call: reads a request when the answer to the one before is sent, so it holds one of each. gRPC
// owns it: it deletes itself when gRPC is done.
class ReflectionCall final : public RawReactor {
 public:
  ReflectionCall(const Gate& gate, const ReflectionAnswers& answers,
                 grpc::CallbackServerContext& context)
      : gate_(gate), answers_(answers), context_(context) {}

  void Begin(const GuardedMethod& method) {
    const absl::Status status = gate_.Admit(context_, method).status();
    if (status.ok()) {
      Read();
    } else {
      End(status);
    }
  }

  void OnReadDone(bool ok) override {
    --gate_.num_reading();
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    gate_.CountArrival(context_, request_);
    if (request_.Length() > kMaxReflectionBytes) {
      End(Invalid("a request for reflection has ", request_.Length(), " bytes; at most ",
                  kMaxReflectionBytes, " are allowed"));
      return;
    }
    const auto request = ParseRequest<grpc::reflection::v1::ServerReflectionRequest>(
        request_, static_cast<int64_t>(kMaxReflectionBytes));
    absl::Status status = request.status();
    if (status.ok()) {
      status = SerializeReply(answers_.Answer(*request), reply_);
    }
    if (status.ok()) {
      StartWrite(&reply_);
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Read();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

 private:
  void Read() {
    ++gate_.num_reading();
    StartRead(&request_);
  }

  void End(const absl::Status& status) {
    gate_.CountRefusal(context_, status);
    Finish(ToGrpcStatus(status));
  }

  const Gate& gate_;
  const ReflectionAnswers& answers_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

}  // namespace

template <typename Generated>
ReflectionService<Generated>::ReflectionService(const Gate& gate,
                                                const ReflectionAnswers& answers) {
  this->Serve("ServerReflectionInfo",
              [&gate, &answers](const GuardedMethod& method, grpc::CallbackServerContext& context) {
                auto* call = new ReflectionCall(gate, answers, context);
                call->Begin(method);
                return call;
              });
}

template class ReflectionService<grpc::reflection::v1::ServerReflection>;
template class ReflectionService<grpc::reflection::v1alpha::ServerReflection>;

}  // namespace beamwright::rpc
