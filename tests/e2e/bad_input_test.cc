// What strangers may send. E2eTest checks after each test that the server still answers well.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <random>

#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kDecode[] = "/beamwright.v1.DecodeService/Decode";

class BadInputTest : public E2eTest {
 protected:
  // The message of a call that fails as a whole.
  std::string CallError(const v1::DecodeRequest& request, grpc::StatusCode code) {
    const grpc::Status status = Call(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return status.error_message();
  }
  std::string OptionsError(const v1::DecodeOptions& options) {
    v1::DecodeRequest request = Request({"cat"});
    *request.mutable_options() = options;
    return CallError(request, grpc::StatusCode::INVALID_ARGUMENT);
  }
  std::string InvalidSource(const v1::Source& source) {
    v1::DecodeRequest request = Request({});
    *request.add_sources() = source;
    const google::rpc::Status error = SourceError(request);
    EXPECT_EQ(error.code(), grpc::StatusCode::INVALID_ARGUMENT) << error.message();
    EXPECT_FALSE(error.message().empty());
    return error.message();
  }
};

TEST_F(BadInputTest, UnknownModelsAndVersions) {
  v1::DecodeRequest request = Request({"cat"});
  request.set_model("x");
  EXPECT_EQ(CallError(request, grpc::StatusCode::NOT_FOUND),
            "Request for unknown model: 'x' is not found; served: 'g2p-en'");
  request.set_model("g2p-en");
  request.set_version("2");
  EXPECT_EQ(CallError(request, grpc::StatusCode::NOT_FOUND),
            "Request for unknown model: 'g2p-en' version '2' is not found; served: '1'");
}

TEST_F(BadInputTest, NoSourcesOrTooMany) {
  EXPECT_THAT(CallError(Request({}), grpc::StatusCode::INVALID_ARGUMENT), HasSubstr("sources"));
  EXPECT_THAT(
      CallError(Request(std::vector<std::string>(4097, "a")), grpc::StatusCode::INVALID_ARGUMENT),
      HasSubstr("sources: more than 4096 elements; at most 4096 are allowed"));
}

TEST_F(BadInputTest, OptionsOutOfRangeAreNamedAllAtOnce) {
  v1::DecodeOptions options;
  options.set_beam_size(0);
  options.set_length_penalty_alpha(std::numeric_limits<float>::quiet_NaN());
  options.set_max_length(-5);
  options.set_stop(static_cast<v1::StopMode>(99));
  EXPECT_THAT(OptionsError(options),
              AllOf(HasSubstr("beam_size: 0"), HasSubstr("length_penalty_alpha: nan"),
                    HasSubstr("max_length: -5"), HasSubstr("stop: 99")));
}

TEST_F(BadInputTest, BeamsThatAreTooWide) {
  v1::DecodeOptions options;
  options.set_beam_size(1000000);
  EXPECT_THAT(OptionsError(options), HasSubstr("beam_size: 1000000"));
  options.set_beam_size(65);  // the model's own limit is 64
  EXPECT_THAT(OptionsError(options), AllOf(HasSubstr("beam_size"), HasSubstr("64")));
  options.set_beam_size(4);
  options.set_n_best(5);
  EXPECT_THAT(OptionsError(options), HasSubstr("n_best"));
}

TEST_F(BadInputTest, SourcesThatAreNone) {
  v1::Source source;
  InvalidSource(source);
  source.set_text("");
  EXPECT_THAT(InvalidSource(source), HasSubstr("empty"));
  source.mutable_ids();
  InvalidSource(source);
}

TEST_F(BadInputTest, IdsOutOfRange) {
  for (const int32_t bad :
       {-1, 30, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    v1::Source source;
    source.mutable_ids()->add_ids(5);
    source.mutable_ids()->add_ids(bad);
    EXPECT_THAT(InvalidSource(source), HasSubstr(std::to_string(bad)));
  }
}

TEST_F(BadInputTest, FeaturesForATextModel) {
  v1::Source source;
  v1::Tensor& features = *source.mutable_features();
  features.set_dtype("f32");
  features.add_shape(2);
  features.add_shape(3);
  features.set_data(std::string(24, '\0'));
  InvalidSource(source);
  features.set_data("short");
  InvalidSource(source);
  features.set_shape(0, -1);
  InvalidSource(source);
  features.set_shape(0, std::numeric_limits<int64_t>::max());
  InvalidSource(source);
}

TEST_F(BadInputTest, DecoderInputsOfWrongNameTypeShapeOrSize) {
  v1::Source source;
  source.mutable_decoder_inputs();
  InvalidSource(source);
  auto& memory = *source.mutable_decoder_inputs()->mutable_memory();
  v1::Tensor& tensor = memory["memory"];
  tensor.set_dtype("f32");
  tensor.add_shape(2);
  tensor.add_shape(511);  // 512 is what the graph takes
  tensor.set_data(std::string(2 * 511 * 4, '\0'));
  InvalidSource(source);
  tensor.set_shape(1, 512);
  InvalidSource(source);  // now the data is too short
  tensor.set_dtype("f31");
  InvalidSource(source);
  memory["no-such-input"] = tensor;
  InvalidSource(source);
  source.mutable_decoder_inputs()->set_source_length(-1);
  InvalidSource(source);
}

// Even those that the decoder would take, by every method: the encoder would have nothing to read.
TEST_F(BadInputTest, DecoderInputsForAModelWithAnEncoder) {
  v1::Source source;
  v1::DecoderInputs& inputs = *source.mutable_decoder_inputs();
  InvalidSource(source);
  const auto fill = [](v1::Tensor& tensor, const std::vector<int64_t>& shape) {
    tensor.set_dtype("f32");
    int64_t bytes = 4;
    for (const int64_t extent : shape) {
      tensor.add_shape(extent);
      bytes *= extent;
    }
    tensor.set_data(std::string(static_cast<size_t>(bytes), '\0'));
  };
  for (const std::string member : {"member0.", "member1."}) {
    fill((*inputs.mutable_memory())[member + "memory"], {3, 448});
    for (const char* state : {"h0_init", "c0_init", "h1_init", "c1_init"}) {
      fill((*inputs.mutable_states())[member + state], {224});
    }
  }
  const auto refused = HasSubstr("source.decoder_inputs: the model has an encoder; send text");
  EXPECT_THAT(InvalidSource(source), refused);

  v1::ScoreRequest score;
  score.set_model("g2p-en");
  *score.add_sources()->mutable_source() = source;
  score.mutable_sources(0)->add_targets()->set_text("K");
  v1::ScoreResponse scored;
  grpc::ClientContext score_context;
  const grpc::Status score_status = decode_->Score(&score_context, score, &scored);
  EXPECT_EQ(score_status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(score_status.error_message(), refused);

  v1::AlignRequest align;
  align.set_model("g2p-en");
  *align.add_pairs()->mutable_source() = source;
  align.mutable_pairs(0)->mutable_target()->set_text("K");
  v1::AlignResponse aligned;
  grpc::ClientContext align_context;
  const grpc::Status align_status = decode_->Align(&align_context, align, &aligned);
  EXPECT_EQ(align_status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(align_status.error_message(), refused);

  v1::StreamDecodeRequest stream;
  stream.set_model("g2p-en");
  *stream.mutable_source() = source;
  v1::StreamDecodeResponse part;
  grpc::ClientContext stream_context;
  const auto reader = decode_->StreamDecode(&stream_context, stream);
  EXPECT_FALSE(reader->Read(&part));
  const grpc::Status stream_status = reader->Finish();
  EXPECT_EQ(stream_status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(stream_status.error_message(), refused);
}

TEST_F(BadInputTest, SourcesThatAreTooLong) {
  v1::Source source;
  source.set_text(std::string(129, 'a'));  // the model's limit is 128
  EXPECT_THAT(InvalidSource(source), HasSubstr("128"));
  source.set_text(std::string(1 << 20, 'a'));
  InvalidSource(source);
}

TEST_F(BadInputTest, RequestsThatAreTooLarge) {
  EXPECT_EQ(Call(Request({std::string(17 << 20, 'a')})).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(BadInputTest, CompressedRequestsAreUnpackedWithinTheLimit) {
  const auto call = [&](const v1::DecodeRequest& request, grpc_compression_algorithm algorithm) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::DecodeResponse response;
    return decode_->Decode(&context, request, &response);
  };
  const v1::DecodeRequest good = Request(std::vector<std::string>(300, "cat"));
  const grpc::Status status = call(good, GRPC_COMPRESS_GZIP);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(call(good, GRPC_COMPRESS_DEFLATE).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  const grpc::Status large = call(Request({std::string(40 << 20, 'a')}), GRPC_COMPRESS_GZIP);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(large.error_message(), HasSubstr("when it is unpacked"));
}

TEST_F(BadInputTest, TextThatIsNotUtf8) {
  // sources { text: "\xff" }; protobuf would not write it, so the bytes are made by hand.
  const std::string bytes = {0x1A, 0x03, 0x0A, 0x01, static_cast<char>(0xFF)};
  const grpc::Status status = CallRaw(channel_, kDecode, bytes);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("beamwright.v1.DecodeRequest"), HasSubstr("not UTF-8")));
}

TEST_F(BadInputTest, BytesThatAreNoMessage) {
  std::mt19937 random(5);
  int refused = 0;
  for (int run = 0; run < 200; ++run) {
    std::string bytes(1 + random() % 60, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    for (const char* method : {kDecode, "/beamwright.v1.ModelService/DescribeModel"}) {
      const grpc::Status status = CallRaw(channel_, method, bytes);
      // A few are messages by chance, with unknown fields only.
      EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
          << status.error_code() << " " << status.error_message();
      refused += !status.ok();
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_EQ(CallRaw(channel_, "/beamwright.v1.DecodeService/NoSuchMethod", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(BadInputTest, GarbageOnThePort) {
  std::mt19937 random(6);
  for (int run = 0; run < 20; ++run) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->WaitForPort()));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    // Half of them start like HTTP/2.
    std::string bytes = run % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int i = 0; i < 4000; ++i) {
      bytes.push_back(static_cast<char>(random()));
    }
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
}

}  // namespace
}  // namespace beamwright::e2e
