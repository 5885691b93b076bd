// Server reflection, in both versions that clients ask for. gRPC's own has a thread for each call,
// sends with a file all that it imports, and passes no gate.
#ifndef BEAMWRIGHT_SERVER_RPC_REFLECTION_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/reflection_answers.h"

namespace beamwright::rpc {

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
