#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "beamwright/v1/translate.pb.h"
#include "engine/bundle/rules.h"
#include "engine/options/resolve.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::bundle {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The fields of a message, and of the messages in it, that need a bound and have none.
void AddUnbounded(const Descriptor& type, std::set<const Descriptor*>& seen,
                  std::vector<std::string>& unbounded) {
  if (!seen.insert(&type).second) {
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool has_length =
        field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (has_length && MaxItems(field) == 0) {
      unbounded.push_back(field.full_name());
    }
    if (field.message_type() != nullptr) {
      AddUnbounded(*field.message_type(), seen, unbounded);
    }
  }
}

TEST(BoundsTest, EveryListAndTextOfEveryRequestHasABound) {
  std::set<const Descriptor*> seen;
  std::vector<std::string> unbounded;
  int methods = 0;
  for (const Descriptor* of_file :
       {v1::DecodeRequest::descriptor(), v1::RecognizeRequest::descriptor(),
        v1::TranslateRequest::descriptor(), v1::DescribeModelRequest::descriptor(),
        inference::ModelInferRequest::descriptor()}) {
    const google::protobuf::FileDescriptor& file = *of_file->file();
    for (int service = 0; service < file.service_count(); ++service) {
      for (int i = 0; i < file.service(service)->method_count(); ++i) {
        AddUnbounded(*file.service(service)->method(i)->input_type(), seen, unbounded);
        ++methods;
      }
    }
  }
  EXPECT_THAT(unbounded, IsEmpty());
  EXPECT_GE(methods, 20);
  EXPECT_EQ(MaxItems(*v1::DecodeRequest::descriptor()->FindFieldByName("sources")),
            engine::kMaxSources);
}

std::string Fault(const google::protobuf::Message& message) {
  const absl::Status status = CheckBounds(message);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(BoundsTest, WhatIsWithinItsBoundPasses) {
  v1::DecodeRequest request;
  request.set_model(std::string(1024, 'm'));
  for (int i = 0; i < 4096; ++i) {
    request.add_sources()->set_text("cat");
  }
  v1::Tensor& tensor = (*request.mutable_sources(0)->mutable_further_inputs())["x"];
  for (int i = 0; i < 16; ++i) {
    tensor.add_shape(int64_t{1} << 62);
  }
  request.mutable_options()->mutable_suppress_tokens()->mutable_ids()->mutable_ids()->Resize(
      200'000, -1);
  EXPECT_EQ(Fault(request), "");
  EXPECT_EQ(Fault(v1::DecodeRequest()), "");
}

TEST(BoundsTest, TheFirstFieldBeyondItsBoundIsNamedWithItsPlace) {
  v1::DecodeRequest request;
  request.set_version(std::string(1025, 'm'));
  EXPECT_EQ(Fault(request), "version: 1025 bytes; at most 1024 are allowed");
  request.clear_version();
  request.add_sources();
  v1::Tensor& features = *request.add_sources()->mutable_features();
  features.mutable_shape()->Resize(300'000, 1 << 20);
  EXPECT_EQ(Fault(request),
            "sources[1].features.shape: more than 16 elements; at most 16 are allowed");
  features.mutable_shape()->Resize(17, 1);
  EXPECT_THAT(Fault(request), HasSubstr("more than 16 elements"));
  features.Clear();
  for (int i = 0; i < 65; ++i) {
    (*request.mutable_sources(0)->mutable_further_inputs())[absl::StrCat(i)];
  }
  EXPECT_EQ(Fault(request),
            "sources[0].further_inputs: more than 64 elements; at most 64 are allowed");
  request.clear_sources();
  for (int i = 0; i < 250'000; ++i) {
    request.add_sources();
  }
  EXPECT_EQ(Fault(request), "sources: more than 4096 elements; at most 4096 are allowed");
}

TEST(BoundsTest, TheOpenInferenceProtocolHasBoundsOfItsTable) {
  inference::ModelInferRequest request;
  auto& input = *request.add_inputs();
  input.mutable_contents()->mutable_int_contents()->Resize(100'000, 1);
  EXPECT_EQ(Fault(request), "");
  input.mutable_shape()->Resize(17, 1);
  EXPECT_EQ(Fault(request), "inputs[0].shape: more than 16 elements; at most 16 are allowed");
  input.clear_shape();
  (*input.mutable_parameters())[std::string(1025, 'k')].set_bool_param(true);
  EXPECT_EQ(Fault(request), "inputs[0].parameters[0].key: 1025 bytes; at most 1024 are allowed");
}

// One after the other, where a writer does not pack them.
TEST(BoundsTest, NumbersThatAreNotPackedCount) {
  const auto check = [](const std::string& bytes) {
    google::protobuf::io::CodedInputStream coded(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                 static_cast<int>(bytes.size()));
    return CheckBounds(*v1::Tensor::descriptor(), coded);
  };
  std::string shape;
  for (int i = 0; i < 16; ++i) {
    shape += "\x10\x01";
  }
  EXPECT_TRUE(check(shape).ok());
  EXPECT_FALSE(check(shape + "\x10\x01").ok());
  EXPECT_FALSE(check(shape + std::string("\x12\x01\x05")).ok());
  std::string unknown;
  for (int64_t i = 0; i <= kMaxFields; ++i) {
    unknown += "\x58\x01";
  }
  EXPECT_THAT(std::string(check(unknown).message()), HasSubstr("more than 131072 fields"));
  // Malformed: the parser has words for these.
  for (const char* malformed : {"\x12\x7f\x01", "\x0a", "\x12\xff\xff\xff\xff\xff", "\x0a\x05x"}) {
    EXPECT_TRUE(check(malformed).ok());
  }
}

}  // namespace
}  // namespace beamwright::bundle
