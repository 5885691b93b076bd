#include "engine/bundle/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/rule.pb.h"
#include "engine/status/fault.h"
#include "google/protobuf/descriptor.h"

namespace beamwright::bundle {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const status::Faults& faults) {
  std::vector<std::string> lines;
  for (const status::Fault& fault : faults) {
    lines.push_back(status::ToString(fault));
  }
  return lines;
}

std::vector<std::string> Faults(const google::protobuf::Message& message) {
  status::Faults faults;
  CheckRules(message, "options", faults);
  return Lines(faults);
}

TEST(CheckRulesTest, NothingSetIsNothingWrong) {
  EXPECT_THAT(Faults(v1::DecodeOptions()), IsEmpty());
}

// Written out by hand: a range changed in the proto by mistake shows here.
struct Range {
  const char* field;
  double minimum;
  double maximum;
  const char* text;
};
constexpr Range kRanges[] = {
    {"beam_size", 1, 256, "outside [1, 256] hypotheses"},
    {"n_best", 1, 256, "outside [1, 256] hypotheses"},
    {"length_penalty_alpha", -10, 10, "outside [-10, 10]"},
    {"patience", 0.01, 100, "outside [0.01, 100]"},
    {"max_length", 1, 65536, "outside [1, 65536] tokens"},
    {"max_length_factor", 0, 1000, "outside [0, 1000] tokens per source token"},
    {"max_length_offset", 0, 65536, "outside [0, 65536] tokens"},
    {"min_length", 0, 65536, "outside [0, 65536] tokens"},
    {"min_length_factor", 0, 1000, "outside [0, 1000] tokens per source token"},
    {"word_reward", -100, 100, "outside [-100, 100] nats per token"},
    {"end_threshold", 0, 100, "outside [0, 100]"},
    {"coverage_penalty", 0, 100, "outside [0, 100]"},
    {"repetition_penalty", 0.01, 100, "outside [0.01, 100]"},
    {"no_repeat_ngram", 0, 64, "outside [0, 64] tokens"},
    {"temperature", 0.01, 100, "outside [0.01, 100]"},
    {"soft_prefix_weight", 0, 0.999, "outside [0, 0.999] of the probability"},
    {"num_alternatives", 0, 256, "outside [0, 256] hypotheses"},
    {"alternative_min_prob", 0, 1, "outside [0, 1]"},
    {"diverse_groups", 1, 256, "outside [1, 256] groups"},
    {"diversity_penalty", 0, 100, "outside [0, 100] nats"},
    {"top_p", 0.000001, 1, "outside [1e-06, 1] of the probability"},
    {"min_p", 0, 1, "outside [0, 1]"},
    {"top_tokens", 0, 64, "outside [0, 64] tokens"},
    {"trace", 0, 1024, "outside [0, 1024] candidates"},
    {"blank_penalty", -100, 100, "outside [-100, 100] nats"},
    {"max_symbols_per_frame", 1, 100, "outside [1, 100] tokens"},
    {"expansion", 1, 256, "outside [1, 256] tokens"},
};
// Bounded on one side or on none.
constexpr const char* kOpenRanges[] = {"score_threshold", "beam_threshold", "top_k", "seed",
                                       "frame_beam"};

void Set(v1::DecodeOptions& options, const char* name, double value) {
  const auto* field = options.GetDescriptor()->FindFieldByName(name);
  if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) {
    options.GetReflection()->SetFloat(&options, field, static_cast<float>(value));
  } else {
    options.GetReflection()->SetInt32(&options, field, static_cast<int32_t>(value));
  }
}

