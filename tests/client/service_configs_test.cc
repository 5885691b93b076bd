// The service configs of deploy/grpc: what they try again, by the services as they are declared.
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::client {
namespace {

// "service/method", or "service" where a config names no method.
struct Named {
  std::set<std::string> tried_again;
  std::set<std::string> tried_once;
};

Named Read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  google::protobuf::Struct config;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text.str(), &config).ok()) << file;
  Named named;
  for (const auto& method_config : config.fields().at("methodConfig").list_value().values()) {
    const auto& fields = method_config.struct_value().fields();
    auto& names = fields.contains("retryPolicy") ? named.tried_again : named.tried_once;
    for (const auto& value : fields.at("name").list_value().values()) {
      const auto& name = value.struct_value().fields();
      const std::string service = name.at("service").string_value();
      names.insert(name.contains("method")
                       ? absl::StrCat(service, "/", name.at("method").string_value())
                       : service);
    }
  }
  return named;
}

// With a retry policy a stream whose server dies may wait for ever, and a model may take longer to
// load than an attempt has time.
bool IsTriedOnce(const google::protobuf::MethodDescriptor& method) {
  return method.client_streaming() || method.server_streaming() ||
         method.name() == "RepositoryModelLoad" || method.name() == "RepositoryModelUnload";
}

TEST(ServiceConfigs, TryAgainWhatMayBeTriedAgain) {
  for (const char* file :
       {"deploy/grpc/round_robin.json", "deploy/grpc/weighted_round_robin.json"}) {
    const Named named = Read(file);
    std::set<std::string> tried_once;
    for (const google::protobuf::FileDescriptor* declared :
         {v1::DecodeRequest::descriptor()->file(), v1::ListModelsRequest::descriptor()->file(),
          inference::ModelInferRequest::descriptor()->file()}) {
      const google::protobuf::ServiceDescriptor& service = *declared->service(0);
      EXPECT_TRUE(named.tried_again.count(std::string(service.full_name()))) << service.full_name();
      for (int i = 0; i < service.method_count(); ++i) {
        if (IsTriedOnce(*service.method(i))) {
          tried_once.insert(absl::StrCat(service.full_name(), "/", service.method(i)->name()));
        }
      }
    }
    EXPECT_EQ(named.tried_once, tried_once) << file;
    EXPECT_EQ(named.tried_again.size(), 3u) << file;  // a Recognize is a stream
  }
}

}  // namespace
}  // namespace beamwright::client
