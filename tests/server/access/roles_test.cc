#include <gtest/gtest.h>

#include <set>
#include <string>

#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "beamwright/v1/translate.pb.h"
#include "inference/grpc_service.pb.h"
#include "server/access/access.h"

namespace beamwright::access {
namespace {

// Every method of every service is in the table, by name or as a part of a service: one that
// is new fails here until it has a rule.
TEST(RolesTest, EveryMethodHasARule) {
  const std::set<std::string> for_operators = {"RepositoryModelLoad", "RepositoryModelUnload",
                                               "LogSettings", "TraceSetting"};
  for (const google::protobuf::FileDescriptor* file :
       {v1::DecodeRequest::descriptor()->file(), v1::RecognizeRequest::descriptor()->file(),
        v1::TranslateRequest::descriptor()->file(), v1::ModelDescription::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto* method = file->service(i)->method(j);
        const std::string name = "/" + file->service(i)->full_name() + "/" + method->name();
        EXPECT_EQ(RolesForMethod(name) == kOperate, for_operators.count(method->name()) > 0)
            << name;
      }
    }
  }
}

TEST(RolesTest, TheTable) {
  EXPECT_EQ(RolesForMethod("/grpc.health.v1.Health/Watch"), kOpen);
  EXPECT_EQ(RolesForMethod("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), kAnyRole);
  EXPECT_EQ(RolesForMethod("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            kAnyRole);
  EXPECT_EQ(RolesForMethod("/beamwright.v1.DecodeService/Decode"), kDecode);
  EXPECT_EQ(RolesForMethod("/inference.GRPCInferenceService/ModelInfer"), kDecode);
  EXPECT_EQ(RolesForMethod("/inference.GRPCInferenceService/ModelStatistics"), kObserve | kOperate);
  EXPECT_EQ(RolesForMethod("/inference.GRPCInferenceService/ServerReady"), kOpen);
  EXPECT_EQ(RolesForPath("POST", "/v1/models/m:decode"), kDecode);
  EXPECT_EQ(RolesForPath("POST", "/v1/models/m/versions/1:decode"), kDecode);
  EXPECT_EQ(RolesForPath("POST", "/v2/models/m/infer"), kDecode);
  EXPECT_EQ(RolesForPath("HEAD", "/readyz"), kOpen);
  EXPECT_EQ(RolesForPath("GET", "/v2/models/stats"), kObserve | kOperate);
  EXPECT_EQ(RolesForPath("GET", "/v1/status"), kObserve | kOperate);
  EXPECT_EQ(RolesForPath("POST", "/v2/repository/models/m/load"), kOperate);
  // One method reads and changes them.
  EXPECT_EQ(RolesForMethod("/inference.GRPCInferenceService/LogSettings"), kOperate);
  EXPECT_EQ(RolesForPath("GET", "/v2/logging"), kOperate);
}

// What is not in the table stays closed, also by tricks with the path.
TEST(RolesTest, WhatIsUnknownTakesAnOperator) {
  for (const char* method : {"", "/", "/grpc.health.v1.Health/", "/grpc.health.v1.Health/a/b",
                             "/grpc.health.v1.Healthy/Check", "x/grpc.health.v1.Health/Check"}) {
    EXPECT_EQ(RolesForMethod(method), kOperate) << method;
  }
  EXPECT_EQ(RolesForPath("GET", "/"), kOpen);  // the page
  EXPECT_EQ(RolesForPath("POST", "/"), kOperate);
  for (const char* path : {"", "//", "//livez", "/livez/", "/v2/health/live/../../repository",
                           "/v1/models/a/b", "/v2/models//infer"}) {
    EXPECT_EQ(RolesForPath("POST", path), kOperate) << path;
    EXPECT_EQ(RolesForPath("GET", path), kOperate) << path;
  }
  EXPECT_EQ(RolesForPath("DELETE", "/livez"), kOperate);
}

}  // namespace
}  // namespace beamwright::access