TEST(CheckRulesTest, BothEndsOfEveryRangeAreAllowedAndNothingBeyond) {
  for (const Range& range : kRanges) {
    const bool is_float =
        v1::DecodeOptions::descriptor()->FindFieldByName(range.field)->cpp_type() ==
        google::protobuf::FieldDescriptor::CPPTYPE_FLOAT;
    for (const double bound : {range.minimum, range.maximum}) {
      v1::DecodeOptions options;
      Set(options, range.field, bound);
      EXPECT_THAT(Faults(options), IsEmpty()) << range.field << " " << bound;
      const double out = bound == range.minimum ? -1 : 1;
      const double beyond = is_float
                                ? static_cast<double>(std::nextafter(
                                      static_cast<float>(bound), static_cast<float>(bound + out)))
                                : bound + out;
      Set(options, range.field, beyond);
      const std::vector<std::string> faults = Faults(options);
      ASSERT_EQ(faults.size(), 1u) << range.field << " " << beyond;
      EXPECT_THAT(faults[0], ::testing::StartsWith(std::string("options.") + range.field + ": "));
      EXPECT_THAT(faults[0], ::testing::EndsWith(std::string(" is ") + range.text));
    }
  }
}

TEST(CheckRulesTest, EveryNumericOptionIsInTheTable) {
  const auto* descriptor = v1::DecodeOptions::descriptor();
  int numbers = 0;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto type = descriptor->field(i)->cpp_type();
    numbers += type == google::protobuf::FieldDescriptor::CPPTYPE_INT32 ||
               type == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT;
    EXPECT_FALSE(descriptor->field(i)->options().GetExtension(v1::rule).text().empty())
        << descriptor->field(i)->name();
  }
  EXPECT_EQ(static_cast<size_t>(numbers), std::size(kRanges) + std::size(kOpenRanges));
}

TEST(CheckRulesTest, RangesOpenOnOneSide) {
  v1::DecodeOptions options;
  options.set_beam_threshold(-0.5f);
  options.set_top_k(-1);
  EXPECT_THAT(Faults(options), ElementsAre("options.beam_threshold: -0.5 is below 0 nats",
                                           "options.top_k: -1 is below 0 tokens"));
  options.set_beam_threshold(1e30f);
  options.set_top_k(std::numeric_limits<int32_t>::max());
  options.set_seed(std::numeric_limits<int32_t>::min());
  options.set_score_threshold(-1e30f);
  EXPECT_THAT(Faults(options), IsEmpty());
}

TEST(CheckRulesTest, TooManyElementsAreCountedAndNotVisited) {
  v1::DecodeOptions options;
  for (int i = 0; i < 33; ++i) {
    options.add_required_sequences()->set_text("\xff");
  }
  EXPECT_THAT(Faults(options),
              ElementsAre("options.required_sequences: 33 elements; at most 32 are allowed"));
}

TEST(CheckRulesTest, WhatIsNotFiniteIsRefused) {
  v1::DecodeOptions options;
  options.set_length_penalty_alpha(std::numeric_limits<float>::quiet_NaN());
  options.set_patience(std::numeric_limits<float>::infinity());
  EXPECT_THAT(Faults(options),
              ElementsAre("options.length_penalty_alpha: nan is not a finite number",
                          "options.patience: inf is not a finite number"));
}

TEST(CheckRulesTest, LargeNumbersAreWrittenInFull) {
  v1::DecodeOptions options;
  options.set_beam_size(1000000);
  options.set_max_length(std::numeric_limits<int32_t>::min());
  EXPECT_THAT(Faults(options),
              ElementsAre("options.beam_size: 1000000 is outside [1, 256] hypotheses",
                          "options.max_length: -2147483648 is outside [1, 65536] tokens"));
}

TEST(CheckRulesTest, UnknownEnumValuesAreRefusedUnspecifiedIsNot) {
  v1::DecodeOptions options;
  options.set_stop(static_cast<v1::StopMode>(17));
  options.set_length_penalty(v1::LENGTH_PENALTY_UNSPECIFIED);
  EXPECT_THAT(Faults(options),
              ElementsAre("options.stop: 17 is not a known value; known are STOP_MODE_UNSPECIFIED, "
                          "STOP_MODE_SAFE, STOP_MODE_FIRST, STOP_MODE_COUNT, STOP_MODE_NEVER, "
                          "STOP_MODE_HEURISTIC"));
}

