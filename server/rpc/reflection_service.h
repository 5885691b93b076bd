// Server reflection, in both versions that clients ask for. gRPC's own has a thread for each call,
// sends with a file all that it imports, and passes no gate.
#ifndef BEAMWRIGHT_SERVER_RPC_REFLECTION_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_REFLECTION_SERVICE_H_

#include <map>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"

namespace beamwright::rpc {

// ReflectionAnswers: what server reflection answers, made once. A file goes without those that it
// imports, for which clients ask by name, so an answer is as small as the file.

// Thread-safe.
class ReflectionAnswers {
 public:
  // Of the services that the files declare, with all that the files import.
  explicit ReflectionAnswers(const std::vector<const google::protobuf::FileDescriptor*>& files);

  // The messages of v1 have the wire form of v1alpha's. An error is an answer, too.
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request) const;

 private:
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  void Add(const google::protobuf::FileDescriptor& file);
  // Null, or of no service: not found.
  void AnswerFile(const google::protobuf::FileDescriptor* file, Response& response) const;
  void AnswerNumbers(const std::string& type, Response& response) const;

  std::vector<std::string> services_;
  std::map<std::string, std::string> files_;  // by name, serialised
};

// `Generated` is the service of a version. Thread-safe. Gate and answers must outlive it.
template <typename Generated>
class ReflectionService final : public RawService<Generated> {
 public:
  ReflectionService(const Gate& gate, const ReflectionAnswers& answers);
};

extern template class ReflectionService<grpc::reflection::v1::ServerReflection>;
extern template class ReflectionService<grpc::reflection::v1alpha::ServerReflection>;

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_REFLECTION_SERVICE_H_
