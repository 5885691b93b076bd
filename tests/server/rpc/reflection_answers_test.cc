#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/rpc/services.h"

namespace beamwright::rpc {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::Contains;
using ::testing::SizeIs;

class ReflectionAnswersTest : public ::testing::Test {
 protected:
  // The one file of the answer.
  static google::protobuf::FileDescriptorProto FileIn(const ServerReflectionResponse& response) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_THAT(response.file_descriptor_response().file_descriptor_proto(), SizeIs(1))
        << response.DebugString();
    if (response.has_file_descriptor_response()) {
      EXPECT_TRUE(
          file.ParseFromString(response.file_descriptor_response().file_descriptor_proto(0)));
    }
    return file;
  }

  const ReflectionAnswers answers_{{v1::DecodeRequest::descriptor()->file()}};
  ServerReflectionRequest request_;
};

TEST_F(ReflectionAnswersTest, ServicesAreListed) {
  request_.set_list_services("*");
  request_.set_host("here");
  const ServerReflectionResponse response = answers_.Answer(request_);
  ASSERT_THAT(response.list_services_response().service(), SizeIs(1));
  EXPECT_EQ(response.list_services_response().service(0).name(), "beamwright.v1.DecodeService");
  EXPECT_EQ(response.valid_host(), "here");
  EXPECT_EQ(response.original_request().list_services(), "*");
}

TEST_F(ReflectionAnswersTest, ASymbolIsAnsweredWithItsFileAlone) {
  request_.set_file_containing_symbol("beamwright.v1.DecodeOptions.beam_size");
  const auto file = FileIn(answers_.Answer(request_));
  EXPECT_EQ(file.name(), "beamwright/v1/decode.proto");
  EXPECT_THAT(file.dependency(), Contains("beamwright/v1/rule.proto"));
}

TEST_F(ReflectionAnswersTest, WhatAFileImportsIsAskedForByName) {
  request_.set_file_by_filename("beamwright/v1/rule.proto");
  EXPECT_EQ(FileIn(answers_.Answer(request_)).name(), "beamwright/v1/rule.proto");
  request_.set_file_by_filename("google/protobuf/descriptor.proto");
  EXPECT_EQ(FileIn(answers_.Answer(request_)).name(), "google/protobuf/descriptor.proto");
}

TEST_F(ReflectionAnswersTest, ExtensionsAreFoundByNumber) {
  request_.set_all_extension_numbers_of_type("google.protobuf.FieldOptions");
  const ServerReflectionResponse numbers = answers_.Answer(request_);
  ASSERT_FALSE(numbers.all_extension_numbers_response().extension_number().empty());
  auto& extension = *request_.mutable_file_containing_extension();
  extension.set_containing_type("google.protobuf.FieldOptions");
  extension.set_extension_number(numbers.all_extension_numbers_response().extension_number(0));
  EXPECT_EQ(FileIn(answers_.Answer(request_)).name(), "beamwright/v1/rule.proto");
}

// Also files that the process has and no listed service.
TEST_F(ReflectionAnswersTest, OtherFilesAreNotFound) {
  const auto code = [&] { return answers_.Answer(request_).error_response().error_code(); };
  request_.set_file_containing_symbol("grpc.reflection.v1.ErrorResponse");
  EXPECT_EQ(code(), 5);
  request_.set_file_by_filename("no/such.proto");
  EXPECT_EQ(code(), 5);
  request_.set_all_extension_numbers_of_type("no.such.Message");
  EXPECT_EQ(code(), 5);
  request_.mutable_file_containing_extension()->set_containing_type("no.such.Message");
  EXPECT_EQ(code(), 5);
  request_.clear_message_request();
  EXPECT_EQ(code(), 3);
}

}  // namespace
}  // namespace beamwright::rpc