TEST(CheckRulesTest, VisitsSubMessagesAndNamesThePath) {
  v1::ModelConfig config;
  config.mutable_default_options()->set_beam_size(0);
  config.mutable_limits()->set_max_beam_size(257);
  config.set_name("\xff");
  config.mutable_target()->add_end_tokens("fine");
  config.mutable_target()->add_end_tokens("\xC3");
  status::Faults faults;
  CheckRules(config, "", faults);
  EXPECT_THAT(Lines(faults),
              ElementsAre("name: not UTF-8 at byte 0", "target.end_tokens[1]: not UTF-8 at byte 0",
                          "default_options.beam_size: 0 is outside [1, 256] hypotheses",
                          "limits.max_beam_size: 257 is outside [0, 256] hypotheses"));
}

TEST(ApplyDefaultsTest, TheFieldsOwnDefaultsAreThoseOfTheDocumentation) {
  v1::DecodeOptions options;
  ApplyDefaults(v1::DecodeOptions(), options);
  EXPECT_EQ(options.beam_size(), 4);
  EXPECT_EQ(options.n_best(), 1);
  EXPECT_EQ(options.length_penalty(), v1::LENGTH_PENALTY_NONE);
  EXPECT_EQ(options.length_penalty_alpha(), 1);
  EXPECT_EQ(options.stop(), v1::STOP_MODE_SAFE);
  EXPECT_EQ(options.patience(), 1);
  EXPECT_FALSE(options.has_max_length());
  EXPECT_EQ(options.max_length_factor(), 2);
  EXPECT_EQ(options.max_length_offset(), 10);
}

TEST(ApplyDefaultsTest, RequestBeforeModelBeforeFieldDefault) {
  v1::DecodeOptions model;
  model.set_beam_size(8);
  model.set_n_best(3);
  model.set_max_length(50);
  v1::DecodeOptions request;
  request.set_beam_size(2);
  ApplyDefaults(model, request);
  EXPECT_EQ(request.beam_size(), 2);
  EXPECT_EQ(request.n_best(), 3);
  EXPECT_EQ(request.max_length(), 50);
  EXPECT_EQ(request.stop(), v1::STOP_MODE_SAFE);
}

TEST(ApplyDefaultsTest, AnExplicitZeroIsAnAnswer) {
  v1::DecodeOptions model;
  model.set_max_length_factor(3);
  v1::DecodeOptions request;
  request.set_max_length_factor(0);
  request.set_beam_size(0);
  ApplyDefaults(model, request);
  EXPECT_EQ(request.max_length_factor(), 0);
  EXPECT_EQ(request.beam_size(), 0);
}

TEST(ApplyDefaultsTest, UnspecifiedIsUnset) {
  v1::DecodeOptions model;
  model.set_stop(v1::STOP_MODE_NEVER);
  model.set_length_penalty(v1::LENGTH_PENALTY_UNSPECIFIED);
  v1::DecodeOptions request;
  request.set_stop(v1::STOP_MODE_UNSPECIFIED);
  ApplyDefaults(model, request);
  EXPECT_EQ(request.stop(), v1::STOP_MODE_NEVER);
  EXPECT_EQ(request.length_penalty(), v1::LENGTH_PENALTY_NONE);
}

TEST(ApplyDefaultsTest, AMessageIsTakenAsAWhole) {
  v1::DecodeOptions model;
  model.mutable_suppress_tokens()->mutable_ids()->add_ids(1);
  v1::DecodeOptions none;
  ApplyDefaults(model, none);
  EXPECT_THAT(none.suppress_tokens().ids().ids(), ElementsAre(1));
  v1::DecodeOptions own;
  own.mutable_suppress_tokens()->mutable_ids()->add_ids(2);
  ApplyDefaults(model, own);
  EXPECT_THAT(own.suppress_tokens().ids().ids(), ElementsAre(2));
}

TEST(ApplyDefaultsTest, ARepeatedFieldIsTakenAsAWhole) {
  v1::TextConfig model;
  model.add_end_tokens("a");
  v1::TextConfig none;
  ApplyDefaults(model, none);
  EXPECT_THAT(none.end_tokens(), ElementsAre("a"));
  v1::TextConfig own;
  own.add_end_tokens("b");
  ApplyDefaults(model, own);
  EXPECT_THAT(own.end_tokens(), ElementsAre("b"));
}

}  // namespace
}  // namespace beamwright::bundle
